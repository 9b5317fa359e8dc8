package attempt

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/tradewind-broker/tradewind/internal/broker/internal/recordtest"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/internal/broker/recordcache"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/dag"
)

func (s *stage) print(v any, err error) {
	if err != nil {
		fmt.Fprintln(s.out, err)
		return
	}
	text, err := json.MarshalIndent(v, "", " ")
	if err != nil {
		s.t.Fatal(err)
	}
	fmt.Fprintf(s.out, "%s\n", text)
}

func (s *stage) judged(d record.Decision, err error) {
	if err != nil {
		fmt.Fprintln(s.out, err)
		return
	}
	s.decided(d)
}

// decided prints a decision and applies it.
func (s *stage) decided(d record.Decision) {
	if len(d.Writes)+len(d.Emits) == 0 {
		s.out.WriteString("nothing\n")
	}
	for _, w := range d.Writes {
		if w.Value == nil {
			fmt.Fprintf(s.out, "%s goes\n", w.Key.Sort)
			delete(s.records, w.Key)
			continue
		}
		before, after := s.fields(s.records[w.Key]), s.fields(w.Value)
		fmt.Fprintf(s.out, "%s: %s\n", w.Key.Sort, recordtest.Changed(before, after))
		s.records[w.Key] = w.Value
	}
	for _, key := range d.Holds {
		fmt.Fprintf(s.out, "%s must be as it was\n", key.Sort)
	}
	for _, key := range d.Touches {
		fmt.Fprintf(s.out, "%s is written as it is\n", key.Sort)
	}
	for _, e := range d.Emits {
		text, _ := json.Marshal(s.fields(e))
		fmt.Fprintf(s.out, "-> %s %s\n", e.Type(), text)
	}
}

// fields returns the fields of a record. Times are durations since the start of the story.
func (s *stage) fields(v any) map[string]any {
	out := map[string]any{}
	text, err := json.Marshal(v)
	if v == nil || err != nil || json.Unmarshal(text, &out) != nil {
		return map[string]any{}
	}
	return s.told(out).(map[string]any) //nolint:forcetypeassert // it is one
}

func (s *stage) told(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for k, x := range v {
			v[k] = s.told(x)
		}
	case []any:
		for i, x := range v {
			v[i] = s.told(x)
		}
	case string:
		if at, err := time.Parse(time.RFC3339Nano, v); err == nil {
			return at.Sub(s.begun).String()
		}
	}
	return v
}

// set changes fields of a record. Times are written as durations since the start of the story.
func (s *stage) set(d *datadriven.TestData) {
	switch what := d.CmdArgs[0].Key; what {
	case "job":
		change[record.Job](s, d, record.JobKey("j"))
	case "task":
		change[record.Task](s, d, record.TaskKey("j", int(s.number(d, "index", 1))))
	case "attempt":
		change[apitypes.Attempt](s, d, record.AttemptKey("j", 1, s.no))
	case "cluster":
		id := s.cluster()
		if d.HasArg("of") { // of another task
			id = record.ClusterID("j", int(s.number(d, "of", 1)), 1)
		}
		change[record.Cluster](s, d, record.ClusterKey(id))
	case "market":
		change[record.MarketRecord](s, d, record.MarketKey(record.MarketID("aws/r/z/m/spot")))
	case "ledger":
		change[record.Ledger](s, d, record.LedgerKey("j"))
	case "spec":
		merge(s, d, &s.spec.Tasks[int(s.number(d, "index", 1))])
	case "bids":
		merge(s, d, &s.bids)
		job := of[record.Job](s, record.JobKey("j"))
		job.Bids = record.Blob{Version: 3, Name: "bids"}
		s.put(record.JobKey("j"), job)
	case "config":
		merge(s, d, &s.cfg)
	default:
		d.Fatalf(s.t, "nothing is called %s", what)
	}
}

func change[T any](s *stage, d *datadriven.TestData, key record.Key) {
	v := of[T](s, key)
	merge(s, d, &v)
	s.put(key, v)
}

func merge[T any](s *stage, d *datadriven.TestData, v *T) {
	text := d.Input
	for _, word := range strings.Split(text, `"`) { // "@-5m" is five minutes before the story starts
		if after, ok := strings.CutPrefix(word, "@"); ok {
			at := s.begun.Add(s.span(after)).Format(time.RFC3339Nano)
			text = strings.ReplaceAll(text, `"`+word+`"`, `"`+at+`"`)
		}
	}
	if err := json.Unmarshal([]byte(text), v); err != nil {
		d.Fatalf(s.t, "%v", err)
	}
}

func (s *stage) market() record.MarketRecord {
	return of[record.MarketRecord](s, record.MarketKey(record.MarketID("aws/r/z/m/spot")))
}

func (s *stage) number(d *datadriven.TestData, key string, otherwise float64) float64 {
	if text := s.word(d, key, ""); text != "" {
		return s.parse(text)
	}
	return otherwise
}

func (s *stage) parse(text string) float64 {
	v, err := strconv.ParseFloat(text, 64)
	if err != nil {
		s.t.Fatal(err)
	}
	return v
}

func (s *stage) word(d *datadriven.TestData, key, otherwise string) string {
	if d.HasArg(key) {
		d.ScanArgs(s.t, key, &otherwise)
	}
	return otherwise
}

func (s *stage) span(text string) time.Duration {
	v, err := time.ParseDuration(text)
	if err != nil {
		s.t.Fatal(err)
	}
	return v
}

// Methods of stage that load records for decisions.

func (s *stage) Preload(...record.Key) error { return nil }

func (s *stage) Find(key record.Key) (*recordcache.Slot, error) {
	slot := &recordcache.Slot{Key: key}
	if v, ok := s.records[key]; ok {
		slot.Body, _ = json.Marshal(v)
	}
	return slot, nil
}

func (s *stage) FindAll(r recordcache.Span) ([]*recordcache.Slot, error) {
	var all []*recordcache.Slot
	for key := range s.records {
		slot, _ := s.Find(key)
		all = append(all, slot)
	}
	return recordcache.InSpan(all, r), nil
}

func (s *stage) Cache() *recordcache.Cache             { return recordcache.NewKept(1 << 20) }
func (s *stage) Spec(record.Job) (*dag.Job, error)     { return &s.spec, nil }
func (s *stage) Plan(record.Job) (*record.Plan, error) { return &s.plan, nil }
func (s *stage) Bids(record.Job) (*record.Bids, error) { return &s.bids, nil }
