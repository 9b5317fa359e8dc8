package local_test

import (
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tradewind-broker/tradewind/internal/cloud/local"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
)

var t0 = time.Date(2026, 5, 20, 12, 0, 0, 0, time.UTC)

// at returns a request for a cluster of one machine, made at a time since the start.
func at(since time.Duration, o apitypes.Offer, cluster string) local.Request {
	return local.Request{Offer: o, Cluster: cluster, Nodes: 1, Now: t0.Add(since), Since: since}
}

func TestSeededFailureRate(t *testing.T) {
	b := local.Seeded{Seed: 7, CapacityFailure: func(apitypes.Offer) float64 { return 0.3 }}
	failed := 0
	const windows = 2000
	for i := range windows {
		when := time.Duration(i) * 30 * time.Minute
		v := b.Launch(at(when, onDemand, "a"))
		if again := b.Launch(at(when+29*time.Minute, onDemand, "b")); (v.Err == nil) != (again.Err == nil) {
			t.Fatal("capacity changed within a window")
		}
		if v.Err != nil {
			failed++
			if v.Err.Kind != cloud.Capacity || v.Err.Code != "InsufficientInstanceCapacity" || !strings.Contains(v.Err.Message, "use1-az1") {
				t.Fatalf("%+v", v.Err)
			}
		}
	}
	if share := float64(failed) / windows; math.Abs(share-0.3) > 0.04 {
		t.Errorf("%.3f of the launches failed", share)
	}
}

func TestSeededMeanLife(t *testing.T) {
	b := local.Seeded{Seed: 7, MeanLife: func(apitypes.Offer) time.Duration { return 10 * time.Hour }}
	var sum time.Duration
	const machines = 4000
	for i := range machines {
		p, ok := b.Preemption(at(0, spot, string(rune('a'+i%26))), i)
		if !ok || p.Notice != local.DefaultNotice || p.At.Before(t0) {
			t.Fatalf("%+v, %v", p, ok)
		}
		sum += p.At.Sub(t0)
	}
	if mean := sum.Hours() / machines; math.Abs(mean-10) > 0.5 {
		t.Errorf("mean life %.2f h", mean)
	}
	if _, ok := b.Preemption(at(0, onDemand, "a"), 0); ok {
		t.Error("an on-demand machine is interrupted")
	}
}

func TestSeededIsDeterministic(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		seed := rapid.Uint64().Draw(t, "seed")
		behaviour := func() local.Seeded {
			return local.Seeded{
				Seed: seed, CapacityFailure: func(apitypes.Offer) float64 { return 0.5 }, MeanLife: func(apitypes.Offer) time.Duration { return time.Hour },
			}
		}
		r := at(time.Duration(rapid.Int64Range(0, 1e15).Draw(t, "since")), spot, rapid.String().Draw(t, "cluster"))
		rank := rapid.IntRange(0, 100).Draw(t, "rank")
		p, _ := behaviour().Preemption(r, rank)
		q, _ := behaviour().Preemption(r, rank)
		first, second := behaviour().Launch(r), behaviour().Launch(r)
		if p != q || (first.Err == nil) != (second.Err == nil) {
			t.Fatal("two behaviours with the same seed differ")
		}
	})
}

const demo = `
rules:
  - match: {cloud: aws, zone: use1-az1}
    until: 10m
    fail: capacity
  - match: {task: train, market: spot}
    nth: 1
    preempt: {after: 40m, notice: 30s}
  - match: {labels: {queue: "bulk*"}}
    from: 1h
    nth: 2+
    delay: 5s
  - match: {region: us-*, instanceType: "m5.*"}
    from: 1h
    nth: 2-3
    fail: {kind: throttled, code: RequestLimitExceeded, message: slow down, retryAfter: 3s}
  - match: {region: far}
    hang: true
  - match: {region: lossy}
    unseen: true
  - match: {task: pair}
    preempt: {at: 2h, ranks: [1]}
`

func scenario(t *testing.T, s string) *local.Scenario {
	t.Helper()
	sc, err := local.ReadScenario(strings.NewReader(s))
	if err != nil {
		t.Fatal(err)
	}
	return sc
}

