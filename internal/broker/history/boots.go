package history

import (
	"time"

	"github.com/tradewind-broker/tradewind/internal/broker/planinput"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/dag"
)

const (
	// maxBoots is the maximum number of machine types whose boot times are stored for the jobs of a name.
	maxBoots = 32
	// maxWorkers is the maximum number of workers of one job from whose boots the history learns.
	maxWorkers = 4
	// longestBoot is the longest boot that is learned. A longer one is a fault, not a property of the machine.
	longestBoot = time.Hour
)

// workers returns the worker tasks of a job whose boot times are learned: the first ones, which are bought first.
func workers(spec *dag.Job) (tasks []int) {
	for i := spec.Work(); i < len(spec.Tasks) && len(tasks) < maxWorkers; i++ {
		tasks = append(tasks, i)
	}
	return tasks
}

// learnBoots adds the boots of attempts with one machine to known boot times. The result shares no memory with known.
// Attempts with several machines are ignored, because machines that boot together are up only when the last one is.
func learnBoots(known map[string]apitypes.RunTimes, attempts []apitypes.Attempt,
	now time.Time) map[string]apitypes.RunTimes {
	out := map[string]apitypes.RunTimes{}
	for machine, t := range known {
		out[machine] = t
	}
	for _, a := range attempts {
		boot := a.Up.Sub(a.Launched)
		if a.Nodes != 1 || len(a.Hosts) > 0 || a.Offer.Service != "" || a.Launched.IsZero() || boot <= 0 ||
			boot > longestBoot {
			continue
		}
		machine := planinput.BootKey(a.Offer.Cloud, a.Offer.InstanceType)
		out[machine] = observe(out[machine], Run{Hours: record.Hours(boot)}, now)
	}
	forget(out, maxBoots, func(t apitypes.RunTimes) int64 { return t.At })
	return out
}
