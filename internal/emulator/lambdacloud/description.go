package lambdacloud

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

//go:embed openapi.json
var published []byte

// description is Lambda's own API description.
type description struct {
	document map[string]any

	mu       sync.Mutex // guards the compiler
	compiler *jsonschema.Compiler
	compiled map[string]*jsonschema.Schema
}

const documentURL = "https://cloud.lambda.ai/api/v1/openapi.json"

// newDescription reads the published description. It forbids object fields that the description does not name: a field
// that the real API would ignore or never send is a mistake here.
func newDescription() (*description, error) {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(published))
	if err != nil {
		return nil, err
	}
	closeObjects(doc)
	d := &description{document: doc.(map[string]any), compiler: jsonschema.NewCompiler(),
		compiled: map[string]*jsonschema.Schema{}}
	d.compiler.DefaultDraft(jsonschema.Draft2020)
	return d, d.compiler.AddResource(documentURL, doc)
}

func closeObjects(v any) {
	switch v := v.(type) {
	case map[string]any:
		_, listed := v["properties"].(map[string]any)
		if _, said := v["additionalProperties"]; listed && !said && v["type"] == "object" {
			v["additionalProperties"] = false
		}
		for _, part := range v {
			closeObjects(part)
		}
	case []any:
		for _, part := range v {
			closeObjects(part)
		}
	}
}

// path returns the description's path pattern for a request, or "" if it has none.
func (d *description) path(method, path string) string {
	paths := d.document["paths"].(map[string]any)
	for pattern, methods := range paths {
		if _, ok := methods.(map[string]any)[strings.ToLower(method)]; ok && matches(pattern, path) {
			return pattern
		}
	}
	return ""
}

func matches(pattern, path string) bool {
	want, have := strings.Split(pattern, "/"), strings.Split(path, "/")
	if len(want) != len(have) {
		return false
	}
	for i := range want {
		if want[i] != have[i] && !strings.HasPrefix(want[i], "{") {
			return false
		}
	}
	return true
}

// request checks a request body against the description.
func (d *description) request(method, pattern string, body []byte) error {
	return d.check(body, "paths", pattern, strings.ToLower(method), "requestBody", "content", "application/json",
		"schema")
}

// answer checks an answer with a status against the description. Statuses such as 429 and 500 are not
// described.
func (d *description) answer(method, pattern string, status int, body []byte) error {
	at := any(d.document)
	for _, key := range []string{"paths", pattern, strings.ToLower(method), "responses"} {
		at = at.(map[string]any)[key]
	}
	if _, ok := at.(map[string]any)[fmt.Sprint(status)]; !ok {
		if status == 429 || status >= 500 {
			return nil
		}
		return fmt.Errorf("status %d is not described", status)
	}
	return d.check(body, "paths", pattern, strings.ToLower(method), "responses", fmt.Sprint(status), "content",
		"application/json", "schema")
}

func (d *description) check(body []byte, pointer ...string) error {
	for i, p := range pointer {
		pointer[i] = strings.NewReplacer("~", "~0", "/", "~1", "{", "%7B", "}", "%7D").Replace(p)
	}
	schema, err := d.schema(strings.Join(pointer, "/"))
	if err != nil {
		return err
	}
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(body))
	if err != nil {
		return err
	}
	return schema.Validate(v)
}

func (d *description) schema(pointer string) (*jsonschema.Schema, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if s, ok := d.compiled[pointer]; ok {
		return s, nil
	}
	s, err := d.compiler.Compile(documentURL + "#/" + pointer)
	if err == nil {
		d.compiled[pointer] = s
	}
	return s, err
}

// decode reads a body with one JSON value.
func decode(r io.Reader, into any) ([]byte, error) {
	const most = 2 << 20 // user data may have 1 MB
	body, err := io.ReadAll(io.LimitReader(r, most))
	if err != nil {
		return nil, err
	}
	return body, json.Unmarshal(body, into)
}
