package emf_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/internal/lambdahost/emf"
)

func TestWriteFormat(t *testing.T) {
	var out bytes.Buffer
	err := emf.New(&out, "Tradewind").Write(emf.Line{
		At:         time.UnixMilli(1764000000123),
		Dimensions: map[string]string{"Deployment": "tradewind", "Kind": "capacity"},
		Metrics:    []emf.Metric{{Name: "Refusals", Unit: emf.Count, Value: 2}, {Name: "PublishLag", Unit: emf.Milliseconds, Value: 12.5}},
		Properties: map[string]any{"function": "provision", "requestId": "a<b"},
	})
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"Deployment":"tradewind","Kind":"capacity","PublishLag":12.5,"Refusals":2,` +
		`"_aws":{"Timestamp":1764000000123,"CloudWatchMetrics":[{"Namespace":"Tradewind","Dimensions":[["Deployment","Kind"]],` +
		`"Metrics":[{"Name":"PublishLag","Unit":"Milliseconds"},{"Name":"Refusals","Unit":"Count"}]}]},` +
		`"function":"provision","requestId":"a<b"}` + "\n"
	if out.String() != want {
		t.Errorf("got  %swant %s", out.String(), want)
	}
}

func TestWriteRejectsInvalidLines(t *testing.T) {
	one := []emf.Metric{{Name: "Events", Unit: emf.Count, Value: 1}}
	many := make([]emf.Metric, 101)
	for i := range many {
		many[i] = emf.Metric{Name: fmt.Sprint("m", i), Unit: emf.Count}
	}
	for name, l := range map[string]emf.Line{
		"a metric named as a dimension": {Dimensions: map[string]string{"Events": "x"}, Metrics: one},
		"a property named as a metric":  {Properties: map[string]any{"Events": "x"}, Metrics: one},
		"the metadata's name":           {Properties: map[string]any{"_aws": "x"}, Metrics: one},
		"no name":                       {Metrics: []emf.Metric{{Unit: emf.Count}}},
		"too many metrics":              {Metrics: many},
		"not a number":                  {Metrics: []emf.Metric{{Name: "Events", Unit: emf.Count, Value: math.NaN()}}},
	} {
		var out bytes.Buffer
		if err := emf.New(&out, "Tradewind").Write(l); err == nil || out.Len() > 0 {
			t.Errorf("%s: wrote %q, error %v", name, out.String(), err)
		}
	}
}

func TestWriteWithoutMetricsWritesNothing(t *testing.T) {
	var out bytes.Buffer
	if err := emf.New(&out, "Tradewind").Write(emf.Line{Properties: map[string]any{"a": 1}}); err != nil || out.Len() > 0 {
		t.Errorf("wrote %q, error %v", out.String(), err)
	}
}

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, errors.New("closed") }

func TestWriteReturnsWriterError(t *testing.T) {
	l := emf.Line{Metrics: []emf.Metric{{Name: "Events", Unit: emf.Count, Value: 1}}}
	if err := emf.New(broken{}, "Tradewind").Write(l); err == nil || !strings.Contains(err.Error(), "closed") {
		t.Error(err)
	}
}

func TestConcurrentWritesStayWhole(t *testing.T) {
	var out bytes.Buffer
	w := emf.New(&out, "Tradewind")
	var wg sync.WaitGroup
	for i := range 50 {
		wg.Go(func() {
			_ = w.Write(emf.Line{Metrics: []emf.Metric{{Name: "Events", Unit: emf.Count, Value: float64(i)}}})
		})
	}
	wg.Wait()
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) != 50 {
		t.Errorf("%d lines", len(lines))
	}
	for _, l := range lines {
		if !json.Valid([]byte(l)) {
			t.Errorf("torn line %q", l)
		}
	}
}
