package account

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

// Mapping is a deployed event source mapping. The functions can switch it on and off.
type Mapping struct {
	ID, Function, Source string // ARN of the source
	Batch, Parallel      int
	Filters              []map[string]any
	Partial              bool // ReportBatchItemFailures
	Bisect               bool
	Retries              int
	OnFailure            string // ARN

	deployed bool // Enabled in the template

	mu      sync.Mutex
	enabled bool
	changed chan struct{} // closed on each change
	since   time.Time
	// busy is until when the last change takes, and switching how long changes take.
	busy      time.Time
	switching time.Duration
}

// Enabled reports whether the mapping is on, and returns a channel that closes when that changes.
func (m *Mapping) Enabled() (bool, <-chan struct{}) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.enabled, m.changed
}

func (m *Mapping) set(on bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.enabled != on {
		m.enabled, m.since = on, time.Now()
		close(m.changed)
		m.changed = make(chan struct{})
	}
}

// change switches the mapping, unless an earlier change has not ended yet.
func (m *Mapping) change(on bool, now time.Time) bool {
	m.mu.Lock()
	busy := now.Before(m.busy)
	if !busy && m.enabled != on {
		m.busy = now.Add(m.switching)
	}
	m.mu.Unlock()
	if !busy {
		m.set(on)
	}
	return !busy
}

// mappings returns the mappings of a template.
func (t *Template) mappings() ([]*Mapping, error) {
	var out []*Mapping
	for id, r := range t.Of("AWS::Lambda::EventSourceMapping") {
		m := &Mapping{
			ID: id, Function: r.Text("FunctionName"), Source: r.Text("EventSourceArn"),
			Batch: max(r.number("BatchSize"), 1), Parallel: r.number("ScalingConfig", "MaximumConcurrency"),
			Bisect: r.at("BisectBatchOnFunctionError") == true, Retries: r.number("MaximumRetryAttempts"),
			OnFailure: r.Text("DestinationConfig", "OnFailure", "Destination"),
			deployed:  r.at("Enabled") != false, changed: make(chan struct{}),
		}
		m.enabled = m.deployed
		if types, ok := r.at("FunctionResponseTypes").([]any); ok {
			m.Partial = slices.Contains(types, any("ReportBatchItemFailures"))
		}
		filters, _ := r.at("FilterCriteria", "Filters").([]any)
		for _, f := range filters {
			p, err := parsePattern(f.(map[string]any)["Pattern"].(string))
			if err != nil {
				return nil, err
			}
			m.Filters = append(m.Filters, p)
		}
		if m.Function == "" || m.Source == "" {
			return nil, fmt.Errorf("rehearsal: mapping %s has no function or source", id)
		}
		out = append(out, m)
	}
	slices.SortFunc(out, func(a, b *Mapping) int { return strings.Compare(a.ID, b.ID) })
	return out, nil
}

// accepts reports whether an event passes at least one of the filters.
func (m *Mapping) accepts(event any) (bool, error) {
	if len(m.Filters) == 0 {
		return true, nil
	}
	for _, f := range m.Filters {
		if ok, err := matches(f, event); err != nil || ok {
			return ok, err
		}
	}
	return false, nil
}

// controlPlane limits the requests to Lambda's control plane to 15 a second, for all of its APIs together (AWS Lambda
// developer guide, "Lambda quotas", API requests).
type controlPlane struct {
	mu    sync.Mutex
	began time.Time
	used  int
}

const controlPerSecond = 15

// admit reports whether a request is within the limit.
func (c *controlPlane) admit(now time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now.Sub(c.began) >= time.Second {
		c.began, c.used = now, 0
	}
	c.used++
	return c.used <= controlPerSecond
}

const mappingPath = "/2015-03-31/event-source-mappings"

// serveMappings serves the part of Lambda's API that lists and switches mappings.
func serveMappings(all []*Mapping, w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	id := strings.Trim(strings.TrimPrefix(r.URL.Path, mappingPath), "/")
	switch {
	case r.Method == http.MethodGet && id == "":
		want := r.URL.Query().Get("FunctionName")
		list := []map[string]any{}
		for _, m := range all {
			if want == "" || want == m.Function || strings.HasSuffix(want, ":"+m.Function) {
				list = append(list, m.describe())
			}
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"EventSourceMappings": list}) // the function may have been killed
	case r.Method == http.MethodPut:
		var in struct{ Enabled *bool }
		i := slices.IndexFunc(all, func(m *Mapping) bool { return m.ID == id })
		if err := json.NewDecoder(r.Body).Decode(&in); err != nil || i < 0 {
			w.WriteHeader(http.StatusNotFound)
			_, _ = w.Write([]byte(`{"Type":"User","Message":"no such mapping"}`))
			return
		}
		if in.Enabled != nil && !all[i].change(*in.Enabled, time.Now()) {
			w.Header().Set("X-Amzn-Errortype", "ResourceInUseException")
			w.WriteHeader(http.StatusBadRequest)
			_, _ = w.Write([]byte(`{"Type":"User","Message":"the mapping is being changed"}`))
			return
		}
		w.WriteHeader(http.StatusAccepted)
		_ = json.NewEncoder(w).Encode(all[i].describe())
	default:
		w.WriteHeader(http.StatusMethodNotAllowed)
	}
}

func (m *Mapping) describe() map[string]any {
	state := "Disabled"
	on, _ := m.Enabled()
	m.mu.Lock()
	busy := time.Now().Before(m.busy)
	m.mu.Unlock()
	switch {
	case on && busy:
		state = "Enabling"
	case on:
		state = "Enabled"
	case busy:
		state = "Disabling"
	}
	return map[string]any{
		"UUID": m.ID, "EventSourceArn": m.Source, "FunctionArn": fmt.Sprintf(arnForms["AWS::Lambda::Function"],
			m.Function),
		"State": state, "BatchSize": m.Batch,
	}
}

// Streams reports whether a mapping reads the table's stream.
func (w *World) Streams(m *Mapping) bool { return m.Source == w.Template.stream }
