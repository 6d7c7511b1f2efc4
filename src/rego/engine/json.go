//go:build js

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/open-policy-agent/opa/v1/ast"
)

// maxDepth is that of OPA's own reader.
const maxDepth = 10_000

// readValue reads JSON into a value of OPA in one pass: OPA itself first makes a tree of Go values, which takes most of
// the time and half of the memory of an evaluation of a large input. Numbers keep their digits, of equal keys the last
// one counts, and texts are those of encoding/json.
func readValue(text []byte) (ast.Value, error) {
	r := &reader{text: text, terms: map[string]*ast.Term{}}
	term, err := r.value(0)
	if err != nil {
		return nil, err
	}
	if r.blank(); r.at < len(r.text) {
		return nil, r.unexpected()
	}
	return term.Value, nil
}

type reader struct {
	text []byte
	at   int
	// terms of the short texts so far: keys and words come again
	terms map[string]*ast.Term
}

const (
	maxSharedBytes = 64
	maxShared      = 10_000
)

func (r *reader) value(depth int) (*ast.Term, error) {
	if depth > maxDepth {
		return nil, errors.New("exceeded max depth")
	}
	r.blank()
	if r.at == len(r.text) {
		return nil, r.unexpected()
	}
	switch c := r.text[r.at]; {
	case c == '{':
		return r.object(depth)
	case c == '[':
		return r.array(depth)
	case c == '"':
		return r.string()
	case c == '-' || isDigit(c):
		return r.number()
	}
	for _, word := range words {
		if bytes.HasPrefix(r.text[r.at:], word.text) {
			r.at += len(word.text)
			return word.term, nil
		}
	}
	return nil, r.unexpected()
}

var words = []struct {
	text []byte
	term *ast.Term
}{{[]byte("true"), ast.BooleanTerm(true)}, {[]byte("false"), ast.BooleanTerm(false)}, {[]byte("null"), ast.NullTerm()}}

func (r *reader) object(depth int) (*ast.Term, error) {
	r.at++
	var pairs [][2]*ast.Term
	for isFirst := true; !r.skip('}'); isFirst = false {
		if !isFirst && !r.skip(',') {
			return nil, r.unexpected()
		}
		if r.blank(); r.at == len(r.text) || r.text[r.at] != '"' {
			return nil, r.unexpected()
		}
		key, err := r.string()
		if err != nil {
			return nil, err
		}
		if !r.skip(':') {
			return nil, r.unexpected()
		}
		value, err := r.value(depth + 1)
		if err != nil {
			return nil, err
		}
		pairs = append(pairs, [2]*ast.Term{key, value})
	}
	return ast.ObjectTerm(withoutRepeats(pairs)...), nil
}

// withoutRepeats keeps the last of several pairs with the same key, in the place of the first.
func withoutRepeats(pairs [][2]*ast.Term) [][2]*ast.Term {
	var places map[ast.Value]int
	if len(pairs) > maxCompared {
		places = make(map[ast.Value]int, len(pairs))
	}
	kept := pairs[:0]
	for _, pair := range pairs {
		key := pair[0].Value
		place, isRepeated := places[key]
		for i := 0; places == nil && i < len(kept) && !isRepeated; i++ {
			place, isRepeated = i, kept[i][0].Value == key
		}
		if isRepeated {
			kept[place][1] = pair[1]
			continue
		}
		if places != nil {
			places[key] = len(kept)
		}
		kept = append(kept, pair)
	}
	return kept
}

// maxCompared is the size up to which comparing all keys is faster than a map of them.
const maxCompared = 16

func (r *reader) array(depth int) (*ast.Term, error) {
	r.at++
	var items []*ast.Term
	for isFirst := true; !r.skip(']'); isFirst = false {
		if !isFirst && !r.skip(',') {
			return nil, r.unexpected()
		}
		item, err := r.value(depth + 1)
		if err != nil {
			return nil, err
		}
		items = append(items, item)
	}
	return ast.ArrayTerm(items...), nil
}

// string reads a text. encoding/json reads those with escapes, or with bytes that are not UTF-8.
func (r *reader) string() (*ast.Term, error) {
	start := r.at
	isPlain := true
	for r.at++; r.at < len(r.text); r.at++ {
		switch c := r.text[r.at]; {
		case c == '\\':
			isPlain = false
			r.at++
		case c < ' ':
			return nil, r.unexpected()
		case c == '"':
			r.at++
			content := r.text[start+1 : r.at-1]
			if isPlain && utf8.Valid(content) {
				return r.share(content), nil
			}
			var text string
			err := json.Unmarshal(r.text[start:r.at], &text)
			return ast.StringTerm(text), err
		}
	}
	r.at = len(r.text)
	return nil, r.unexpected()
}

func (r *reader) share(content []byte) *ast.Term {
	if term, ok := r.terms[string(content)]; ok {
		return term
	}
	text := string(content)
	term := ast.StringTerm(text)
	if len(content) <= maxSharedBytes && len(r.terms) < maxShared {
		r.terms[text] = term
	}
	return term
}

// number reads digits as they are.
func (r *reader) number() (*ast.Term, error) {
	start := r.at
	if r.text[r.at] == '-' {
		r.at++
	}
	if !r.digits() || (r.text[start] == '0' && r.at > start+1) || (r.text[start] == '-' && r.text[start+1] == '0' && r.at > start+2) {
		return nil, r.unexpected()
	}
	if r.at < len(r.text) && r.text[r.at] == '.' {
		if r.at++; !r.digits() {
			return nil, r.unexpected()
		}
	}
	if r.at < len(r.text) && (r.text[r.at] == 'e' || r.text[r.at] == 'E') {
		if r.at++; r.at < len(r.text) && (r.text[r.at] == '+' || r.text[r.at] == '-') {
			r.at++
		}
		if !r.digits() {
			return nil, r.unexpected()
		}
	}
	return ast.NumberTerm(json.Number(r.text[start:r.at])), nil
}

func (r *reader) digits() bool {
	start := r.at
	for r.at < len(r.text) && isDigit(r.text[r.at]) {
		r.at++
	}
	return r.at > start
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

func (r *reader) blank() {
	for r.at < len(r.text) && (r.text[r.at] == ' ' || r.text[r.at] == '\n' || r.text[r.at] == '\t' || r.text[r.at] == '\r') {
		r.at++
	}
}

// skip moves over a character, and blanks before it.
func (r *reader) skip(c byte) bool {
	if r.blank(); r.at == len(r.text) || r.text[r.at] != c {
		return false
	}
	r.at++
	return true
}

func (r *reader) unexpected() error {
	if r.at >= len(r.text) {
		return errors.New("unexpected end")
	}
	return fmt.Errorf("unexpected character %q after %d bytes", r.text[r.at], r.at)
}
