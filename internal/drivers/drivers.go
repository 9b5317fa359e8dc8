// Package drivers finds which drivers run the conformance suites of the ports,
// by reading the tests, and writes docs/drivers.md from it. A driver that runs no
// suite is not in that list, and one whose test goes is gone from it.
package drivers

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

//go:generate go run ./gen -root ../..

// Suite is a port's conformance suite.
type Suite struct {
	Port    string // the port's package: pkg/store
	Package string // the suite's: pkg/store/storetest
	Checks  []string
	Runs    []Run
}

// Run is a test that holds a driver to a suite.
type Run struct {
	Driver  string   // package
	Test    string   // its name
	On      []string // what it is run on, where the test says it in a table
	Options []string // of the suite
	Remark  string   // the test's comment
}

// suites are the ports' packages and those of their suites.
func suites() []Suite {
	return []Suite{
		{Port: "pkg/store", Package: "pkg/store/storetest"},
		{Port: "pkg/bus", Package: "pkg/bus/bustest"},
		{Port: "pkg/cloud", Package: "pkg/cloud/cloudtest"},
	}
}

// Find reads the tests below the module's root folder.
func Find(root string) ([]Suite, error) {
	found := suites()
	for i := range found {
		s := &found[i]
		if err := s.checks(root); err != nil {
			return nil, err
		}
		if err := s.runs(root); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// checks lists what the suite holds a driver to: the names in its tables of tests.
func (s *Suite) checks(root string) error {
	files, err := filepath.Glob(filepath.Join(root, s.Package, "*.go"))
	if err != nil {
		return err
	}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			return err
		}
		for _, d := range f.Decls {
			// a table in another function is of something else
			if fn, in := d.(*ast.FuncDecl); !in || fn.Name.Name == "Run" {
				ast.Inspect(d, func(n ast.Node) bool { return s.table(n) })
			}
		}
	}
	if len(s.Checks) == 0 {
		return fmt.Errorf("drivers: no checks in %s", s.Package)
	}
	slices.Sort(s.Checks)
	return nil
}

// table adds the names in a table of tests.
func (s *Suite) table(n ast.Node) (deeper bool) {
	c, ok := n.(*ast.CompositeLit)
	if !ok {
		return true
	}
	if m, ok := c.Type.(*ast.MapType); ok && isFunc(m.Value) {
		s.Checks = append(s.Checks, firstStrings(c)...)
	}
	return false
}

// isFunc says whether a type is a function, by itself or by the name that suites give it.
func isFunc(e ast.Expr) bool {
	switch t := e.(type) {
	case *ast.FuncType:
		return true
	case *ast.Ident:
		return strings.HasSuffix(strings.ToLower(t.Name), "test") || strings.HasSuffix(strings.ToLower(t.Name), "check")
	default:
		return false
	}
}

// runs finds the calls of the suite in the tests of the port's drivers.
func (s *Suite) runs(root string) error {
	err := filepath.WalkDir(filepath.Join(root, s.Port), func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(name, "_test.go") {
			return err
		}
		dir, err := filepath.Rel(root, filepath.Dir(name))
		if err != nil {
			return err
		}
		if driver := filepath.ToSlash(dir); driver != s.Package {
			return s.file(driver, name)
		}
		return nil
	})
	slices.SortFunc(s.Runs, func(a, b Run) int {
		return cmp.Or(cmp.Compare(a.Driver, b.Driver), cmp.Compare(a.Test, b.Test))
	})
	return err
}

// file adds the runs in one file of tests.
func (s *Suite) file(driver, name string) error {
	f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments)
	if err != nil {
		return err
	}
	for _, d := range f.Decls {
		fn, ok := d.(*ast.FuncDecl)
		if !ok || !strings.HasPrefix(fn.Name.Name, "Test") {
			continue
		}
		r := Run{Driver: driver, Test: fn.Name.Name, Remark: strings.Join(strings.Fields(fn.Doc.Text()), " ")}
		if r.read(fn.Body, path.Base(s.Package)) {
			s.Runs = append(s.Runs, r)
		}
	}
	return nil
}

// read looks for the suite in a test, and notes its options and the table it goes through.
func (r *Run) read(body *ast.BlockStmt, suite string) (found bool) {
	var tables []*ast.RangeStmt
	ast.Inspect(body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.RangeStmt:
			tables = append(tables, n)
		case *ast.CallExpr:
			switch name := called(n, suite); {
			case name == "Run":
				found = true
				for _, t := range tables {
					if c, ok := t.X.(*ast.CompositeLit); ok && t.Pos() < n.Pos() && n.Pos() < t.End() {
						r.On = append(r.On, firstStrings(c)...)
					}
				}
			case name != "":
				r.Options = append(r.Options, name)
			}
		}
		return true
	})
	slices.Sort(r.On)
	slices.Sort(r.Options)
	r.Options = slices.Compact(r.Options)
	return found
}

// called is the name of the function of a package that is called; empty when it is another's.
func called(c *ast.CallExpr, pkg string) string {
	sel, ok := c.Fun.(*ast.SelectorExpr)
	if !ok {
		return ""
	}
	if x, ok := sel.X.(*ast.Ident); ok && x.Name == pkg {
		return sel.Sel.Name
	}
	return ""
}

// firstStrings are the names of a table's rows: the keys of a map, or the first fields of structs.
func firstStrings(c *ast.CompositeLit) (names []string) {
	for _, e := range c.Elts {
		switch row := e.(type) {
		case *ast.KeyValueExpr:
			e = row.Key
		case *ast.CompositeLit:
			if len(row.Elts) > 0 {
				e = row.Elts[0]
			}
		}
		if lit, ok := e.(*ast.BasicLit); ok && lit.Kind == token.STRING {
			if name, err := strconv.Unquote(lit.Value); err == nil {
				names = append(names, name)
			}
		}
	}
	return names
}
