package main

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestPackagesAndFilesStaySmall keeps files at what is one idea, and packages at what one reads in an afternoon. Tests
// count as files alone: much that tries a package is no reason to part it.
func TestPackagesAndFilesStaySmall(t *testing.T) {
	const file, pkg = 500, 4000 // lines
	generated := regexp.MustCompile(`(?m)^// Code generated .* DO NOT EDIT\.$`)
	packages, files := map[string]int{}, 0
	err := filepath.WalkDir(filepath.Join("..", ".."), func(path string, e fs.DirEntry, err error) error {
		switch name := e.Name(); {
		case err != nil:
			return err
		case e.IsDir() && (strings.HasPrefix(name, ".") && name != ".." || name == "node_modules"):
			return fs.SkipDir // tools and what programs have written
		case e.IsDir() || filepath.Ext(name) != ".go":
			return nil
		}
		body, err := os.ReadFile(path)
		if err != nil || generated.Match(body) {
			return err
		}
		files++
		lines := bytes.Count(body, []byte("\n"))
		if lines > file {
			t.Errorf("%s has %d lines, more than %d", path, lines, file)
		}
		if !strings.HasSuffix(path, "_test.go") {
			packages[filepath.Dir(path)] += lines
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for path, lines := range packages {
		if lines > pkg {
			t.Errorf("%s has %d lines without its tests, more than %d", path, lines, pkg)
		}
	}
	if files < 500 || len(packages) < 100 {
		t.Errorf("only %d files of %d packages were read", files, len(packages))
	}
}
