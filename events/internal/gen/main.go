// Command gen writes the event contracts for other languages: a JSON Schema and
// an example for each event type, and one AsyncAPI 3 document. Run it with
// `go generate ./events`. With -check it writes nothing and fails if a file is
// stale.
package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/invopop/jsonschema"
	"go.yaml.in/yaml/v3"

	"github.com/tradewind-broker/tradewind/events"
)

func main() {
	dir := flag.String("dir", ".", "the events folder")
	check := flag.Bool("check", false, "only compare, and exit with 1 if a file is stale")
	flag.Parse()
	if err := run(*dir, *check); err != nil {
		fmt.Fprintln(os.Stderr, "gen:", err)
		os.Exit(1)
	}
}

func run(dir string, check bool) error {
	files, err := generate()
	if err != nil {
		return err
	}
	for name, body := range files {
		path := filepath.Join(dir, name)
		if check {
			have, err := os.ReadFile(path) //nolint:gosec // the path is ours
			if err != nil || !bytes.Equal(have, body) {
				return fmt.Errorf("%s is stale: run go generate ./events", name)
			}
			continue
		}
		if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
			return err
		}
		if err := os.WriteFile(path, body, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// generate returns the contents of all files by their names below the events folder.
func generate() (map[string][]byte, error) {
	files := map[string][]byte{}
	doc := newAsyncAPI()
	for _, d := range events.All() {
		short := shortName(d)
		schema, err := schemaOf(d)
		if err != nil {
			return nil, err
		}
		files["schema/"+short+".json"] = schema
		example, err := exampleOf(d)
		if err != nil {
			return nil, err
		}
		files["example/"+short+".json"] = example
		doc.add(d, short)
	}
	body, err := doc.marshal()
	if err != nil {
		return nil, err
	}
	files["asyncapi.yaml"] = body
	return files, nil
}

// shortName returns the type without its prefix, for example "dag.submitted.v1".
func shortName(d events.Data) string { return strings.TrimPrefix(d.Type(), "tradewind.") }

func schemaOf(d events.Data) ([]byte, error) {
	reflector := jsonschema.Reflector{ExpandedStruct: true, AllowAdditionalProperties: true, Anonymous: true}
	schema := reflector.Reflect(d)
	describe(schema, reflect.TypeOf(d))
	schema.Version = jsonschema.Version
	schema.ID = jsonschema.ID("urn:" + strings.ReplaceAll(d.Type(), ".", ":"))
	schema.Title = d.Type()
	return indent(schema)
}

// describe copies the doc tags, which are plain text, to the schema's properties.
func describe(schema *jsonschema.Schema, t reflect.Type) {
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if p, ok := schema.Properties.Get(name); ok {
			p.Description = f.Tag.Get("doc")
		}
	}
}

func exampleOf(d events.Data) ([]byte, error) {
	v := reflect.New(reflect.TypeOf(d)).Elem()
	if err := fill(v); err != nil {
		return nil, fmt.Errorf("%s: %w", d.Type(), err)
	}
	data, ok := v.Interface().(events.Data)
	if !ok {
		return nil, fmt.Errorf("%s: not an event", d.Type())
	}
	at := time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)
	body, err := events.New("5ktd7qjz3m1n", "tradewind/example", at, data).MarshalJSON()
	if err != nil {
		return nil, err
	}
	var out any
	if err := json.Unmarshal(body, &out); err != nil {
		return nil, err
	}
	return indent(out)
}

// fill sets each field of a struct from its example tag.
func fill(v reflect.Value) error {
	for i := range v.NumField() {
		f, tag := v.Field(i), v.Type().Field(i).Tag.Get("example")
		if f.Kind() == reflect.Slice {
			elem := reflect.New(f.Type().Elem()).Elem()
			one := fill
			if elem.Kind() != reflect.Struct {
				one = func(v reflect.Value) error { return set(v, tag) }
			}
			if err := one(elem); err != nil {
				return err
			}
			f.Set(reflect.Append(f, elem))
			continue
		}
		if err := set(f, tag); err != nil {
			return fmt.Errorf("%s: %w", v.Type().Field(i).Name, err)
		}
	}
	return nil
}

func set(f reflect.Value, text string) error {
	if f.Type() == reflect.TypeFor[time.Time]() {
		at, err := time.Parse(time.RFC3339, text)
		f.Set(reflect.ValueOf(at))
		return err
	}
	switch f.Kind() { //nolint:exhaustive // the kinds that payloads use
	case reflect.String:
		f.SetString(text)
		return nil
	case reflect.Int, reflect.Int64:
		n, err := strconv.ParseInt(text, 10, 64)
		f.SetInt(n)
		return err
	case reflect.Float64:
		x, err := strconv.ParseFloat(text, 64)
		f.SetFloat(x)
		return err
	case reflect.Bool:
		b, err := strconv.ParseBool(text)
		f.SetBool(b)
		return err
	default:
		return fmt.Errorf("no example for kind %s", f.Kind())
	}
}

func indent(v any) ([]byte, error) {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	err := enc.Encode(v)
	return out.Bytes(), err
}

// asyncAPI is the part of an AsyncAPI 3.0 document that Tradewind uses: one channel, the bus, and one operation for
// each function, which receives the messages that are routed to it.
type asyncAPI struct {
	AsyncAPI   string         `yaml:"asyncapi"`
	Info       map[string]any `yaml:"info"`
	Channels   map[string]any `yaml:"channels"`
	Operations map[string]any `yaml:"operations"`
	Components map[string]any `yaml:"components"`
}

func newAsyncAPI() *asyncAPI {
	return &asyncAPI{
		AsyncAPI: "3.0.0",
		Info: map[string]any{
			"title": "Tradewind events", "version": "1.0.0",
			"description": "Generated from the Go types by go generate ./events; do not edit.",
			"license":     map[string]any{"name": "Apache-2.0"},
		},
		Channels: map[string]any{"bus": map[string]any{
			"address": "tradewind", "description": "At least once, in any order.", "messages": map[string]any{},
		}},
		Operations: map[string]any{},
		Components: map[string]any{"messages": map[string]any{}},
	}
}

func (a *asyncAPI) add(d events.Data, short string) {
	ref := func(path string) map[string]any { return map[string]any{"$ref": path} }
	submap(submap(a.Channels, "bus"), "messages")[short] = ref("#/components/messages/" + short)
	submap(a.Components, "messages")[short] = map[string]any{
		"name": d.Type(), "title": short, "contentType": "application/cloudevents+json",
		"payload":  ref("schema/" + short + ".json"),
		"examples": []any{map[string]any{"name": short, "payload": ref("example/" + short + ".json")}},
	}
	for _, fn := range events.Routes()[d.Type()] {
		op, ok := a.Operations[fn].(map[string]any)
		if !ok {
			op = map[string]any{"action": "receive", "channel": ref("#/channels/bus"), "messages": []any{}}
			a.Operations[fn] = op
		}
		list, _ := op["messages"].([]any)
		op["messages"] = append(list, ref("#/channels/bus/messages/"+short))
	}
}

// submap returns a nested map, and creates it if it is missing.
func submap(m map[string]any, key string) map[string]any {
	sub, ok := m[key].(map[string]any)
	if !ok {
		sub = map[string]any{}
		m[key] = sub
	}
	return sub
}

func (a *asyncAPI) marshal() ([]byte, error) {
	var out bytes.Buffer
	out.WriteString("# Generated by go generate ./events. DO NOT EDIT.\n")
	enc := yaml.NewEncoder(&out)
	enc.SetIndent(2)
	err := enc.Encode(a)
	return out.Bytes(), err
}
