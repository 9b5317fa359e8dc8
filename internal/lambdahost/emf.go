package lambdahost

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"
)

// Unit of a metric, as CloudWatch names it.
type Unit string

// The units in use.
const (
	Count        Unit = "Count"
	Milliseconds Unit = "Milliseconds"
)

// Limits of the format.
const (
	maxDimensions = 30
	maxMetrics    = 100
)

// Metric is one value.
type Metric struct {
	Name  string
	Unit  Unit
	Value float64
}

// Line is the content of one log line.
type Line struct {
	At         time.Time
	Dimensions map[string]string // of every metric in the line
	Metrics    []Metric
	Properties map[string]any // for readers of the log
}

// Writer writes lines. It is safe for concurrent use.
type Writer struct {
	namespace string
	mu        sync.Mutex
	out       io.Writer
}

// New makes a writer of metrics in a namespace.
func New(out io.Writer, namespace string) *Writer { return &Writer{namespace: namespace, out: out} }

type directive struct {
	Namespace  string
	Dimensions [][]string
	Metrics    []definition
}

type definition struct {
	Name string
	Unit Unit
}

type metadata struct {
	Timestamp         int64 // milliseconds since 1970
	CloudWatchMetrics []directive
}

// Write writes one line. It returns an error if the line exceeds the format's limits, uses a name twice, or has a value
// that JSON cannot represent.
func (w *Writer) Write(l Line) error {
	if len(l.Metrics) == 0 {
		return nil
	}
	if len(l.Dimensions) > maxDimensions || len(l.Metrics) > maxMetrics {
		return fmt.Errorf("emf: %d dimensions and %d metrics, at most %d and %d", len(l.Dimensions), len(l.Metrics),
			maxDimensions, maxMetrics)
	}
	d := directive{Namespace: w.namespace, Dimensions: [][]string{{}}}
	root := make(map[string]any, len(l.Dimensions)+len(l.Metrics)+len(l.Properties)+1)
	set := func(name string, v any) error {
		if _, twice := root[name]; twice || name == "" || name == "_aws" {
			return fmt.Errorf("emf: the name %q is empty, reserved or used twice", name)
		}
		root[name] = v
		return nil
	}
	for name, v := range l.Dimensions {
		d.Dimensions[0] = append(d.Dimensions[0], name)
		if err := set(name, v); err != nil {
			return err
		}
	}
	slices.Sort(d.Dimensions[0])
	for _, m := range l.Metrics {
		d.Metrics = append(d.Metrics, definition{m.Name, m.Unit})
		if err := set(m.Name, m.Value); err != nil {
			return err
		}
	}
	slices.SortFunc(d.Metrics, func(a, b definition) int { return cmp.Compare(a.Name, b.Name) })
	for name, v := range l.Properties {
		if err := set(name, v); err != nil {
			return err
		}
	}
	root["_aws"] = metadata{Timestamp: l.At.UnixMilli(), CloudWatchMetrics: []directive{d}}
	return w.print(root)
}

func (w *Writer) print(root map[string]any) error {
	var line bytes.Buffer
	enc := json.NewEncoder(&line)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(root); err != nil {
		return fmt.Errorf("emf: %w", err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, err := w.out.Write(line.Bytes()); err != nil {
		return fmt.Errorf("emf: %w", err)
	}
	return nil
}
