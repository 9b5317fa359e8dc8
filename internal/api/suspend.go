package api

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/tradewind-broker/tradewind/pkg/apitypes"
)

// Suspender suspends and resumes jobs and queues. A *broker.Users is one.
type Suspender interface {
	Suspend(ctx context.Context, id string, s apitypes.Suspension, key string) error
	Resume(ctx context.Context, id, by, key string) error
	SuspendQueue(ctx context.Context, name string, s apitypes.Suspension, key string) error
	ResumeQueue(ctx context.Context, name, by, key string) error
}

func (a *API) suspendRoutes() {
	userRoute(a, huma.Operation{
		OperationID:   "suspend-job",
		Method:        http.MethodPost,
		Path:          "/v1/jobs/{id}/suspend",
		Tags:          []string{"jobs"},
		Summary:       "Suspend a job",
		DefaultStatus: http.StatusAccepted,
		Description: "Its running tasks save their work and release their machines; none of its tasks is " +
			"admitted until it " +
			"is resumed. Its deadline stays. 409 if it has already finished. Suspending it again changes nothing.",
	}, a.suspendJob)
	userRoute(a, huma.Operation{
		OperationID:   "resume-job",
		Method:        http.MethodPost,
		Path:          "/v1/jobs/{id}/resume",
		Tags:          []string{"jobs"},
		Summary:       "Resume a suspended job",
		DefaultStatus: http.StatusAccepted,
		Description: "Its tasks wait in their queue and continue from their checkpoints. 409 if it has already " +
			"finished. " +
			"A job that is not suspended stays as it is.",
	}, a.resumeJob)
	userRoute(a, huma.Operation{
		OperationID:   "suspend-queue",
		Method:        http.MethodPost,
		Path:          "/v1/queues/{name}/suspend",
		Tags:          []string{"capacity"},
		Summary:       "Suspend a queue",
		DefaultStatus: http.StatusAccepted,
		Description: "The queue and its child queues admit nothing until it is resumed. Running tasks continue " +
			"or, with " +
			"drain, save their work and wait.",
	}, a.suspendQueue)
	userRoute(a, huma.Operation{
		OperationID: "resume-queue", Method: http.MethodPost, Path: "/v1/queues/{name}/resume",
		Tags: []string{"capacity"}, Summary: "Resume a suspended or closed queue",
		DefaultStatus: http.StatusAccepted,
	}, a.resumeQueue)
}

type suspendJobInput struct {
	ID     string `path:"id" doc:"Job ID" maxLength:"256"`
	By     string `query:"by" maxLength:"256" doc:"Who suspends it, for the job's history"`
	Reason string `query:"reason" maxLength:"1024" doc:"Why"`
	Key    string `header:"Idempotency-Key" maxLength:"256" doc:"Requests with the same key count once, no matter how late they arrive"`
}

func (a *API) suspendJob(ctx context.Context, in *suspendJobInput) (*body[apitypes.JobView], error) {
	if err := a.cfg.Broker.Suspender.Suspend(
		ctx,
		in.ID,
		apitypes.Suspension{By: in.By, Reason: in.Reason},
		in.Key,
	); err != nil {
		return nil, err
	}
	return a.jobResponse(ctx, in.ID)
}

type resumeJobInput struct {
	ID  string `path:"id" doc:"Job ID" maxLength:"256"`
	By  string `query:"by" maxLength:"256" doc:"Who resumes it, for the job's history"`
	Key string `header:"Idempotency-Key" maxLength:"256" doc:"Requests with the same key count once, no matter how late they arrive"`
}

func (a *API) resumeJob(ctx context.Context, in *resumeJobInput) (*body[apitypes.JobView], error) {
	if err := a.cfg.Broker.Suspender.Resume(ctx, in.ID, in.By, in.Key); err != nil {
		return nil, err
	}
	return a.jobResponse(ctx, in.ID)
}

// jobResponse responds with a job.
func (a *API) jobResponse(ctx context.Context, id string) (*body[apitypes.JobView], error) {
	shown, err := a.cfg.Broker.JobViews.JobView(ctx, id)
	if err != nil {
		return nil, err
	}
	return &body[apitypes.JobView]{Body: shown}, nil
}

type suspendQueueInput struct {
	Name   string `path:"name" pattern:"^[A-Za-z0-9][A-Za-z0-9._-]*$" maxLength:"128" doc:"Name of the queue"`
	By     string `query:"by" maxLength:"256" doc:"Who suspends it"`
	Reason string `query:"reason" maxLength:"1024" doc:"Why"`
	Drain  bool   `query:"drain" doc:"Whether running tasks save their work and wait as well"`
	Key    string `header:"Idempotency-Key" maxLength:"256" doc:"Requests with the same key count once, no matter how late they arrive"`
}

func (a *API) suspendQueue(ctx context.Context, in *suspendQueueInput) (*body[apitypes.Queue], error) {
	s := apitypes.Suspension{By: in.By, Reason: in.Reason, Drain: in.Drain}
	if err := a.cfg.Broker.Suspender.SuspendQueue(ctx, in.Name, s, in.Key); err != nil {
		return nil, err
	}
	return a.queueNamed(ctx, in.Name)
}

type resumeQueueInput struct {
	Name string `path:"name" pattern:"^[A-Za-z0-9][A-Za-z0-9._-]*$" maxLength:"128" doc:"Name of the queue"`
	By   string `query:"by" maxLength:"256" doc:"Who resumes it"`
	Key  string `header:"Idempotency-Key" maxLength:"256" doc:"Requests with the same key count once, no matter how late they arrive"`
}

func (a *API) resumeQueue(ctx context.Context, in *resumeQueueInput) (*body[apitypes.Queue], error) {
	if err := a.cfg.Broker.Suspender.ResumeQueue(ctx, in.Name, in.By, in.Key); err != nil {
		return nil, err
	}
	return a.queueNamed(ctx, in.Name)
}
