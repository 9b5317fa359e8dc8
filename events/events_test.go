package events_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v3"

	"github.com/tradewind-broker/tradewind/events"
)

func TestGeneratedFilesAreCurrent(t *testing.T) {
	out, err := exec.Command("go", "run", "./internal/gen", "-check").CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

func TestExamplesMatchSchemasAndRoundTrip(t *testing.T) {
	for _, d := range events.All() {
		short := strings.TrimPrefix(d.Type(), "tradewind.")
		t.Run(short, func(t *testing.T) {
			body, err := os.ReadFile(filepath.Join("example", short+".json"))
			if err != nil {
				t.Fatal(err)
			}
			e, err := events.Parse(body)
			if err != nil {
				t.Fatal(err)
			}
			if e.Data.Subject() == "" {
				t.Error("no subject")
			}
			var envelope map[string]json.RawMessage
			if err := json.Unmarshal(body, &envelope); err != nil {
				t.Fatal(err)
			}
			validate(t, filepath.Join("schema", short+".json"), envelope["data"])
			again, err := e.MarshalJSON()
			if err != nil {
				t.Fatal(err)
			}
			if got, want := compact(t, again), compact(t, body); got != want {
				t.Errorf("round trip\n got %s\nwant %s", got, want)
			}
		})
	}
}

func validate(t *testing.T, schema string, data []byte) {
	t.Helper()
	s, err := jsonschema.NewCompiler().Compile(schema)
	if err != nil {
		t.Fatal(err)
	}
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Validate(v); err != nil {
		t.Error(err)
	}
}

// compact re-encodes JSON with sorted keys.
func compact(t *testing.T, body []byte) string {
	t.Helper()
	var v any
	if err := json.Unmarshal(body, &v); err != nil {
		t.Fatal(err)
	}
	out, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

func TestUnknownFieldsSurviveRoundTrip(t *testing.T) {
	body := `{"specversion":"1.0","id":"1","source":"s","type":"tradewind.dag.planned.v1","traceparent":"00-ab-cd-01",
		"data":{"job":"j","plan":2,"mood":"hopeful","bids":[1,2]}}`
	e, err := events.Parse([]byte(body))
	if err != nil {
		t.Fatal(err)
	}
	plan, ok := e.Data.(events.DAGPlanned)
	if !ok || plan.Job != "j" || plan.Plan != 2 {
		t.Fatalf("parsed %#v", e.Data)
	}
	plan.Plan = 3
	e.Data = plan
	out, err := e.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"mood":"hopeful"`, `"bids":[1,2]`, `"traceparent":"00-ab-cd-01"`, `"plan":3`} {
		if !strings.Contains(string(out), want) {
			t.Errorf("%s lost in %s", want, out)
		}
	}
}

func TestParseErrors(t *testing.T) {
	cases := map[string]struct {
		body string
		want error
	}{
		"unknown type":   {`{"specversion":"1.0","id":"1","source":"s","type":"tradewind.dag.sung.v9","data":{}}`, events.ErrUnknownType},
		"not json":       {`hello`, events.ErrMalformed},
		"empty":          {``, events.ErrMalformed},
		"no id":          {`{"specversion":"1.0","source":"s","type":"tradewind.dag.planned.v1","data":{}}`, events.ErrMalformed},
		"wrong version":  {`{"specversion":"0.3","id":"1","source":"s","type":"tradewind.dag.planned.v1"}`, events.ErrMalformed},
		"data of a kind": {`{"specversion":"1.0","id":"1","source":"s","type":"tradewind.dag.planned.v1","data":{"plan":"two"}}`, events.ErrMalformed},
		"data not json":  {`{"specversion":"1.0","id":"1","source":"s","type":"tradewind.dag.planned.v1","data":"x"}`, events.ErrMalformed},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if _, err := events.Parse([]byte(c.body)); !errors.Is(err, c.want) {
				t.Errorf("got %v, want %v", err, c.want)
			}
		})
	}
}

func TestRoutesMatchTypes(t *testing.T) {
	routes := events.Routes()
	known := map[string]bool{}
	for _, fn := range events.Functions() {
		known[fn] = true
	}
	for _, d := range events.All() {
		if _, ok := routes[d.Type()]; !ok {
			t.Errorf("%s has no route", d.Type())
		}
		delete(routes, d.Type())
	}
	for typ := range routes {
		t.Errorf("route for %s, which is not an event", typ)
	}
	for typ, fns := range events.Routes() {
		for _, fn := range fns {
			if !known[fn] {
				t.Errorf("%s goes to %s, which is not a function", typ, fn)
			}
		}
	}
}

func TestAsyncAPIListsAllEventsAndFunctions(t *testing.T) {
	body, err := os.ReadFile("asyncapi.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var doc struct {
		AsyncAPI   string
		Operations map[string]any
		Components struct{ Messages map[string]any }
	}
	if err := yaml.Unmarshal(body, &doc); err != nil {
		t.Fatal(err)
	}
	if doc.AsyncAPI != "3.0.0" || len(doc.Components.Messages) != len(events.All()) || len(doc.Operations) != len(events.Functions()) {
		t.Errorf("asyncapi %s with %d messages and %d operations", doc.AsyncAPI, len(doc.Components.Messages), len(doc.Operations))
	}
}

func FuzzParse(f *testing.F) {
	for _, d := range events.All() {
		body, err := events.New("1", "tradewind/fuzz", time.Unix(0, 0).UTC(), d).MarshalJSON()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(body)
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		e, err := events.Parse(body)
		if err != nil {
			if !errors.Is(err, events.ErrMalformed) && !errors.Is(err, events.ErrUnknownType) {
				t.Fatalf("untyped error %v", err)
			}
			return
		}
		again, err := e.MarshalJSON()
		if err != nil {
			t.Fatalf("parsed but not written: %v", err)
		}
		if _, err := events.Parse(again); err != nil {
			t.Fatalf("written but not parsed: %v", err)
		}
	})
}
