package lambdahost_test

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

	"github.com/tradewind-broker/tradewind/internal/lambdahost"
)

func TestWriteFormat(t *testing.T) {
	var out bytes.Buffer
	err := lambdahost.New(&out, "Tradewind").Write(lambdahost.Line{
		At:         time.UnixMilli(1764000000123),
		Dimensions: map[string]string{"Deployment": "tradewind", "Kind": "capacity"},
		Metrics:    []lambdahost.Metric{{Name: "Refusals", Unit: lambdahost.Count, Value: 2}, {Name: "PublishLag", Unit: lambdahost.Milliseconds, Value: 12.5}},
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
	one := []lambdahost.Metric{{Name: "Events", Unit: lambdahost.Count, Value: 1}}
	many := make([]lambdahost.Metric, 101)
	for i := range many {
		many[i] = lambdahost.Metric{Name: fmt.Sprint("m", i), Unit: lambdahost.Count}
	}
	for name, l := range map[string]lambdahost.Line{
		"a metric named as a dimension": {Dimensions: map[string]string{"Events": "x"}, Metrics: one},
		"a property named as a metric":  {Properties: map[string]any{"Events": "x"}, Metrics: one},
		"the metadata's name":           {Properties: map[string]any{"_aws": "x"}, Metrics: one},
		"no name":                       {Metrics: []lambdahost.Metric{{Unit: lambdahost.Count}}},
		"too many metrics":              {Metrics: many},
		"not a number":                  {Metrics: []lambdahost.Metric{{Name: "Events", Unit: lambdahost.Count, Value: math.NaN()}}},
	} {
		var out bytes.Buffer
		if err := lambdahost.New(&out, "Tradewind").Write(l); err == nil || out.Len() > 0 {
			t.Errorf("%s: wrote %q, error %v", name, out.String(), err)
		}
	}
}

func TestWriteWithoutMetricsWritesNothing(t *testing.T) {
	var out bytes.Buffer
	if err := lambdahost.New(&out, "Tradewind").Write(lambdahost.Line{Properties: map[string]any{"a": 1}}); err != nil || out.Len() > 0 {
		t.Errorf("wrote %q, error %v", out.String(), err)
	}
}

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, errors.New("closed") }

func TestWriteReturnsWriterError(t *testing.T) {
	l := lambdahost.Line{Metrics: []lambdahost.Metric{{Name: "Events", Unit: lambdahost.Count, Value: 1}}}
	if err := lambdahost.New(broken{}, "Tradewind").Write(l); err == nil || !strings.Contains(err.Error(), "closed") {
		t.Error(err)
	}
}

func TestConcurrentWritesStayWhole(t *testing.T) {
	var out bytes.Buffer
	w := lambdahost.New(&out, "Tradewind")
	var wg sync.WaitGroup
	for i := range 50 {
		wg.Go(func() {
			_ = w.Write(lambdahost.Line{Metrics: []lambdahost.Metric{{Name: "Events", Unit: lambdahost.Count, Value: float64(i)}}})
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
