package history

import (
	"maps"

	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/internal/broker/recordcache"
	"github.com/tradewind-broker/tradewind/internal/broker/txn"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/dag"
)

// Known returns the run times that were learned from jobs of a name. It returns an empty History if there are none.
func Known(u *txn.Unit, job string) (apitypes.History, error) {
	h, _, err := recordcache.Get[apitypes.History](u, record.HistoryKey(job))
	return h, err
}

// LoadAndFill returns a job that includes the learned run times of its tasks (see Fill).
func LoadAndFill(u *txn.Unit, spec *dag.Job) (*dag.Job, error) {
	h, err := Known(u, spec.Name)
	if err != nil {
		return nil, err
	}
	return Fill(spec, h), nil
}

// Add extends a decision that ends a job. It then also stores the run times of the job's succeeded tasks, as sampled
// by Sample, and the boot times of their machines and of the first workers.
func Add(u *txn.Unit, job string, spec *dag.Job, d *record.Decision) error {
	sample := Sample(spec)
	whole := len(sample)
	sample = append(sample, workers(spec)...)
	keys := make([]record.Key, 0, len(sample)+1)
	for _, i := range sample {
		keys = append(keys, record.TaskKey(job, i))
	}
	if err := u.Preload(append(keys, record.HistoryKey(spec.Name))...); err != nil {
		return err
	}
	tasks, last := make([]record.Task, len(sample)), []record.Key{}
	for n, i := range sample {
		var err error
		if tasks[n], _, err = recordcache.Get[record.Task](u, record.TaskKey(job, i)); err != nil {
			return err
		}
		last = append(last, record.AttemptKey(job, i, tasks[n].Attempt))
	}
	if err := u.Preload(last...); err != nil {
		return err
	}
	var runs []Run
	attempts := make([]apitypes.Attempt, len(sample))
	for n, i := range sample {
		var err error
		if attempts[n], _, err = recordcache.Get[apitypes.Attempt](u, last[n]); err != nil {
			return err
		}
		if n >= whole {
			continue
		}
		if r, ok := RunOf(&spec.Tasks[i], tasks[n], attempts[n]); ok {
			runs = append(runs, r)
		}
	}
	known, err := Known(u, spec.Name)
	if err != nil {
		return err
	}
	boots := learnBoots(known.Boots, attempts, u.Now)
	if len(runs) == 0 && maps.Equal(boots, known.Boots) {
		return nil
	}
	learned := Learn(known, spec, runs, u.Now)
	learned.Boots = boots
	d.Put(record.HistoryKey(spec.Name), learned)
	return nil
}
