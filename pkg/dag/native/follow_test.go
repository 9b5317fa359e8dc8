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

// The tests in this file check the schema. It must accept the examples and the jobs of other formats, and reject the
// files that the reader rejects.

// compiledSchema returns a validator of documents in the native format.
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
		j, err := json.Marshal(withTextKeys(v))
		if err != nil {
			return fmt.Errorf("has no counterpart in JSON: %w", err)
		}
		if v, err = jsonschema.UnmarshalJSON(bytes.NewReader(j)); err != nil {
			return err
		}
		return s.Validate(v)
	}
}

// withTextKeys converts the keys of mappings to text, as the reader does. YAML reads the key 1 as a number.
func withTextKeys(v any) any {
	switch v := v.(type) {
	case map[any]any:
		m := make(map[string]any, len(v))
		for key, value := range v {
			m[fmt.Sprint(key)] = withTextKeys(value)
		}
		return m
	case map[string]any:
		for key, value := range v {
			v[key] = withTextKeys(value)
		}
	case []any:
		for i, value := range v {
			v[i] = withTextKeys(value)
		}
	}
	return v
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
	// The folder also has scenarios for the local cloud. Only job files have an apiVersion.
	files = slices.DeleteFunc(files, func(file string) bool {
		data, err := os.ReadFile(file)
		return err != nil || !bytes.Contains(data, []byte("\napiVersion:"))
	})
	if len(files) < 3 {
		t.Fatalf("only %v are examples", files)
	}
	return files
}

func TestExamplesMatchSchema(t *testing.T) {
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

// imports returns the names of files in the other formats.
func imports(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("..", "*", "testdata", "workflows", "*"))
	if err != nil || len(files) < 7 {
		t.Fatal(files, err)
	}
	return files
}

func TestMarshalledImportsMatchSchema(t *testing.T) {
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

// The schema must reject each file that the reader rejects. Exceptions are faults that a schema cannot express:
// references between fields, and names that only a package knows.
func TestSchemaRejectsWhatReaderRejects(t *testing.T) {
	valid := compiledSchema(t)
	beyond := []string{
		"there is no task", "wait for each other", "waits for itself", "is already named in after or inputs", "has no output", "is read twice", "named twice", "there are two outputs",
		"unknown accelerator", "is a family of machines", "unknown cloud", "data cannot be read from", "names no data", "is in both env and secrets",
		"in two spellings", "the minimum, ", "leaves the task's directory", "no machine has 0", "no machine has a disk", "a count is more than 0", "is more than any machine has", "is more than 1EiB",
		"a size of more than", "is more than 87600h", "must be more than 0", "there is a second document", "has the tag", "is not a place",
		"does not wait for the same tasks", "has the same path as", "would be inside ", "would hide ", "of its own gang", "has 17 tasks", "gang.roles.a: has nothing to run", "has role ", "a task and of a role",
		"be mounted", "cannot be a mount point", "is not in a bucket", "is uploaded to a bucket", "is not a local path", "the task's checkpoints",
		"only a task of a gang has within", "has a different within",
		"machines of one task are in one", "no task is called", "but another rule packs them", "but its gang is within",
		"but within is different", "no release of ", "has its own image", "is a service of ", "has no machine types", "cannot have ",
		"executors on several machines", "a Spark task ", "Spark uses all", " executors (", "ordered alternatives", "depends on the place",
		"a service", "waits for service", "cannot be combined with", "needs a p", "needs accelerators, but", "needs weights", "unknown processor", "is a number of vCPUs", "are all 0", "cannot be combined with objective", "has its minimum above", "cannot be a range", "has no time for ", "cannot have a range",
	}
	refused := 0
	datadriven.RunTest(t, filepath.Join("testdata", "errors"), func(t *testing.T, d *datadriven.TestData) string {
		if valid([]byte(d.Input)) != nil {
			refused++
			return d.Expected
		}
		if !slices.ContainsFunc(beyond, func(s string) bool { return strings.Contains(d.Expected, s) }) {
			t.Errorf("%s: the schema accepts what the reader rejects: %s", d.Pos, d.Expected)
		}
		return d.Expected
	})
	if refused < 50 {
		t.Errorf("the schema rejects only %d files", refused)
	}
}
