package session

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/internal/broker/recordcache"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
)

// TestEarliestStart checks at each end of a running task whether the remaining ones leave room, in the queue and in
// those above it.
func TestEarliestStart(t *testing.T) {
	now := time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)
	rapid.Check(t, func(t *rapid.T) {
		var tree []*apitypes.Queue
		for i, name := range []string{"lab", "a", "b"} {
			q := &apitypes.Queue{Name: name, MaxRunning: rapid.IntRange(0, 4).Draw(t, "most"),
				MaxVCPU: float64(rapid.IntRange(0, 9).Draw(t, "vcpus"))}
			if i > 0 {
				q.Parent = "lab"
			}
			if rapid.Bool().Draw(t, "memory") {
				q.Max = apitypes.Amounts{apitypes.MemoryGiB: float64(rapid.IntRange(1, 9).Draw(t, "GiB"))}
			}
			tree = append(tree, q)
		}
		s := &Session{Input: Input{Policy: OwnPolicy()}, u: recordcache.NewDraft(nil, now, 0), tree: tree, queues: byName(tree)}
		var ends []ending
		for range rapid.IntRange(0, 6).Draw(t, "running") {
			e := ending{at: now.Add(time.Duration(rapid.IntRange(0, 5).Draw(t, "ends")) * time.Hour),
				queue: rapid.SampledFrom(tree[1:]).Draw(t, "of"), held: apitypes.Amounts{
					apitypes.VCPUs:     float64(rapid.IntRange(1, 4).Draw(t, "holds")),
					apitypes.MemoryGiB: float64(rapid.IntRange(1, 4).Draw(t, "GiB held"))}}
			e.queue.Running++
			e.queue.VCPU += e.held[apitypes.VCPUs]
			e.queue.Use = e.queue.Use.Plus(apitypes.Amounts{apitypes.MemoryGiB: e.held[apitypes.MemoryGiB]})
			ends = append(ends, e)
		}
		slices.SortFunc(ends, func(a, b ending) int { return a.at.Compare(b.at) })
		vcpu, gib := float64(rapid.IntRange(1, 6).Draw(t, "needs")), float64(rapid.IntRange(1, 6).Draw(t, "needs GiB"))
		plan := &record.Plan{Offers: []record.Planned{{VCPU: vcpu, MemoryGiB: gib, Offer: apitypes.Offer{}}}, Choice: []int32{0}}
		a := &admission{side: &side{plan: plan}, queue: tree[1], nodes: 1}
		got := s.earliestStart(&together{members: []*admission{a}}, ends)

		want := now // if it cannot be estimated
		for _, at := range ends {
			fits := true
			for _, q := range []*apitypes.Queue{tree[1], tree[0]} {
				running, vcpus, memory := 1, vcpu, gib
				for _, e := range ends {
					if e.at.After(at.at) && (e.queue == q || q == tree[0]) {
						running, vcpus = running+1, vcpus+e.held[apitypes.VCPUs]
						memory += e.held[apitypes.MemoryGiB]
					}
				}
				most, bounded := q.Max[apitypes.MemoryGiB]
				fits = fits && (q.MaxRunning == 0 || running <= q.MaxRunning) &&
					(q.MaxVCPU == 0 || vcpus <= q.MaxVCPU) && (!bounded || memory <= most)
			}
			if fits {
				want = at.at
				break
			}
		}
		if !got.Equal(want) {
			t.Fatalf("got %v, a naive count gives %v", got, want)
		}
	})
}
