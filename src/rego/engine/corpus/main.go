// Records what OPA itself, as a native program, says to the policies of the corpus. It shares no code with the engine, so
// that a comparison finds mistakes of both the engine's glue and its compilation to WebAssembly.
//
//	go run ./corpus DIRECTORY
//
// reads DIRECTORY/*.rego and writes DIRECTORY/verdicts.jsonl, or standard output if - follows: one row for each case of
// each policy.
//
// A policy ends in its cases, one comment each: `#: {"input": ..., "params": {...}}`. Without any, it has one with an
// empty input. `#: file PATH` begins a further file of the bundle.
package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"time"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/rego"
	"github.com/open-policy-agent/opa/v1/storage/inmem"
)

// timeNs and seed of every case, which the test gives to the engine too.
const timeNs = 1757000000500000000
const seed = "corpus"

type testCase struct {
	Input  json.RawMessage `json:"input"`
	Params json.RawMessage `json:"params"`
}

// row is a line of the result. Value is left out where the rule is undefined; Error is the text of OPA.
type row struct {
	Policy string                     `json:"policy"`
	Case   int                        `json:"case"`
	Input  json.RawMessage            `json:"input"`
	Params json.RawMessage            `json:"params"`
	Values map[string]json.RawMessage `json:"values,omitempty"`
	Error  string                     `json:"error,omitempty"`
}

func main() {
	directory := os.Args[1]
	paths, err := filepath.Glob(filepath.Join(directory, "*.rego"))
	check(err)
	sort.Strings(paths)
	var out bytes.Buffer
	for _, path := range paths {
		text, err := os.ReadFile(path)
		check(err)
		files, cases := split(string(text))
		for i, c := range cases {
			r := row{Policy: strings.TrimSuffix(filepath.Base(path), ".rego"), Case: i + 1, Input: c.Input, Params: c.Params}
			if r.Values, err = evaluate(files, c); err != nil {
				r.Error = err.Error()
			}
			out.Write(encode(r))
		}
	}
	if len(os.Args) > 2 && os.Args[2] == "-" {
		os.Stdout.Write(out.Bytes())
		return
	}
	check(os.WriteFile(filepath.Join(directory, "verdicts.jsonl"), out.Bytes(), 0o644))
	fmt.Printf("%d rows of %d policies\n", bytes.Count(out.Bytes(), []byte("\n")), len(paths))
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}

// split takes a file of the corpus apart, into the files of the bundle and the cases.
func split(text string) (map[string]string, []testCase) {
	files, cases := map[string]string{}, []testCase{}
	name := "policy.rego"
	for _, line := range strings.Split(strings.TrimSuffix(text, "\n"), "\n") {
		if rest, ok := strings.CutPrefix(line, "#: file "); ok {
			name = rest
		} else if rest, ok := strings.CutPrefix(line, "#: "); ok {
			c := testCase{Params: json.RawMessage("{}")}
			check(json.Unmarshal([]byte(rest), &c))
			cases = append(cases, c)
		} else {
			files[name] += line + "\n"
		}
	}
	if len(cases) == 0 {
		cases = append(cases, testCase{json.RawMessage("{}"), json.RawMessage("{}")})
	}
	return files, cases
}

func evaluate(files map[string]string, c testCase) (map[string]json.RawMessage, error) {
	var options []func(*rego.Rego)
	data := map[string]any{"kosli": map[string]any{"evaluation_time": json.Number(fmt.Sprint(timeNs))}}
	names := make([]string, 0, len(files))
	for name := range files {
		names = append(names, name)
	}
	sort.Strings(names)
	for _, name := range names {
		if name == "data.json" {
			var more map[string]any
			check(decode([]byte(files[name]), &more))
			for key, value := range more {
				data[key] = value
			}
			continue
		}
		options = append(options, rego.Module(name, files[name]))
	}
	var params any
	check(decode(c.Params, &params))
	data["params"] = params
	input, err := ast.ValueFromReader(bytes.NewReader(c.Input))
	check(err)
	module, err := ast.ParseModuleWithOpts("policy.rego", files["policy.rego"], ast.ParserOptions{ProcessAnnotation: true})
	if err != nil {
		return nil, err
	}
	values := map[string]json.RawMessage{}
	for _, name := range asked(module) {
		query := append([]func(*rego.Rego){
			rego.Query(module.Package.Path.String() + "." + name),
			rego.Store(inmem.NewFromObject(data)),
			rego.ParsedInput(input),
			rego.Time(time.Unix(0, timeNs).UTC()),
			rego.Seed(&stream{}),
		}, options...)
		results, err := rego.New(query...).Eval(context.Background())
		if err != nil {
			return nil, err
		}
		if len(results) > 0 {
			var buffer bytes.Buffer
			encoder := json.NewEncoder(&buffer)
			encoder.SetEscapeHTML(false)
			// OPA has numbers that JSON has not, such as that of to_number(".5").
			if err := encoder.Encode(results[0].Expressions[0].Value); err != nil {
				return nil, err
			}
			values[name] = bytes.TrimSpace(buffer.Bytes())
		}
	}
	return values, nil
}

// asked are allow, violations, and every rule below an annotation that makes it an entry point.
func asked(module *ast.Module) []string {
	names := map[string]bool{"allow": true}
	for _, rule := range module.Rules {
		name := rule.Head.Ref()[0].Value.String()
		if name == "violations" {
			names[name] = true
		}
		for _, a := range rule.Annotations {
			if a.Entrypoint {
				names[name] = true
			}
		}
	}
	list := make([]string, 0, len(names))
	for name := range names {
		list = append(list, name)
	}
	sort.Strings(list)
	return list
}

func decode(text []byte, to any) error {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	return decoder.Decode(to)
}

func encode(value any) []byte {
	var buffer bytes.Buffer
	encoder := json.NewEncoder(&buffer)
	encoder.SetEscapeHTML(false)
	check(encoder.Encode(value))
	return buffer.Bytes()
}

// stream is the randomness that the engine makes of a seed (engine/stream.go).
type stream struct {
	counter uint64
	rest    []byte
}

func (s *stream) Read(to []byte) (int, error) {
	for n := 0; n < len(to); {
		if len(s.rest) == 0 {
			block := sha256.Sum256(binary.BigEndian.AppendUint64([]byte(seed+"\x00"), s.counter))
			s.counter++
			s.rest = block[:]
		}
		copied := copy(to[n:], s.rest)
		s.rest = s.rest[copied:]
		n += copied
	}
	return len(to), nil
}