func TestScenarioLaunch(t *testing.T) {
	s := scenario(t, demo)
	if v := s.Launch(at(9*time.Minute, spot, "a")); v.Err == nil || v.Err.Kind != cloud.Capacity || v.Err.Code != "InsufficientInstanceCapacity" {
		t.Errorf("%+v", v)
	}
	if v := s.Launch(at(10*time.Minute, spot, "a")); v != (local.Verdict{}) {
		t.Errorf("%+v", v)
	}
	elsewhere := spot
	elsewhere.Zone = "use1-az2"
	if v := s.Launch(at(0, elsewhere, "a")); v != (local.Verdict{}) {
		t.Errorf("%+v", v)
	}
	var kinds []cloud.Kind
	for range 4 {
		v := s.Launch(at(time.Hour, spot, "a"))
		if v.Err == nil {
			kinds = append(kinds, "")
			continue
		}
		kinds = append(kinds, v.Err.Kind)
		if v.Err.RetryAfter != 3*time.Second || v.Err.Message != "slow down" {
			t.Errorf("%+v", v.Err)
		}
	}
	if got, _ := json.Marshal(kinds); string(got) != `["","throttled","throttled",""]` {
		t.Errorf("the four launches: %s", got)
	}
	r := at(time.Hour, elsewhere, "a")
	r.Offer.Region, r.Labels = "eu", map[string]string{"queue": "bulk-1"}
	if first, second := s.Launch(r), s.Launch(r); first.Delay != 0 || second.Delay != 5*time.Second {
		t.Errorf("%+v, then %+v", first, second)
	}
	r.Offer.Region = "far"
	if v := s.Launch(r); !v.Hang || v.Delay != 5*time.Second {
		t.Errorf("%+v", v)
	}
	r.Offer.Region = "lossy"
	if v := s.Launch(r); !v.Unseen {
		t.Errorf("%+v", v)
	}
}

func TestScenarioPreemption(t *testing.T) {
	s := scenario(t, demo)
	r := at(time.Hour, spot, "c1")
	r.Labels = map[string]string{"task": "train"}
	if p, ok := s.Preemption(r, 0); !ok || p != (local.Preemption{At: t0.Add(100 * time.Minute), Notice: 30 * time.Second}) {
		t.Errorf("%+v, %v", p, ok)
	}
	if _, ok := s.Preemption(r, 1); !ok {
		t.Error("the second machine of the first cluster is not interrupted")
	}
	r.Cluster = "c2"
	if _, ok := s.Preemption(r, 0); ok {
		t.Error("the second cluster is interrupted too")
	}
	r.Labels["task"] = "pair"
	if _, ok := s.Preemption(r, 0); ok {
		t.Error("rank 0 is interrupted")
	}
	if p, ok := s.Preemption(r, 1); !ok || !p.At.Equal(t0.Add(2*time.Hour)) || p.Notice != local.DefaultNotice {
		t.Errorf("%+v, %v", p, ok)
	}
}

func TestScenarioSaveAndRestore(t *testing.T) {
	s, r := scenario(t, demo), at(time.Hour, spot, "c1")
	r.Labels = map[string]string{"task": "train"}
	if _, ok := s.Preemption(r, 0); !ok {
		t.Fatal("not interrupted")
	}
	saved, err := s.Save()
	if err != nil {
		t.Fatal(err)
	}
	again := scenario(t, demo)
	if err := again.Restore(saved); err != nil {
		t.Fatal(err)
	}
	r.Cluster = "c2"
	if _, ok := again.Preemption(r, 0); ok {
		t.Error("after a restart the second cluster counts as the first")
	}
	other := scenario(t, "rules: [{fail: quota}]") // with the same number of rules
	if err := other.Restore(saved); err == nil {
		t.Error("restored the state of another scenario")
	}
	if err := other.Restore([]byte("{")); err == nil {
		t.Error("restored invalid state")
	}
}

func TestHostRestoresScenarioState(t *testing.T) {
	w := newWorld(t, local.Config{Behaviour: scenario(t, "rules: [{nth: 1, fail: quota}]")})
	if _, err := w.aws.Launch(t.Context(), w.spec("a", onDemand, 1)); cloud.KindOf(err) != cloud.Quota {
		t.Fatalf("%v", err)
	}
	w.cfg.Behaviour = scenario(t, "rules: [{nth: 1, fail: quota}]")
	w.reopen()
	w.launch("a", onDemand, 1)
}

