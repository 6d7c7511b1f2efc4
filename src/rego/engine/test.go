//go:build js

package main

import (
	"bytes"
	"context"
	"fmt"
	"sort"
	"strings"
	"time"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/rego"
	"github.com/open-policy-agent/opa/v1/storage"
	"github.com/open-policy-agent/opa/v1/storage/inmem"
	"github.com/open-policy-agent/opa/v1/topdown/print"
)

// test runs the rules of a bundle whose names start with test_; those that start with todo_test_ are skipped.
func test(r *Request, t *timer) Reply {
	b, failure := load(r.Files, true)
	if failure != nil {
		return failed(failure)
	}
	modules := map[string]*ast.Module{}
	for _, group := range []map[string]*ast.Module{b.modules, b.tests} {
		for name, module := range group {
			modules[name] = module
		}
	}
	compiler, failure := b.compile(modules, true, nil)
	if failure != nil {
		return failed(failure)
	}
	at, data, failure := (&policy{bundle: b}).baseDocument(r)
	if failure != nil {
		return failed(failure)
	}
	store := inmem.NewFromObjectWithOpts(data, inmem.OptRoundTripOnWrite(false))
	results := []TestResult{}
	for _, rule := range findTests(compiler) {
		result := TestResult{
			Package: strings.TrimPrefix(rule.Module.Package.Path.String(), "data."),
			Name:    nameOf(rule),
			File:    rule.Location.File,
			Line:    rule.Location.Row,
			Outcome: "pass",
		}
		var printed bytes.Buffer
		switch {
		case strings.HasPrefix(result.Name, "todo_"):
			result.Outcome = "skip"
		case len(rule.Head.Ref()) > 1 || len(rule.Head.Args) > 0:
			// Cases that are undefined would not be seen, and so pass.
			result.Outcome, printed = "error", *bytes.NewBufferString("a test with cases is not supported: write one rule for each")
		default:
			rs, err := run(rule, r, at, compiler, store, t, &printer{&printed})
			if t.cancelled {
				return failed(&Failure{timeIsOver, fmt.Sprintf("%s:%d", result.File, result.Line)})
			}
			if err != nil {
				result.Outcome = "error"
				printed.WriteString(strings.Join(errorTexts(err), "\n"))
			} else if !rs.Allowed() {
				result.Outcome = "fail"
			}
		}
		result.Message = cut(strings.ToValidUTF8(printed.String(), "\uFFFD"), maxMessageBytes)
		results = append(results, result)
	}
	return Reply{Tests: results}
}

// run evaluates the rule of a test.
func run(rule *ast.Rule, r *Request, at time.Time, compiler *ast.Compiler, store storage.Store, t *timer, p *printer) (rego.ResultSet, error) {
	ctx := context.Background()
	query, err := rego.New(
		rego.Compiler(compiler),
		rego.Query(rule.Path().String()),
		rego.Store(store),
	).PrepareForEval(ctx)
	if err != nil {
		return nil, err
	}
	return query.Eval(ctx,
		rego.EvalTime(at),
		rego.EvalSeed(newStream(r.Seed)),
		rego.EvalExternalCancel(t),
		rego.EvalPrintHook(p),
	)
}

// findTests lists one rule for each name, in the order of files and lines.
func findTests(compiler *ast.Compiler) []*ast.Rule {
	found := map[string]*ast.Rule{}
	for _, module := range compiler.Modules {
		for _, rule := range module.Rules {
			name := nameOf(rule)
			if !strings.HasPrefix(name, "test_") && !strings.HasPrefix(name, "todo_test_") {
				continue
			}
			path := rule.Path().String()
			if other, ok := found[path]; !ok || rule.Location.Row < other.Location.Row {
				found[path] = rule
			}
		}
	}
	rules := make([]*ast.Rule, 0, len(found))
	for _, rule := range found {
		rules = append(rules, rule)
	}
	sort.Slice(rules, func(i, j int) bool {
		a, b := rules[i].Location, rules[j].Location
		if a.File != b.File {
			return a.File < b.File
		}
		return a.Row < b.Row
	})
	return rules
}

// printer collects what a test prints.
type printer struct{ to *bytes.Buffer }

func (p *printer) Print(c print.Context, text string) error {
	if p.to.Len() < maxMessageBytes {
		fmt.Fprintf(p.to, "%s:%d: %s\n", c.Location.File, c.Location.Row, text)
	}
	return nil
}
