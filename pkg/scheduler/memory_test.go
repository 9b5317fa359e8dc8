package scheduler_test

import (
	"runtime"
	"testing"

	"github.com/tradewind-broker/tradewind/internal/scheduler/schedulertest"
	. "github.com/tradewind-broker/tradewind/pkg/scheduler"
)

// The memory per task must not grow with the number of tasks. Memory is the same in every run, and time grows with
// it. (bench/scheduler measures the time per task.)
func TestMemoryPerTaskDoesNotGrow(t *testing.T) {
	each := func(tasks int) float64 {
		snapshot := schedulertest.New(schedulertest.Options{Nodes: 1000, Tasks: tasks})
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		s, err := Open(snapshot, DefaultPolicy())
		if err != nil {
			t.Fatal(err)
		}
		s.Run()
		s.Close()
		runtime.ReadMemStats(&after)
		return float64(after.TotalAlloc-before.TotalAlloc) / float64(tasks)
	}
	few, many := each(10_000), each(100_000)
	if many > few || many > 350 {
		t.Errorf("a task of 10,000 takes %.0f bytes, one of 100,000 %.0f: want no more than that, and at most 350", few, many)
	}
}