// With Anew, a new host starts the scenario from its beginning. If machines of the old host still exist, the scenario
// must continue instead.
func TestAnewRestartsScenario(t *testing.T) {
	const second = "rules: [{nth: 2, fail: quota}]"
	w := newWorld(t, local.Config{Behaviour: scenario(t, second), Restart: true})
	w.launch("a", onDemand, 1)
	again := func() {
		w.cfg.Behaviour = scenario(t, second)
		w.reopen()
	}
	again()
	if _, err := w.aws.Launch(t.Context(), w.spec("b", onDemand, 1)); cloud.KindOf(err) != cloud.Quota {
		t.Fatalf("with a machine of the earlier host: %v", err)
	}
	if err := w.aws.Terminate(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	again()
	w.launch("c", onDemand, 1)
	if _, err := w.aws.Launch(t.Context(), w.spec("d", onDemand, 1)); cloud.KindOf(err) != cloud.Quota {
		t.Fatalf("from the beginning: %v", err)
	}
}

func TestReadScenarioErrors(t *testing.T) {
	for s, want := range map[string]string{
		"rules:\n- match: {zoone: a}\n  fail: capacity":        "line 2: field zoone not found",
		"rules:\n- fail: cpacity":                              `line 2: fail: kind is "cpacity", want one of [capacity quota`,
		"rules:\n- fail: {kind: quota, cod: x}":                "line 2: field cod not found",
		"rules:\n- fail: [quota]":                              "line 2: want a mapping",
		"rules:\n- hang: true\n  until: soon":                  `line 3: "soon" is not a duration`,
		"rules:\n- hang: true\n  until: -1m":                   `"-1m" is not a duration`,
		"rules:\n- hang: true\n  nth: 0":                       `nth is "0"`,
		"rules:\n- hang: true\n  nth: 3-2":                     `nth is "3-2"`,
		"rules:\n- hang: true\n  nth: some":                    `nth is "some"`,
		"rules:\n- hang: true\n  nth: 1+-2":                    `nth is "1+-2"`,
		"rules:\n- match: {cloud: aws}":                        "rule 1: does nothing",
		"rules:\n- fail: quota\n- fail: quota\n  hang: true":   "rule 2: fails and hangs",
		"rules:\n- fail: quota\n  preempt: {after: 1m}":        "write two rules",
		"rules:\n- preempt: {}":                                "one of after and at",
		"rules:\n- preempt: {at: 1m, after: 1m}":               "one of after and at",
		"rules:\n- fail: quota\n  from: 2m\n  until: 1m":       "until is not after from",
		"rules:\n- fail: quota\n  match: {market: cheap}":      `market is "cheap"`,
		"rules:\n- fail: quota\n  match: {cloud: \"[\"}":       `pattern "["`,
		"rules:\n- fail: quota\n  match: {labels: {a: \"[\"}}": `pattern "["`,
		"rules: 3": "line 1:", "name: x\nrules: []": "line 1: field name not found",
		"": "the file is empty",
		"rules:\n- fail: quota\n  match: {labels: {a: b}}\n  x: 1": "line 4: field x not found",
	} {
		_, err := local.ReadScenario(strings.NewReader(s))
		if !errors.Is(err, local.ErrScenario) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q:\n got %v\nwant %s", s, err, want)
		} else if strings.Contains(err.Error(), "local.rule") || strings.Contains(err.Error(), "struct") ||
			strings.Contains(err.Error(), "\n") {
			t.Errorf("%q: unreadable: %v", s, err)
		}
	}
}

func FuzzReadScenario(f *testing.F) {
	f.Add(demo)
	f.Add("rules: [{fail: {kind: quota}, match: {labels: {a: '[a-z]*'}}, nth: 1-2}]")
	f.Add("a: &a [*a]")
	f.Fuzz(func(t *testing.T, s string) {
		sc, err := local.ReadScenario(strings.NewReader(s))
		if err != nil {
			if !errors.Is(err, local.ErrScenario) {
				t.Fatal(err)
			}
			return
		}
		r := at(time.Hour, spot, "c")
		sc.Launch(r)
		if p, ok := sc.Preemption(r, 0); ok && p.At.Before(r.Now) {
			t.Fatalf("interrupted at %v", p.At)
		}
	})
}
