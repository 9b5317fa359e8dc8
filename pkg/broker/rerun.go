package broker

import (
	"context"

	"github.com/tradewind-broker/tradewind/pkg/broker/history"
	"github.com/tradewind-broker/tradewind/pkg/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/broker/view"
)

// Rerun submits a job again, as a new one: all of its tasks, with its deadline counted from now and its whole budget.
// The same token is the same new job. It fails with ErrNotFound, and with a *dag.Error for what the job needs and is
// there no more: the values of its secrets, which are kept only while it is open, or code that was brought along.
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
