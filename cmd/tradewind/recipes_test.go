package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// recipe matches a row of the table of examples/README.md: file, plan, run.
var recipe = regexp.MustCompile("(?m)^\\| \\[[^]]+\\]\\((recipes/[a-z-]+\\.yaml)\\).* \\| `(tradewind plan [^`]+)` \\| `(tradewind run [^`]+)`")

// TestRecipes runs the commands of examples/README.md: each recipe is planned at its real size, and runs at toy size.
func TestRecipes(t *testing.T) {
	built := build(t)
	page, err := os.ReadFile("../../examples/README.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := recipe.FindAllStringSubmatch(string(page), -1)
	files, err := filepath.Glob("../../examples/recipes/*.yaml")
	if err != nil || len(files) == 0 || len(files) != len(rows) {
		t.Fatalf("%d recipes, and %d rows of the table, %v", len(files), len(rows), err)
	}
	for _, row := range rows {
		file, plan, run := row[1], row[2], row[3]
		t.Run(strings.TrimSuffix(filepath.Base(file), ".yaml"), func(t *testing.T) {
			s := built.in(t)
			s.t = t
			if out := s.must(plan); !strings.Contains(out, "proven optimal") {
				t.Errorf("no optimal plan: %s", out)
			}
			if strings.Contains(file, "server") {
				s.serves("tradewind up --addr 127.0.0.1:0")
				s.must(strings.Replace(run, "tradewind run", "tradewind submit", 1))
				is := awaitServed(t, s, "ready", func(is served) bool { return is.Services[0].Ready == 2 })
				if got := ask(t, is.TaskList[0].Address, "/health"); got != `{"status": "ok"}` {
					t.Errorf("a replica answers %q", got)
				}
				s.must("tradewind cancel last")
				return
			}
			if out := s.must(run); !strings.Contains(out, "SIMULATED") {
				t.Errorf("the output does not say that it is simulated: %s", out)
			}
		})
	}
}

// TestRecipeScriptsHaveToySize: the code of recipes has a toy size that needs nothing but Python, so each script that uses
// a framework imports it only at its real size.
func TestRecipeScriptsHaveToySize(t *testing.T) {
	files, err := filepath.Glob("../../examples/recipes/code/*.py")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	framework := regexp.MustCompile(`(?m)^(import|from) (torch|transformers|vllm|mpi4py|numpy|pyspark)`)
	for _, file := range files {
		body, err := os.ReadFile(file) //nolint:gosec // an example
		if err != nil {
			t.Fatal(err)
		}
		if m := framework.Find(body); m != nil {
			t.Errorf("%s: %s is needed at toy size, too", file, m)
		}
	}
}
