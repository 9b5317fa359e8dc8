package broker

import (
	"context"

	"github.com/tradewind-broker/tradewind/internal/broker/history"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/internal/broker/view"
)

// Rerun submits a job again as a new one: all of its tasks, with its deadline counted from now and its whole budget.
// The same token returns the same new job. It fails with ErrNotFound, and with a *dag.Error if something that the job
// needs no longer exists: the values of its secrets, which are kept only while it is open, or uploaded code.
func (b *Users) Rerun(ctx context.Context, id, token string) (record.Job, error) {
	u := b.txns.NewUnit(ctx, FnAPI)
	job, err := view.LoadJob(u, id)
	if err != nil {
		return record.Job{}, err
	}
	spec, err := u.Spec(job)
	if err != nil {
		return record.Job{}, err
	}
	if token != "" {
		token = "again\x00" + id + "\x00" + token
	}
	return b.Submit(ctx, Submission{Spec: history.Unlearned(spec), Token: token, Source: job.Source})
}
