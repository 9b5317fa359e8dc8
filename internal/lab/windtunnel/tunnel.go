package windtunnel

import (
	"context"
	"math"
	"math/rand/v2"
	"time"

	"github.com/tradewind-broker/tradewind/pkg/parsync"
)

// tunnel is a running experiment. Time advances in turns; in each turn every scheduler refreshes one partition.
type tunnel struct {
	c          Config
	random     *rand.Rand
	rotation   parsync.Rotation
	cluster    *cluster
	schedulers []*scheduler
	turn       uint64
	length     time.Duration // of a turn
	mean       float64       // mean number of turns for which a task holds its slot
	merged     [][]int32     // scratch space for a full refresh
	none       [][]int32     // no free slots of any grade
	now        []*stats      // by class
	phases     [][]Phase     // by class
	all        []Phase
	series     []Point
	total      *stats
}

func newTunnel(c Config) *tunnel {
	random := rand.New(rand.NewPCG(c.Seed, 0x77696e64)) //nolint:gosec // reproducible by seed
	rotation, _ := parsync.NewRotation(c.Schedulers, c.Partitions)
	t := &tunnel{
		c: c, random: random, rotation: rotation, cluster: newCluster(c, random),
		length: c.Gap / time.Duration(c.Partitions), phases: make([][]Phase, len(c.Load)), total: &stats{},
	}
	t.mean = c.hold() / t.length.Seconds()
	grades := len(t.cluster.grades)
	t.merged, t.none = make([][]int32, grades), make([][]int32, grades)
	for i := range c.Schedulers {
		s := &scheduler{index: i, class: i * len(c.Load) / c.Schedulers, seen: make([]float64, grades)}
		switch c.Policy {
		case parsync.StateSync:
			s.view = parsync.NewView(1, grades)
		case Static, Lock:
			s.view = parsync.NewView(c.Partitions, grades)
		default:
			s.view = parsync.NewView(c.Partitions, grades)
			for p := range c.Partitions { // as if the schedulers had run for a while
				first := t.rotation.Partition(i, 0)
				s.view.Refresh((first+p+1)%c.Partitions, t.cluster.partition((first+p+1)%c.Partitions))
			}
		}
		t.schedulers = append(t.schedulers, s)
	}
	return t
}

// drawDuration draws the number of turns for which a task holds its slot.
func (t *tunnel) drawDuration() uint64 {
	turns := math.Round(t.random.ExpFloat64() * t.mean)
	return uint64(min(max(turns, 1), longest-1))
}

// phase simulates one phase.
func (t *tunnel) phase(ctx context.Context, phase int) error {
	t.now = make([]*stats, len(t.c.Load))
	for class := range t.now {
		t.now[class] = &stats{}
	}
	turns := int(t.c.Phase / t.length)
	perTurn := t.c.Rate / float64(t.c.Schedulers) * t.length.Seconds()
	second := max(int(time.Second/t.length), 1)
	all := &stats{}
	var point stats
	for i := range turns {
		if i%64 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		before := t.placedSoFar()
		t.step(phase, perTurn)
		after := t.placedSoFar()
		point.addDifference(after, before)
		all.watch(t.cluster)
		if (i+1)%second == 0 {
			t.series = append(t.series, point.point(float64(t.turn)*t.length.Seconds(), t.length))
			point = stats{}
		}
	}
	if t.c.Policy == parsync.StateSync {
		for _, s := range t.schedulers {
			t.expect(s)
		}
	}
	t.report(phase, all)
	return nil
}

// step simulates one turn: tasks end, others arrive, views are refreshed, tasks are placed.
func (t *tunnel) step(phase int, perTurn float64) {
	t.turn++
	t.cluster.turn(t.turn)
	for _, s := range t.schedulers {
		s.arrive(t.turn, poisson(t.random, t.c.Load[s.class][phase]*perTurn))
		t.refresh(s)
		s.addTries(perTurn)
	}
	if t.c.Policy == Lock {
		t.lock()
	}
	// The schedulers try one task each, one after the other. The first one is random, so that none is always first.
	n := len(t.schedulers)
	first := t.random.IntN(n)
	for busy := true; busy; {
		busy = false
		for i := range n {
			if t.try(t.schedulers[(first+i)%n]) {
				busy = true
			}
		}
	}
}

// poisson draws a number of arrivals with the given mean.
func poisson(random *rand.Rand, mean float64) int {
	n := 0
	for ; mean > 0; mean -= 8 {
		limit := math.Exp(-min(mean, 8))
		for p := random.Float64(); p > limit; p *= random.Float64() {
			n++
		}
	}
	return n
}
