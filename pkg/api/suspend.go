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
		OperationID: "suspend-job", Method: http.MethodPost, Path: "/v1/jobs/{id}/suspend", Tags: []string{"jobs"},
		Summary: "Have a job wait", DefaultStatus: http.StatusAccepted,
		Description: "What runs of it saves its work and gives back its machines; nothing of it is admitted until it " +
			"is resumed. Its deadline stays. 409 when it is over already. Suspending it again changes nothing.",
	}, a.suspendJob)
	userRoute(a, huma.Operation{
		OperationID: "resume-job", Method: http.MethodPost, Path: "/v1/jobs/{id}/resume", Tags: []string{"jobs"},
		Summary: "Have a suspended job go on", DefaultStatus: http.StatusAccepted,
		Description: "Its tasks wait in their queue and go on from their checkpoints. 409 when it is over already. " +
			"A job that is not suspended is left as it is.",
	}, a.resumeJob)
	userRoute(a, huma.Operation{
		OperationID: "suspend-queue", Method: http.MethodPost, Path: "/v1/queues/{name}/suspend",
		Tags: []string{"capacity"}, Summary: "Have a queue admit nothing", DefaultStatus: http.StatusAccepted,
		Description: "Neither it nor those below it admit anything until it is resumed. What runs goes on, or, with " +
			"drain, saves its work and waits.",
	}, a.suspendQueue)
	userRoute(a, huma.Operation{
		OperationID: "resume-queue", Method: http.MethodPost, Path: "/v1/queues/{name}/resume",
		Tags: []string{"capacity"}, Summary: "Have a suspended, or closed, queue admit again",
		DefaultStatus: http.StatusAccepted,
	}, a.resumeQueue)
}

type suspendJobInput struct {
	ID     string `path:"id" doc:"Job ID" maxLength:"256"`
	By     string `query:"by" maxLength:"256" doc:"Who has it wait, for the job's story"`
	Reason string `query:"reason" maxLength:"1024" doc:"Why"`
	Key    string `header:"Idempotency-Key" maxLength:"256" doc:"The same key is the same request, however often, and however late, it arrives"`
}

func (a *API) suspendJob(ctx context.Context, in *suspendJobInput) (*body[apitypes.JobView], error) {
	if err := a.cfg.Broker.Suspender.Suspend(ctx, in.ID, apitypes.Suspension{By: in.By, Reason: in.Reason}, in.Key); err != nil {
		return nil, err
	}
	return a.shown(ctx, in.ID)
}

type resumeJobInput struct {
	ID  string `path:"id" doc:"Job ID" maxLength:"256"`
	By  string `query:"by" maxLength:"256" doc:"Who resumes it, for the job's story"`
	Key string `header:"Idempotency-Key" maxLength:"256" doc:"The same key is the same request, however often, and however late, it arrives"`
}

func (a *API) resumeJob(ctx context.Context, in *resumeJobInput) (*body[apitypes.JobView], error) {
	if err := a.cfg.Broker.Suspender.Resume(ctx, in.ID, in.By, in.Key); err != nil {
		return nil, err
	}
	return a.shown(ctx, in.ID)
}

// shown answers with a job.
func (a *API) shown(ctx context.Context, id string) (*body[apitypes.JobView], error) {
	shown, err := a.cfg.Broker.JobViews.JobView(ctx, id)
	if err != nil {
		return nil, err
	}
	return &body[apitypes.JobView]{Body: shown}, nil
}

type suspendQueueInput struct {
	Name   string `path:"name" pattern:"^[A-Za-z0-9][A-Za-z0-9._-]*$" maxLength:"128" doc:"Name of the queue"`
	By     string `query:"by" maxLength:"256" doc:"Who has it wait"`
	Reason string `query:"reason" maxLength:"1024" doc:"Why"`
	Drain  bool   `query:"drain" doc:"What runs saves its work and waits, too"`
	Key    string `header:"Idempotency-Key" maxLength:"256" doc:"The same key is the same request, however often, and however late, it arrives"`
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
	Key  string `header:"Idempotency-Key" maxLength:"256" doc:"The same key is the same request, however often, and however late, it arrives"`
}

func (a *API) resumeQueue(ctx context.Context, in *resumeQueueInput) (*body[apitypes.Queue], error) {
	if err := a.cfg.Broker.Suspender.ResumeQueue(ctx, in.Name, in.By, in.Key); err != nil {
		return nil, err
	}
	return a.queueNamed(ctx, in.Name)
}
