package scheduler_test

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/internal/scheduler/schedulertest"
	. "github.com/tradewind-broker/tradewind/pkg/scheduler"
)

// BenchmarkSession measures a whole session, from snapshot to result, with gang, drf, queues and predicates. The time
// per task must not grow with the number of tasks.
func BenchmarkSession(b *testing.B) {
	for _, tasks := range []int{10_000, 20_000, 50_000, 100_000} {
		for _, full := range []float64{0.8, 2} {
			name := fmt.Sprintf("tasks=%d/nodes=1000/all_fit", tasks)
			if full > 1 {
				name = fmt.Sprintf("tasks=%d/nodes=1000/half_fit", tasks)
			}
			b.Run(name, func(b *testing.B) {
				snapshot := schedulertest.New(schedulertest.Options{Nodes: 1000, Tasks: tasks, Full: full})
				policy := DefaultPolicy()
				bound := 0
				before := processor()
				for b.Loop() {
					s, err := Open(snapshot, policy)
					if err != nil {
						b.Fatal(err)
					}
					s.Run()
					bound = len(s.Close().Binds)
				}
				b.ReportMetric(float64(bound), "bound")
				each := (processor() - before) / time.Duration(b.N)
				b.ReportMetric(float64(each.Microseconds())/1000, "cpu-ms")
				b.ReportMetric(float64(each.Nanoseconds())/float64(tasks), "cpu-ns/task")
			})
		}
	}
}

// processor returns the CPU time of this process. Other load on the machine does not change it.
func processor() time.Duration {
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		return 0
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}
