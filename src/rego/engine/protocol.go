//go:build js

package main

import (
	"encoding/json"
	"strings"
	"unicode/utf8"
)

// Request is the JSON of a call. Params is a JSON object, Time decimal nanoseconds since the epoch.
type Request struct {
	Files  map[string]string `json:"files"`
	Params json.RawMessage   `json:"params"`
	Time   string            `json:"time"`
	Seed   string            `json:"seed"`
}

// Failure says why there is no result: a kind of newer-clients 6.5 or timeIsOver, and the text with file and line.
type Failure struct {
	Kind    string `json:"kind"`
	Message string `json:"message"`
}

// timeIsOver is the kind of a call that was cancelled. The host knows how much time there was.
const timeIsOver = "time"

// Report says what a bundle is, without running it. Params is null where a name is computed.
type Report struct {
	Package  string   `json:"package"`
	Outputs  []string `json:"outputs"`
	Params   []string `json:"params"`
	Warnings []string `json:"warnings"`
}

// Verdict is the result of an evaluation. Outputs are by the names of their rules.
type Verdict struct {
	Allow      bool                       `json:"allow"`
	Violations []string                   `json:"violations"`
	Outputs    map[string]json.RawMessage `json:"outputs"`
}

// TestResult is the outcome of one test rule: pass, fail, error or skip.
type TestResult struct {
	Package string `json:"package"`
	Name    string `json:"name"`
	File    string `json:"file"`
	Line    int    `json:"line"`
	Outcome string `json:"outcome"`
	Message string `json:"message"`
}

// Reply has one of its members.
type Reply struct {
	Report  *Report      `json:"report,omitempty"`
	Verdict *Verdict     `json:"verdict,omitempty"`
	Tests   []TestResult `json:"tests"`
	Error   *Failure     `json:"error,omitempty"`
}

// maxMessageBytes bounds the text of a failure (newer-clients 6.5).
const maxMessageBytes = 4096

func failed(f *Failure) Reply {
	return Reply{Error: &Failure{f.Kind, cut(strings.ToValidUTF8(f.Message, "\uFFFD"), maxMessageBytes)}}
}

// cut shortens a text to so many bytes, between two characters.
func cut(text string, max int) string {
	if len(text) <= max {
		return text
	}
	end := max - len("...")
	for !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + "..."
}
