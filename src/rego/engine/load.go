//go:build js

package main

import (
	"fmt"
	"path"
	"slices"
	"sort"
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/util"
)

// forbidden built-ins would leave the process, or make two runs differ (newer-clients 6.7).
var forbidden = []string{"http.send", "net.lookup_ip_addr", "opa.runtime"}

// reserved names below data belong to the server: parameters, and facts about the evaluation.
var reserved = []string{"params", "kosli"}

// bundle is what was loaded of the files: modules by path, and the base document without params and kosli.
type bundle struct {
	modules map[string]*ast.Module
	tests   map[string]*ast.Module
	data    map[string]any
}

func capabilities() *ast.Capabilities {
	c := ast.CapabilitiesForThisVersion()
	c.Builtins = slices.DeleteFunc(slices.Clone(c.Builtins), func(b *ast.Builtin) bool {
		return slices.Contains(forbidden, b.Name)
	})
	// Not null, which would allow every host to JSON schemas with remote references.
	c.AllowNet = []string{}
	return c
}

func isTest(name string) bool { return strings.HasSuffix(name, "_test.rego") }

func isData(name string) bool {
	base := path.Base(name)
	return base == "data.json" || base == "data.yaml" || base == "data.yml" ||
		strings.HasSuffix(base, ".ergo.yaml") || strings.HasSuffix(base, ".ergo.yml")
}

// isModule says which files are policies. A single file is one whatever its name (newer-clients 6.2).
func isModule(name string, files int) bool {
	if strings.HasSuffix(name, ".rego") {
		return !isTest(name)
	}
	return files == 1 && !isData(name)
}

// load parses the files of a bundle (newer-clients 6.2).
func load(files map[string]string, withTests bool) (*bundle, *Failure) {
	b := &bundle{map[string]*ast.Module{}, map[string]*ast.Module{}, map[string]any{}}
	options := ast.ParserOptions{RegoVersion: ast.RegoV1, ProcessAnnotation: true, Capabilities: capabilities()}
	var problems []string
	origins := map[string]string{}
	for _, name := range sortedKeys(files) {
		isTested := withTests && isTest(name)
		switch {
		case isTested || isModule(name, len(files)):
			module, err := ast.ParseModuleWithOpts(name, files[name], options)
			if err != nil {
				problems = append(problems, errorTexts(err)...)
			} else if isTested {
				b.tests[name] = module
			} else {
				problems = append(problems, findReserved(name, module)...)
				b.modules[name] = module
			}
		case isData(name):
			if err := b.addData(name, files[name], origins); err != nil {
				problems = append(problems, err.Error())
			}
		}
	}
	if len(problems) > 0 {
		return nil, &Failure{"compile", strings.Join(problems, "\n")}
	}
	if len(b.modules) == 0 && len(b.tests) == 0 {
		return nil, &Failure{"no_policy", "The bundle has no policy: it needs a file that ends in .rego"}
	}
	return b, nil
}

func findReserved(name string, module *ast.Module) []string {
	refs := module.Package.Path
	if len(refs) < 2 {
		return nil
	}
	if first, ok := refs[1].Value.(ast.String); ok && slices.Contains(reserved, string(first)) {
		return []string{fmt.Sprintf("%s:%d: the package name %s is reserved", name, module.Package.Location.Row, first)}
	}
	return nil
}

// addData puts a data file into the base document, at the path of its directory.
func (b *bundle) addData(name, text string, origins map[string]string) error {
	var value any
	// JSON keeps its numbers to the digit; YAML has those of OPA.
	unmarshal := util.Unmarshal
	if strings.HasSuffix(name, ".json") {
		unmarshal = util.UnmarshalJSON
	}
	if err := unmarshal([]byte(text), &value); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	var at []string
	if directory := path.Dir(name); directory != "." {
		at = strings.Split(directory, "/")
	}
	for i := len(at) - 1; i >= 0; i-- {
		value = map[string]any{at[i]: value}
	}
	document, ok := value.(map[string]any)
	if !ok {
		return fmt.Errorf("%s: the document at the root of the bundle must be an object", name)
	}
	for _, key := range reserved {
		if _, ok := document[key]; ok {
			return fmt.Errorf("%s: data.%s belongs to the server and cannot be set by a file", name, key)
		}
	}
	return merge(b.data, document, name, "data", origins)
}

// merge adds a document to another one. Both may have an object at a place, and nothing else.
func merge(to, from map[string]any, file, at string, origins map[string]string) error {
	for _, key := range sortedKeys(from) {
		place := at + "." + key
		existing, exists := to[key]
		if !exists {
			to[key] = from[key]
			origins[place] = file
			continue
		}
		left, isLeft := existing.(map[string]any)
		right, isRight := from[key].(map[string]any)
		if !isLeft || !isRight {
			return fmt.Errorf("%s: %s is set by %s too", file, place, originOf(origins, place))
		}
		if err := merge(left, right, file, place, origins); err != nil {
			return err
		}
	}
	return nil
}

// originOf finds the file that set a place, or what contains it.
func originOf(origins map[string]string, place string) string {
	for {
		if file, ok := origins[place]; ok {
			return file
		}
		dot := strings.LastIndex(place, ".")
		if dot < 0 {
			return "another file"
		}
		place = place[:dot]
	}
}

// compile type-checks the modules of a bundle together with its data.
// resolved is called with the modules in which imports are resolved and nothing else is rewritten; it may be nil.
func (b *bundle) compile(modules map[string]*ast.Module, prints bool, resolved func(*ast.Compiler)) (*ast.Compiler, *Failure) {
	compiler := ast.NewCompiler().
		WithCapabilities(capabilities()).
		WithEnablePrintStatements(prints).
		WithPathConflictsCheck(func(at []string) (bool, error) { return b.hasData(at), nil })
	if resolved != nil {
		compiler.WithStageAfterID(ast.StageResolveRefs, ast.CompilerStageDefinition{
			Name: "inspect", MetricName: "inspect", Stage: func(c *ast.Compiler) *ast.Error { resolved(c); return nil },
		})
	}
	compiler.SetErrorLimit(0)
	compiler.Compile(modules)
	if compiler.Failed() {
		return nil, &Failure{"compile", strings.Join(errorTexts(compiler.Errors), "\n")}
	}
	return compiler, nil
}

func (b *bundle) hasData(at []string) bool {
	var value any = b.data
	for _, key := range at {
		object, ok := value.(map[string]any)
		if !ok {
			return false
		}
		if value, ok = object[key]; !ok {
			return false
		}
	}
	return true
}

// errorTexts has one line for each error, with file and line.
func errorTexts(err error) []string {
	var errors ast.Errors
	switch e := err.(type) {
	case ast.Errors:
		errors = e
	case *ast.Error:
		errors = ast.Errors{e}
	default:
		return []string{err.Error()}
	}
	texts := make([]string, 0, len(errors))
	for _, e := range errors {
		// OPA quotes the line of the source, however long it is.
		lines := strings.Split(e.Error(), "\n")
		for i := range lines {
			lines[i] = cut(lines[i], maxLineBytes)
		}
		texts = append(texts, strings.Join(lines, "\n"))
	}
	return texts
}

// maxLineBytes bounds a line of an error, so that one does not take the room of the others.
const maxLineBytes = 300

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for key := range m {
		keys = append(keys, key)
	}
	sort.Strings(keys)
	return keys
}
