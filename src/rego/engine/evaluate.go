//go:build js

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	// Policies may name time zones, and there is no file system to read them from.
	_ "time/tzdata"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/rego"
	"github.com/open-policy-agent/opa/v1/storage/inmem"
)

// maxResultBytes bounds the JSON of a result (newer-clients 6.6).
const maxResultBytes = 1 << 20

// evaluate runs the policy of a bundle on an input document (newer-clients 6.3 and 6.4).
func evaluate(r *Request, input []byte, t *timer) Reply {
	p, failure := open(r.Files)
	if failure != nil {
		return failed(failure)
	}
	value, err := readValue(input)
	if err != nil {
		return failed(&Failure{"input_shape", "The input document cannot be read: " + err.Error()})
	}
	at, data, failure := p.baseDocument(r)
	if failure != nil {
		return failed(failure)
	}
	ctx := context.Background()
	query, err := rego.New(
		rego.Compiler(p.compiler),
		rego.Query(p.query()),
		rego.Store(inmem.NewFromObjectWithOpts(data, inmem.OptRoundTripOnWrite(false))),
	).PrepareForEval(ctx)
	if err != nil {
		return failed(&Failure{"compile", err.Error()})
	}
	// Options of rego.New for time and seed would have no effect on a prepared query.
	results, err := query.Eval(ctx,
		rego.EvalParsedInput(value),
		rego.EvalTime(at),
		rego.EvalSeed(newStream(r.Seed)),
		rego.EvalExternalCancel(t),
		rego.EvalSortSets(true),
	)
	if t.cancelled {
		return failed(&Failure{timeIsOver, ""})
	}
	if err != nil {
		return failed(&Failure{"evaluate", strings.Join(errorTexts(err), "\n")})
	}
	if len(results) != 1 {
		return failed(&Failure{"evaluate", "the query has no result"})
	}
	verdict, failure := p.shape(results[0].Bindings)
	if failure != nil {
		return failed(failure)
	}
	return Reply{Verdict: verdict}
}

// baseDocument is what the policy finds below data: that of the bundle, the parameters, and the time.
func (p *policy) baseDocument(r *Request) (time.Time, map[string]any, *Failure) {
	nanoseconds, err := strconv.ParseInt(r.Time, 10, 64)
	if err != nil {
		return time.Time{}, nil, &Failure{"input_shape", err.Error()}
	}
	var params map[string]any
	decoder := json.NewDecoder(bytes.NewReader(r.Params))
	decoder.UseNumber()
	if err := decoder.Decode(&params); err != nil || params == nil {
		return time.Time{}, nil, &Failure{"input_shape", "The parameters are not a JSON object"}
	}
	data := map[string]any{}
	for key, value := range p.data {
		data[key] = value
	}
	data["params"] = params
	data["kosli"] = map[string]any{"evaluation_time": json.Number(r.Time)}
	return time.Unix(0, nanoseconds).UTC(), data, nil
}

// query asks for everything at once, so that rules which allow, violations and outputs share are evaluated once. Each
// answer is a list, which is empty for an undefined rule. Violations of a policy that allows are not asked for.
func (p *policy) query() string {
	ref := func(name string) string { return p.path.Append(ast.StringTerm(name)).String() }
	parts := []string{fmt.Sprintf("allow_values := [x | x := %s]", ref("allow"))}
	if p.hasViolations {
		guard := "allow_values != [true]; "
		if p.annotatesViolations {
			guard = ""
		}
		parts = append(parts, fmt.Sprintf("violation_values := [x | %sx := %s]", guard, ref("violations")))
	}
	for i, name := range p.outputs {
		parts = append(parts, fmt.Sprintf("output_%d := [x | x := %s]", i, ref(name)))
	}
	return strings.Join(parts, "; ")
}

// shape turns the answers of the query into a verdict.
func (p *policy) shape(bindings rego.Vars) (*Verdict, *Failure) {
	allows := bindings["allow_values"].([]any)
	if len(allows) == 0 {
		return nil, &Failure{"result_shape", fmt.Sprintf("%s.allow is undefined: it must be true or false", p.path)}
	}
	allow, ok := allows[0].(bool)
	if !ok {
		return nil, &Failure{"result_shape", fmt.Sprintf("%s.allow must be true or false, but is %s", p.path, kindOf(allows[0]))}
	}
	verdict := &Verdict{Allow: allow, Violations: []string{}, Outputs: map[string]json.RawMessage{}}
	if values, ok := bindings["violation_values"].([]any); ok && len(values) > 0 {
		members, ok := values[0].([]any)
		if !ok {
			return nil, &Failure{"result_shape",
				fmt.Sprintf("%s.violations must be a set or a list, but is %s", p.path, kindOf(values[0]))}
		}
		for _, member := range members {
			text, isText := member.(string)
			if !isText {
				json, err := encode(member)
				if err != nil {
					return nil, p.notJSON("violations", err)
				}
				text = string(json)
			}
			verdict.Violations = append(verdict.Violations, text)
		}
	}
	for i, name := range p.outputs {
		if values := bindings[fmt.Sprintf("output_%d", i)].([]any); len(values) > 0 {
			json, err := encode(values[0])
			if err != nil {
				return nil, p.notJSON(name, err)
			}
			verdict.Outputs[name] = json
		}
	}
	if size := len(textOf(verdict)); size > maxResultBytes {
		return nil, &Failure{"result_shape", fmt.Sprintf("The result is %d bytes, over the limit of %d", size, maxResultBytes)}
	}
	return verdict, nil
}

func (p *policy) notJSON(name string, err error) *Failure {
	return &Failure{"result_shape", fmt.Sprintf("%s.%s has a value that is not JSON: %s", p.path, name, err)}
}

func kindOf(value any) string {
	switch value.(type) {
	case nil:
		return "null"
	case bool:
		return "a boolean"
	case string:
		return "a string"
	case json.Number:
		return "a number"
	case []any:
		return "a set or a list"
	}
	return "an object"
}
