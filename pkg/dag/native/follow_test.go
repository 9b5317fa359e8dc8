package native_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v3"

	"github.com/tradewind-broker/tradewind/pkg/dag"
	"github.com/tradewind-broker/tradewind/pkg/dag/native"
	"github.com/tradewind-broker/tradewind/pkg/dag/read"
)

// What follows the schema: examples, and what is read of other forms; and what the reader refuses does not.

// compiledSchema is a validator of documents in the native form.
func compiledSchema(t testing.TB) func(document []byte) error {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(native.Schema()))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("schema.json", doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("schema.json")
	if err != nil {
		t.Fatal(err)
	}
	return func(document []byte) error {
		var v any
		if err := yaml.Unmarshal(document, &v); err != nil {
			return err
		}
		j, err := json.Marshal(v)
		if err != nil {
			return fmt.Errorf("has no counterpart in JSON: %w", err)
		}
		if v, err = jsonschema.UnmarshalJSON(bytes.NewReader(j)); err != nil {
			return err
		}
		return s.Validate(v)
	}
}

func exampleFiles(t testing.TB) []string {
	t.Helper()
	var files []string
	for _, dir := range []string{".", "applications", "frameworks"} {
		some, err := filepath.Glob(filepath.Join("..", "..", "..", "examples", dir, "*.yaml"))
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, some...)
	}
	// Jobs say so; scenarios for the local cloud lie beside them.
	files = slices.DeleteFunc(files, func(file string) bool {
		data, err := os.ReadFile(file)
		return err != nil || !bytes.Contains(data, []byte("\napiVersion:"))
	})
	if len(files) < 3 {
		t.Fatalf("only %v are examples", files)
	}
	return files
}

func TestExamplesReadCleanlyAndFollowTheSchema(t *testing.T) {
	valid := compiledSchema(t)
	for _, file := range exampleFiles(t) {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		j, err := read.File(file)
		if err != nil {
			t.Error(err)
			continue
		}
		if len(j.Warnings) > 0 {
			t.Errorf("%s: warnings %q", file, j.Warnings)
		}
		if err := valid(data); err != nil {
			t.Errorf("%s does not follow the schema: %v", file, err)
		}
	}
}

// imports are files of the other forms.
func imports(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("..", "*", "testdata", "workflows", "*"))
	if err != nil || len(files) < 7 {
		t.Fatal(files, err)
	}
	return files
}

func TestMarshalledImportsFollowTheSchema(t *testing.T) {
	valid := compiledSchema(t)
	for _, file := range imports(t) {
		j, err := read.File(file)
		if err != nil {
			t.Error(err)
			continue
		}
		data, err := dag.Marshal(j)
		if err != nil {
			t.Error(err)
			continue
		}
		if err := valid(data); err != nil {
			t.Errorf("%s does not follow the schema: %v", file, err)
		}
	}
}

// What the reader refuses in a native file the schema refuses too, but for what no schema can say:
// that words refer to each other, and which words a package knows.
func TestSchemaRefusesWhatTheReaderRefuses(t *testing.T) {
	valid := compiledSchema(t)
	beyond := []string{
		"there is no task", "wait for each other", "waits for itself", "is waited for already", "has no output", "is taken twice", "named twice", "there are two outputs",
		"unknown accelerator", "is a family of machines", "unknown cloud", "there is no emr on", "data cannot be read from", "names no data", "is in both env and secrets",
		"in two spellings", "the least, ", "leaves the task's directory", "no machine has 0", "no machine has a disk", "a count is more than 0", "is more than any machine has", "is more than 1EiB",
		"a size of more than", "is more than 87600h", "must be more than 0", "there is a second document", "has the tag", "is not a place",
		"does not wait for the same tasks", "would lie where", "would lie in ", "of its own gang", "has 17 tasks", "gang.roles.a: has nothing to run", "has role ", "a task and of a role",
		"be mounted", "cannot be a mount", "is in no bucket", "is uploaded to a bucket", "is no local path", "keeps its checkpoints",
		"is for the machines of a gang", "says another within",
		"machines of one task are in one", "no task is called", "what another rule packs", "whose gang is within",
		"what is within another distance",
		"a service", "waits for service", "stands beside",
	}
	refused := 0
	datadriven.RunTest(t, filepath.Join("testdata", "errors"), func(t *testing.T, d *datadriven.TestData) string {
		if valid([]byte(d.Input)) != nil {
			refused++
			return d.Expected
		}
		if !slices.ContainsFunc(beyond, func(s string) bool { return strings.Contains(d.Expected, s) }) {
			t.Errorf("%s: the schema takes what the reader refuses: %s", d.Pos, d.Expected)
		}
		return d.Expected
	})
	if refused < 50 {
		t.Errorf("the schema refuses only %d files", refused)
	}
}
