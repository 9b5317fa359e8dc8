package session

import (
	"encoding/json"
	"math"
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/internal/broker/config"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/internal/broker/recordcache"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/dag"
	"github.com/tradewind-broker/tradewind/pkg/store"
)

// lab is a pool of one partition with some machines of four cores, and a session with a policy that has read it.
func lab(t *testing.T, policy string, now time.Time, machines ...record.PoolMachine) (*Session, *record.PoolSeen) {
	t.Helper()
	p := &record.PoolSeen{Order: []int{0}, Parts: make([]record.PartSeen, 1)}
	p.Name, p.Partitions, p.USDPerHour = "lab", 1, 1
	part := &p.Parts[0]
	part.Pool, part.Seen = "lab", map[string]time.Time{}
	for _, m := range machines {
		m.Capacity, m.Type = apitypes.Capacity{CPUs: 4, MemoryGiB: 16}, "machine"
		part.Machines = append(part.Machines, m)
		part.Seen[m.ID] = now
	}
	k := recordcache.New(recordcache.NewKept(0))
	body, _ := json.Marshal(part.Partition)
	k.Seed(store.Record{Key: record.PartitionKey("lab", 0), Version: 1, Body: body})
	s := &Session{Input: Input{Config: config.Default(), Policy: OwnPolicy()}, u: recordcache.NewDraft(k, now, 0)}
	if policy != "" {
		var err error
		if s.Policy, err = ReadPolicy("p.yaml", []byte(policy)); err != nil {
			t.Fatal(err)
		}
	}
	return s, p
}

// wanted is a task with some nodes of the given number of cores, with or without checkpoints.
func wanted(p *record.PoolSeen, nodes int, cpus float64, saves bool) *want {
	task := dag.Task{Name: "t", Nodes: nodes}
	if saves {
		task.Checkpoint = &dag.Checkpoint{}
	}
	a := &admission{nodes: nodes, side: &side{job: record.Job{ID: "j"}, spec: &dag.Job{Tasks: []dag.Task{task}}}}
	w := &want{hold: apitypes.Capacity{CPUs: cpus}, machines: map[record.MachineClass]float64{}, a: a}
	for i := range p.Parts[0].Machines {
		w.machines[p.Parts[0].Machines[i].Class()] = 2
	}
	return w
}

// Machines with a time window take tasks with checkpoints, while the window is open; other machines take anything.
func TestPlaceRespectsTimeWindows(t *testing.T) {
	const policy = `{actions: [allocate], tiers: [[priority, {name: sla, args: {maxWait: 1h}}],
		[capacity, {name: tdm, args: {windows: {night: {from: "20:00", to: "06:00"}}}}]]}`
	day := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		policy, window string
		at             time.Time
		saves, placed  bool
	}{
		"by night":                      {policy, "night", day.Add(10 * time.Hour), true, true},
		"by day":                        {policy, "night", day, true, false},
		"by night, without checkpoints": {policy, "night", day.Add(10 * time.Hour), false, false},
		"a window that the policy does not define": {policy, "noon", day, false, true},
		"no window":                {policy, "", day, false, true},
		"a policy without windows": {"", "night", day, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			m := record.PoolMachine{ID: "m1"}
			if c.window != "" {
				m.Labels = map[string]string{record.LabelWindow: c.window}
			}
			s, p := lab(t, c.policy, c.at, m)
			w := wanted(p, 1, 2, c.saves)
			if err := s.place(p, p.Order, []*want{w}); err != nil || (w.a.pool != nil) != c.placed {
				t.Errorf("placed: %v, %v", w.a.pool != nil, err)
			}
			_, closed := WindowClosed(s.Policy, m.Labels, c.at)
			if want := c.policy != "" && c.window == "night" && c.at.Equal(day); closed != want {
				t.Errorf("closed: %v", closed)
			}
		})
	}
}

// Room that is kept on a machine for another task is not given away until the promise expires.
func TestPlaceRespectsPromises(t *testing.T) {
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	for until, placed := range map[time.Duration]bool{time.Minute: false, 0: true, -time.Minute: true} {
		s, p := lab(t, "", now, record.PoolMachine{ID: "m1", Promises: []record.PoolPromise{
			{For: "k/t", Hold: apitypes.Capacity{CPUs: 3}, Until: now.Add(until)}}})
		w := wanted(p, 1, 2, false)
		if err := s.place(p, p.Order, []*want{w}); err != nil || (w.a.pool != nil) != placed {
			t.Errorf("kept until %v from now: placed %v, %v", until, w.a.pool != nil, err)
		}
	}
}

// The price of an hour in a pool is the average share of its machines that the task takes.
func TestPoolPlacementCost(t *testing.T) {
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	for cpus, usd := range map[float64]float64{4: 1, 2: 0.5, 1: 0.25} {
		s, p := lab(t, "", now, record.PoolMachine{ID: "m1"}, record.PoolMachine{ID: "m2"})
		p.USDPerHour = 3
		w := wanted(p, 2, cpus, false)
		if err := s.place(p, p.Order, []*want{w}); err != nil || w.a.pool == nil {
			t.Fatal(w.a.pool, err)
		}
		if x := w.a.pool; math.Abs(x.offer.USDPerHour-3*usd) > 1e-9 || x.hours != 2 || len(x.hosts) != 2 {
			t.Errorf("%v of 4 cores: %+v", cpus, x)
		}
	}
}

// A gang that fits only in part is not placed at all, and less urgent tasks give way first.
func TestGangIsPlacedWholeOrNotAtAll(t *testing.T) {
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	for _, policy := range []string{"", `{actions: [allocate], tiers: [[priority], [capacity, binpack]]}`} {
		s, p := lab(t, policy, now, record.PoolMachine{ID: "m1"}, record.PoolMachine{ID: "m2"},
			record.PoolMachine{ID: "m3"})
		low, high, single := wanted(p, 2, 4, false), wanted(p, 2, 4, false), wanted(p, 1, 4, false)
		low.a.job.ID, single.a.job.ID, high.a.waiting.Priority = "low", "single", 1
		wants := []*want{high, low, single}
		if err := s.place(p, p.Order, wants); err != nil {
			t.Fatal(err)
		}
		if high.a.pool == nil || low.a.pool != nil || single.a.pool == nil {
			t.Errorf("policy %q: high %v, low %v, single %v", policy, high.a.pool, low.a.pool, single.a.pool)
		}
	}
}

// machinePolicy keeps the plugins that choose machines, with their settings.
func TestMachinePolicy(t *testing.T) {
	for text, c := range map[string]struct{ says, depth bool }{
		`{actions: [allocate], tiers: [[priority], [capacity]]}`:                                {},
		`{actions: [allocate], tiers: [[priority], [capacity, topology]]}`:                      {says: true},
		`{actions: [allocate], tiers: [[priority], [{name: topology, args: {depth: 1}}]]}`:      {true, true},
		`{actions: [allocate], tiers: [[{name: sla, args: {maxWait: 1h}}], [capacity, drf]]}`:   {},
		`{actions: [allocate], tiers: [[{name: binpack, args: {weight: 2}}], [capacity, drf]]}`: {says: true},
	} {
		p, err := ReadPolicy("p.yaml", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		if got := machinePolicy(p); (got != nil) != c.says {
			t.Errorf("%s: machine policy %+v", text, got)
		}
		if got := hasArgument(p, topology, "depth"); got != c.depth {
			t.Errorf("%s: sets how close: %v", text, got)
		}
	}
	own := OwnPolicy()
	if HalfLife(own) != 0 {
		t.Error("the default policy counts past use")
	}
}
