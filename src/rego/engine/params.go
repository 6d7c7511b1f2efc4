//go:build js

package main

import (
	"fmt"

	"github.com/open-policy-agent/opa/v1/ast"
)

// params are the parameters that a bundle reads: the names that its modules write out, and where they compute one.
type params struct {
	names    map[string]bool
	computed []string
}

var objectGet = ast.Ref{ast.VarTerm("object"), ast.StringTerm("get")}

// find searches modules in which imports are resolved: every read of a parameter is a reference below data there.
func (p *params) find(c *ast.Compiler) {
	p.names = map[string]bool{}
	for _, name := range sortedKeys(c.Modules) {
		for _, rule := range c.Modules[name].Rules {
			p.findIn(name, rule)
		}
	}
}

func (p *params) findIn(file string, rule *ast.Rule) {
	// The whole of data.params that object.get takes one name out of.
	taken := map[*ast.Term]bool{}
	take := func(terms []*ast.Term) {
		if len(terms) < 4 || !terms[0].Equal(ast.NewTerm(objectGet)) || !isParams(terms[1]) {
			return
		}
		if name, ok := terms[2].Value.(ast.String); ok {
			p.names[string(name)] = true
			taken[terms[1]] = true
		} else if path, ok := terms[2].Value.(*ast.Array); ok && path.Len() > 0 {
			if name, ok := path.Elem(0).Value.(ast.String); ok {
				p.names[string(name)] = true
				taken[terms[1]] = true
			}
		}
	}
	ast.WalkExprs(rule, func(e *ast.Expr) bool {
		if terms, ok := e.Terms.([]*ast.Term); ok {
			take(terms)
		}
		return false
	})
	ast.WalkTerms(rule, func(t *ast.Term) bool {
		if call, ok := t.Value.(ast.Call); ok {
			take(call)
		}
		if ref, ok := t.Value.(ast.Ref); ok && !taken[t] {
			p.read(file, ref, t)
		}
		return false
	})
}

func isParams(t *ast.Term) bool {
	ref, ok := t.Value.(ast.Ref)
	return ok && len(ref) == 2 && ref[0].Equal(ast.DefaultRootDocument) && ref[1].Equal(ast.StringTerm("params"))
}

func (p *params) read(file string, ref ast.Ref, t *ast.Term) {
	if len(ref) == 0 || !ref[0].Equal(ast.DefaultRootDocument) {
		return
	}
	if len(ref) > 1 {
		if first, ok := ref[1].Value.(ast.String); ok && first != "params" {
			return
		}
	}
	if len(ref) > 2 && ref[1].Equal(ast.StringTerm("params")) {
		if name, ok := ref[2].Value.(ast.String); ok {
			p.names[string(name)] = true
			return
		}
	}
	row := 0
	if t.Location != nil {
		row = t.Location.Row
	}
	p.computed = append(p.computed, fmt.Sprintf("%s:%d", file, row))
}

// list has the names in order; nil where some are computed.
func (p *params) list() []string {
	if len(p.computed) > 0 {
		return nil
	}
	return sortedKeys(p.names)
}

func (p *params) warnings() []string {
	if len(p.computed) == 0 {
		return []string{}
	}
	return []string{p.computed[0] +
		": the name of a parameter is computed, so it is not known which parameters the policy reads"}
}
