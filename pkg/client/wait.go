package client

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/http"
	"net/url"

	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/dag"
)

// JobFailed is the error of a job that was waited for and has ended without success.
type JobFailed struct{ Job apitypes.JobView }

// Error implements error.
func (e *JobFailed) Error() string {
	text := fmt.Sprintf("job %s %s", e.Job.ID, e.Job.State)
	if e.Job.State == apitypes.JobCancelled {
		text = fmt.Sprintf("job %s was cancelled", e.Job.ID)
	}
	if e.Job.Reason != "" {
		text += ": " + e.Job.Reason
	}
	return text
}

// SubmitJob hands in a job that was made by a Builder, or by hand, with the values of its secrets (Job.Stated), and
// brings along what it names on this computer: work directories and inputs that are paths, which begin at the current
// directory, and git repositories. It is submitted once, however often a call is made anew meanwhile; two calls of
// SubmitJob are two jobs. What Submit takes a key for, it makes one of. That something is not there is a *dag.Error.
func (c *Client) SubmitJob(ctx context.Context, j *dag.Job) (*apitypes.Submitted, error) {
	if j == nil {
		return nil, errNoJob
	}
	for _, name := range j.SecretNames() {
		if j.Stated[name] == "" {
			return nil, j.SecretError(name, "has no value", "give it with Builder.Secret, or with the file to Submit")
		}
	}
	brought, err := c.bring(ctx, j)
	if err != nil {
		return nil, err
	}
	file, err := dag.Marshal(brought)
	if err != nil {
		return nil, err
	}
	return c.Submit(ctx, j.Name+".yaml", rand.Text(), file, j.Stated)
}

// Plan plans a job file, named as for Submit, with the prices of now: where it would run and for how much. Nothing is
// stored, and nothing runs. Where there is no plan, its Status is infeasible and its Message says why.
func (c *Client) Plan(ctx context.Context, name string, file []byte) (*apitypes.PlanView, error) {
	q := url.Values{}
	if name != "" {
		q.Set("name", name)
	}
	var out apitypes.PlanView
	return &out, c.call(ctx, request{method: http.MethodPost, path: "/v1/plans", query: q, body: file,
		contentType: "application/octet-stream"}, &out)
}

// PlanJob is Plan of a job that was made by a Builder, or by hand. What it names on this computer has to be there, and
// counts with its size.
func (c *Client) PlanJob(ctx context.Context, j *dag.Job) (*apitypes.PlanView, error) {
	found, _, err := here(ctx, j)
	if err != nil {
		return nil, err
	}
	file, err := dag.Marshal(found)
	if err != nil {
		return nil, err
	}
	return c.Plan(ctx, j.Name+".yaml", file)
}

// Wait waits until a job has ended, and returns it. The error of one that did not succeed is a *JobFailed, beside the
// job. That ctx ends stops the wait and not the job.
func (c *Client) Wait(ctx context.Context, id string) (*apitypes.JobView, error) {
	for _, err := range c.Follow(ctx, id) {
		if err != nil && ctx.Err() != nil {
			return nil, fmt.Errorf("job %s goes on, only the wait for it has ended: %w", id, err)
		}
		if err != nil {
			return nil, err
		}
	}
	// What ended the stream may have come before the last of its updates was read.
	job, err := c.Job(ctx, id)
	if err != nil {
		return nil, err
	}
	if job.State != apitypes.JobSucceeded {
		return &job.JobView, &JobFailed{Job: job.JobView}
	}
	return &job.JobView, nil
}
