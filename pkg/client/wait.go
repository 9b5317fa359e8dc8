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

// JobFailed is the error of Wait for a job that failed or was cancelled.
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

// SubmitJob submits a job that a Builder or the caller made, with the values of its secrets (Job.Stated). It uploads
// the local files that the job names: work directories and inputs that are paths, relative to the current directory,
// and git repositories. If the request has to be retried, the job is still submitted only once; two calls of SubmitJob
// make two jobs. A missing file is a *dag.Error.
func (c *Client) SubmitJob(ctx context.Context, j *dag.Job) (*apitypes.Submitted, error) {
	if j == nil {
		return nil, errNoJob
	}
	for _, name := range j.SecretNames() {
		if j.Stated[name] == "" {
			return nil, j.SecretError(name, "has no value", "give it with Builder.Secret, or with the file to Submit")
		}
	}
	brought, err := c.uploadLocalFiles(ctx, j)
	if err != nil {
		return nil, err
	}
	file, err := dag.Marshal(brought)
	if err != nil {
		return nil, err
	}
	return c.Submit(ctx, j.Name+".yaml", rand.Text(), file, j.Stated)
}

// Plan plans a job file at current prices: where the job would run, and for how much. The name is as for Submit.
// Nothing is stored or run. If there is no plan, Status is infeasible and Message is the reason.
func (c *Client) Plan(ctx context.Context, name string, file []byte) (*apitypes.PlanView, error) {
	q := url.Values{}
	if name != "" {
		q.Set("name", name)
	}
	var out apitypes.PlanView
	return &out, c.call(ctx, request{method: http.MethodPost, path: "/v1/plans", query: q, body: file,
		contentType: "application/octet-stream"}, &out)
}

// PlanJob is Plan for a job that a Builder or the caller made. The local files that it names must exist; their sizes
// are used in the plan.
func (c *Client) PlanJob(ctx context.Context, j *dag.Job) (*apitypes.PlanView, error) {
	found, _, err := resolveLocalFiles(ctx, j)
	if err != nil {
		return nil, err
	}
	file, err := dag.Marshal(found)
	if err != nil {
		return nil, err
	}
	return c.Plan(ctx, j.Name+".yaml", file)
}

// Wait waits until a job has finished, and returns it. If it did not succeed, Wait returns the job and a *JobFailed.
// When ctx ends, only the wait stops, not the job.
func (c *Client) Wait(ctx context.Context, id string) (*apitypes.JobView, error) {
	for _, err := range c.Follow(ctx, id) {
		if err != nil && ctx.Err() != nil {
			return nil, fmt.Errorf("job %s continues, only the wait for it has ended: %w", id, err)
		}
		if err != nil {
			return nil, err
		}
	}
	// The stream may have ended before its last update was read.
	job, err := c.Job(ctx, id)
	if err != nil {
		return nil, err
	}
	if job.State != apitypes.JobSucceeded {
		return &job.JobView, &JobFailed{Job: job.JobView}
	}
	return &job.JobView, nil
}
