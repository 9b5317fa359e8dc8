package session

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/internal/broker/recordcache"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/store"
)

// known is a book with some queues.
func known(queues ...apitypes.Queue) *recordcache.Draft {
	k := recordcache.New(recordcache.NewKept(0))
	for _, q := range queues {
		body, _ := json.Marshal(q)
		k.Seed(store.Record{Key: record.QueueKey(q.Name), Version: 1, Body: body})
	}
	k.AddSpan(recordcache.Span{Partition: record.PartQueues})
	for _, name := range []string{"new", "lab", record.DefaultQueueName} {
		if !k.Knows(record.QueueKey(name)) {
			k.Seed(store.Record{Key: record.QueueKey(name)})
		}
	}
	return recordcache.NewDraft(k, time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC), 0)
}

// Settings that would not form a tree, or a tree that is too large for a session, are rejected.
func TestSetQueueRejectsInvalidSettings(t *testing.T) {
	many := apitypes.Amounts{}
	for i := range record.MaxBounded {
		many[fmt.Sprint("example.com/r", i)] = 1
	}
	more := apitypes.Amounts{"example.com/more": 1, "example.com/r0": 1}
	bounded := func(max apitypes.Amounts) []apitypes.Queue { return []apitypes.Queue{{Name: "lab", Max: max}} }
	loop := []apitypes.Queue{{Name: "new", Inner: true}, {Name: "lab", Parent: "new"}}
	wide := []apitypes.Queue{{Name: "lab", Inner: true}}
	for i := range record.MaxTree - 2 {
		wide = append(wide, apitypes.Queue{Name: fmt.Sprint("q", i), Parent: "lab"})
	}
	full := append(wide[:len(wide):len(wide)], apitypes.Queue{Name: "last", Parent: "lab"})
	for name, c := range map[string]struct {
		there []apitypes.Queue
		set   record.QueueSettings
		ok    bool
		says  string
	}{
		"a single queue":                    {nil, record.QueueSettings{MaxVCPU: 4}, true, ""},
		"with the maximum number of limits": {nil, record.QueueSettings{Max: many}, true, ""},
		"below another":                     {[]apitypes.Queue{{Name: "lab"}}, record.QueueSettings{Parent: "lab"}, true, ""},
		"below a missing queue":             {nil, record.QueueSettings{Parent: "nowhere"}, false, ""},
		"below itself":                      {loop, record.QueueSettings{Parent: "lab"}, false, ""},
		"the maximum number of limits in the tree": {bounded(apitypes.Amounts{"example.com/r0": 1}),
			record.QueueSettings{Parent: "lab", Max: many}, true, ""},
		"too many limits in the tree": {bounded(more), record.QueueSettings{Parent: "lab", Max: many}, false, ""},
		"the largest tree":            {wide, record.QueueSettings{Parent: "lab"}, true, ""},
		"one more": {full, record.QueueSettings{Parent: "lab"}, false,
			`"lab" would have more than 23 queues below it`},
	} {
		t.Run(name, func(t *testing.T) {
			d, err := DecideSetQueue(known(c.there...), record.DefaultConfig(), "new", c.set)
			if (err == nil) != c.ok || err != nil && !errors.Is(err, record.ErrQueue) {
				t.Fatalf("%v", err)
			}
			if c.says != "" && !strings.Contains(err.Error(), c.says) {
				t.Errorf("the message is %q", err)
			}
			if held := len(d.Holds); c.ok && (c.set.Parent != "") != (held == len(c.there)+1) {
				t.Errorf("%d queues are held", held)
			}
			if !c.ok || c.set.Parent == "" {
				return
			}
			inner := false
			for _, w := range d.Writes {
				q, is := w.Value.(apitypes.Queue)
				inner = inner || is && q.Name == "lab" && q.Inner
			}
			if inner == c.there[0].Inner {
				t.Errorf("the parent is written as an inner queue: %v", inner)
			}
		})
	}
}

// Suspending or resuming a queue twice has no further effect. Unknown queues are rejected.
func TestSuspendAndResumeQueue(t *testing.T) {
	cfg := record.DefaultConfig()
	ann := apitypes.Suspension{By: "ann", Since: time.Unix(1, 0)}
	if _, err := DecideSuspendQueue(known(), cfg, "new", ann, ""); !errors.Is(err, record.ErrNotFound) {
		t.Errorf("unknown queue: %v", err)
	}
	if _, err := DecideResumeQueue(known(), "new", "ann", ""); !errors.Is(err, record.ErrNotFound) {
		t.Errorf("unknown queue: %v", err)
	}
	d, err := DecideSuspendQueue(known(), cfg, record.DefaultQueueName, ann, "")
	if err != nil || len(d.Emits) != 1 {
		t.Errorf("default queue: %+v, %v", d, err)
	}
	d, err = DecideResumeQueue(known(), record.DefaultQueueName, "ann", "")
	if err != nil || len(d.Writes) > 0 {
		t.Errorf("unused default queue: %+v, %v", d, err)
	}
	d, err = DecideSuspendQueue(known(apitypes.Queue{Name: "lab"}), cfg, "lab", ann, "")
	if err != nil || len(d.Writes) != 1 || len(d.Emits) != 1 {
		t.Fatalf("%+v, %v", d, err)
	}
	q, _ := d.Writes[0].Value.(apitypes.Queue)
	if !q.Closed || q.Suspended.By != "ann" {
		t.Errorf("%+v", q)
	}
	if d, err = DecideResumeQueue(known(q), "lab", "bob", ""); err != nil || len(d.Emits) != 1 {
		t.Fatalf("%+v, %v", d, err)
	}
	if q, _ = d.Writes[0].Value.(apitypes.Queue); q.Closed || q.Suspended.By != "" {
		t.Errorf("%+v", q)
	}
	if d, err = DecideResumeQueue(known(q), "lab", "bob", ""); err != nil || len(d.Emits) != 0 {
		t.Errorf("again: %+v, %v", d, err)
	}
}

// Tasks wait for a better price only if all waiting tasks of their job have room at once.
func TestHasRoom(t *testing.T) {
	top := &apitypes.Queue{Name: "top", Inner: true}
	for name, c := range map[string]struct {
		q     apitypes.Queue
		top   apitypes.Queue
		tasks int
		room  bool
	}{
		"no bound":                {apitypes.Queue{}, apitypes.Queue{}, 9, true},
		"as many tasks":           {apitypes.Queue{MaxRunning: 5, Running: 3}, apitypes.Queue{}, 2, true},
		"one too many":            {apitypes.Queue{MaxRunning: 5, Running: 3}, apitypes.Queue{}, 3, false},
		"as many vCPUs":           {apitypes.Queue{MaxVCPU: 12, VCPU: 4}, apitypes.Queue{}, 2, true},
		"too many vCPUs":          {apitypes.Queue{MaxVCPU: 12, VCPU: 5}, apitypes.Queue{}, 2, false},
		"below one without bound": {apitypes.Queue{Parent: "top"}, apitypes.Queue{}, 9, true},
		"below one with a bound":  {apitypes.Queue{Parent: "top"}, apitypes.Queue{MaxRunning: 99}, 1, false},
	} {
		*top = c.top
		top.Name = "top"
		c.q.Name = "q"
		s := &Session{tree: []*apitypes.Queue{top, &c.q}}
		s.queues = byName(s.tree)
		if got := s.hasRoom(&c.q, c.tasks, apitypes.Amounts{apitypes.VCPUs: 4}); got != c.room {
			t.Errorf("%s: %v", name, got)
		}
	}
}
