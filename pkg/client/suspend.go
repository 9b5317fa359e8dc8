package client

import (
	"context"
	"crypto/rand"
	"net/http"
	"net/url"

	"github.com/tradewind-broker/tradewind/pkg/apitypes"
)

// Suspend suspends a job. It returns before the running tasks have saved their work.
func (c *Client) Suspend(ctx context.Context, id, by, reason string) (*apitypes.JobView, error) {
	var out apitypes.JobView
	return &out, c.call(ctx, request{key: rand.Text(), method: http.MethodPost, path: jobPath(id) + "/suspend",
		query: queryOf("by", by, "reason", reason)}, &out)
}

// Resume resumes a suspended job.
func (c *Client) Resume(ctx context.Context, id, by string) (*apitypes.JobView, error) {
	var out apitypes.JobView
	return &out, c.call(ctx, request{key: rand.Text(), method: http.MethodPost, path: jobPath(id) + "/resume",
		query: queryOf("by", by)}, &out)
}

// SuspendQueue stops the admission of a queue's tasks. With drain, its running tasks also save
// their work and wait.
func (c *Client) SuspendQueue(ctx context.Context, name, by, reason string, drain bool) (*apitypes.Queue, error) {
	var out apitypes.Queue
	q := queryOf("by", by, "reason", reason)
	if drain {
		q.Set("drain", "true")
	}
	return &out, c.call(ctx, request{key: rand.Text(), method: http.MethodPost, path: queuePath(name) + "/suspend",
		query: q}, &out)
}

// ResumeQueue lets a suspended or closed queue admit tasks again.
func (c *Client) ResumeQueue(ctx context.Context, name, by string) (*apitypes.Queue, error) {
	var out apitypes.Queue
	return &out, c.call(ctx, request{key: rand.Text(), method: http.MethodPost, path: queuePath(name) + "/resume",
		query: queryOf("by", by)}, &out)
}

func queuePath(name string) string { return "/v1/queues/" + url.PathEscape(name) }

// queryOf returns query parameters from pairs of name and value, without empty values.
func queryOf(pairs ...string) url.Values {
	q := url.Values{}
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			q.Set(pairs[i], pairs[i+1])
		}
	}
	return q
}
