package windtunnel

import (
	"time"

	"github.com/tradewind-broker/tradewind/pkg/parsync"
)

// scheduler is one of the simulated schedulers, with a queue, a view and a limited number of tries a second.
type scheduler struct {
	class  int
	index  int
	view   *parsync.View
	queue  []arrivals // oldest first
	head   int
	queued int
	credit float64 // tries left
	locked int     // partition of its last lock, under Lock

	seen  []float64 // free slots in its view at its last refresh, by grade
	tries int       // since the last refresh
}

// arrivals are tasks that arrived in the same turn.
type arrivals struct {
	turn uint64
	n    int
}

func (s *scheduler) arrive(turn uint64, n int) {
	if n == 0 {
		return
	}
	if s.head > 1024 && s.head > len(s.queue)/2 {
		s.queue = s.queue[:copy(s.queue, s.queue[s.head:])]
		s.head = 0
	}
	s.queue = append(s.queue, arrivals{turn, n})
	s.queued += n
}

// oldest returns the turn in which the first task of the queue arrived. The queue must not be empty.
func (s *scheduler) oldest() uint64 { return s.queue[s.head].turn }

func (s *scheduler) pop() {
	s.queued--
	if s.queue[s.head].n--; s.queue[s.head].n == 0 {
		s.head++
	}
}

// refresh refreshes the next partition of a scheduler's view. Under StateSync it refreshes the whole view, and under
// Static the partitions of the scheduler.
func (t *tunnel) refresh(s *scheduler) {
	switch t.c.Policy {
	case Static:
		t.refreshOwn(s)
		return
	case Lock:
		return // see lock
	}
	if t.c.Policy != parsync.StateSync {
		p := t.rotation.Partition(s.index, t.turn)
		s.view.Refresh(p, t.cluster.partition(p))
		return
	}
	if t.rotation.Partition(s.index, t.turn) != 0 {
		return // this scheduler refreshes in another turn of the gap
	}
	t.expect(s)
	grades := len(t.cluster.grades)
	all := t.merged
	for g := range grades {
		all[g] = all[g][:0]
	}
	for p := range t.c.Partitions {
		for g, list := range t.cluster.partition(p) {
			all[g] = append(all[g], list...)
		}
	}
	s.view.Refresh(0, all)
	for g := range grades {
		s.seen[g] = float64(len(all[g]))
	}
}

// expect adds the expected conflicts of the gap that ends now.
func (t *tunnel) expect(s *scheduler) {
	n := len(t.schedulers)
	slots := taken(float64(s.tries), s.seen, t.c.Candidates)
	hold := t.mean * t.length.Seconds()
	t.now[s.class].expected += parsync.TurnoverConflicts(n, slots, s.seen, t.c.Gap.Seconds(), hold) / float64(n)
	s.tries = 0
}

// addTries gives a scheduler the tries of a turn. Unused whole tries are lost.
func (s *scheduler) addTries(tries float64) {
	if s.credit >= 1 {
		s.credit -= float64(int(s.credit))
	}
	s.credit += tries
}

// choose removes the slot that the policy prefers from a scheduler's view and returns it.
func (t *tunnel) choose(s *scheduler, waited uint64) (int32, bool) {
	if t.c.Policy == parsync.StateSync && t.c.Candidates > 0 {
		return s.view.Sample(t.c.Candidates, t.random.IntN)
	}
	if t.c.Policy == Static || t.c.Policy == Lock {
		return s.view.Take(parsync.QualityFirst, t.random.IntN)
	}
	return s.view.Take(t.c.Policy.Prefer(t.length*time.Duration(waited), t.c.Switch), t.random.IntN) //nolint:gosec // far below
}

// try tries to place the oldest task of a scheduler. It returns false if the scheduler can do nothing more in this
// turn.
func (t *tunnel) try(s *scheduler) bool {
	if s.credit < 1 || s.queued == 0 {
		return false
	}
	waited := t.turn - s.oldest()
	slot, ok := t.choose(s, waited)
	if !ok {
		return false
	}
	s.credit--
	s.tries++
	stats := t.now[s.class]
	if !t.cluster.take(slot, t.turn+t.drawDuration()) {
		stats.conflict()
		return true
	}
	s.pop()
	stats.placed(waited, t.cluster.grades[t.cluster.grade(slot)].Score)
	return true
}
