//go:build js

package main

import (
	"fmt"
	"sort"
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"
)

// policy is a compiled bundle whose entry point was found (newer-clients 6.3).
type policy struct {
	*bundle
	compiler *ast.Compiler
	params   params
	// path of the policy package, with data
	path    ast.Ref
	outputs []string
	// whether violations is an output, and whether the package has such a rule at all
	annotatesViolations, hasViolations bool
	// whether allow has a value for every input, and where its first rule is
	isTotal bool
	allowAt string
}

func open(files map[string]string) (*policy, *Failure) {
	b, failure := load(files, false)
	if failure != nil {
		return nil, failure
	}
	p := &policy{bundle: b}
	p.compiler, failure = b.compile(b.modules, false, func(c *ast.Compiler) { p.params.find(c) })
	if failure != nil {
		return nil, failure
	}
	if failure := p.findEntrypoint(); failure != nil {
		return nil, failure
	}
	return p, nil
}

// mark is a rule or package with the annotation entrypoint: true.
type mark struct {
	rule     *ast.Rule // nil for a package
	path     string    // of the package
	location string
}

func (p *policy) findEntrypoint() *Failure {
	candidates := map[string]ast.Ref{}
	for _, module := range p.modules {
		for _, rule := range module.Rules {
			if nameOf(rule) == "allow" && !isFunction(rule) {
				candidates[module.Package.Path.String()] = module.Package.Path
			}
		}
	}
	marks := p.findMarks()
	chosen, failure := choose(candidates, marks)
	if failure != nil {
		return failure
	}
	p.path = candidates[chosen]
	p.inspectRules()
	return p.collectOutputs(marks)
}

func choose(candidates map[string]ast.Ref, marks []mark) (string, *Failure) {
	if len(candidates) == 0 {
		return "", &Failure{"entrypoint", "No package declares a rule named allow"}
	}
	names := sortedKeys(candidates)
	if len(names) == 1 {
		return names[0], nil
	}
	marked := map[string]bool{}
	for _, m := range marks {
		if _, ok := candidates[m.path]; ok && (m.rule == nil || nameOf(m.rule) == "allow") {
			marked[m.path] = true
		}
	}
	if len(marked) != 1 {
		return "", &Failure{"entrypoint", fmt.Sprintf(
			"%d packages declare allow (%s), so exactly one of them must be annotated with 'entrypoint: true': %d are",
			len(names), strings.Join(names, ", "), len(marked))}
	}
	return sortedKeys(marked)[0], nil
}

func (p *policy) findMarks() []mark {
	var marks []mark
	for _, name := range sortedKeys(p.modules) {
		module := p.modules[name]
		for _, a := range module.Annotations {
			if !a.Entrypoint {
				continue
			}
			m := mark{path: module.Package.Path.String(), location: fmt.Sprintf("%s:%d", name, a.Location.Row)}
			if a.Scope != "package" && a.Scope != "subpackages" {
				m.rule = ruleAfter(module, a)
			}
			marks = append(marks, m)
		}
	}
	return marks
}

// ruleAfter finds the rule that an annotation stands above.
func ruleAfter(module *ast.Module, a *ast.Annotations) *ast.Rule {
	var found *ast.Rule
	for _, rule := range module.Rules {
		if rule.Location.Row > a.Location.Row && (found == nil || rule.Location.Row < found.Location.Row) {
			found = rule
		}
	}
	return found
}

func (p *policy) inspectRules() {
	for _, name := range sortedKeys(p.modules) {
		module := p.modules[name]
		if !module.Package.Path.Equal(p.path) {
			continue
		}
		for _, rule := range module.Rules {
			if isFunction(rule) {
				continue
			}
			switch nameOf(rule) {
			case "allow":
				p.isTotal = p.isTotal || isTotal(rule)
				if p.allowAt == "" {
					p.allowAt = fmt.Sprintf("%s:%d", name, rule.Location.Row)
				}
			case "violations":
				p.hasViolations = true
			}
		}
	}
}

// isTotal tells rules that always have a value: a default, or true or false without a condition.
func isTotal(rule *ast.Rule) bool {
	if rule == nil || rule.Default {
		return rule != nil
	}
	// That of a set has no value.
	if rule.Head.Value == nil {
		return false
	}
	_, isConstant := rule.Head.Value.Value.(ast.Boolean)
	isUnconditional := len(rule.Body) == 1 && rule.Body[0].Equal(ast.NewExpr(ast.BooleanTerm(true)))
	return (isConstant && isUnconditional) || isTotal(rule.Else)
}

func isFunction(rule *ast.Rule) bool { return len(rule.Head.Args) > 0 }

func (p *policy) collectOutputs(marks []mark) *Failure {
	outputs := map[string]bool{}
	for _, m := range marks {
		switch {
		case m.path != p.path.String():
			return &Failure{"entrypoint", fmt.Sprintf("%s: an entry point must be in the policy package %s", m.location, p.path)}
		case m.rule == nil:
			continue
		case isFunction(m.rule):
			return &Failure{"entrypoint", fmt.Sprintf("%s: a function cannot be an entry point", m.location)}
		}
		name := nameOf(m.rule)
		p.annotatesViolations = p.annotatesViolations || name == "violations"
		if name != "allow" && name != "violations" {
			outputs[name] = true
		}
	}
	p.outputs = sortedKeys(outputs)
	return nil
}

// nameOf is the first name of a rule: reasons of reasons.first, whose value is then an object with all such rules.
func nameOf(rule *ast.Rule) string {
	if ref := rule.Head.Ref(); len(ref) > 0 {
		if name, ok := ref[0].Value.(ast.Var); ok {
			return string(name)
		}
	}
	return ""
}

// check loads a bundle without running it (newer-clients 5.3).
func check(files map[string]string) Reply {
	p, failure := open(files)
	if failure != nil {
		return failed(failure)
	}
	report := &Report{
		Package:  strings.TrimPrefix(p.path.String(), "data."),
		Outputs:  p.outputs,
		Params:   p.params.list(),
		Warnings: p.params.warnings(),
	}
	if p.annotatesViolations {
		report.Outputs = append(report.Outputs, "violations")
		sort.Strings(report.Outputs)
	}
	if !p.isTotal {
		report.Warnings = append(report.Warnings,
			p.allowAt+": allow has no default, so an evaluation fails where no rule gives it a value: add 'default allow := false'")
	}
	return Reply{Report: report}
}
