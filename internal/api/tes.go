package api

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/tradewind-broker/tradewind/internal/broker"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/internal/broker/view"
	"github.com/tradewind-broker/tradewind/internal/tes"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
)

// TESPath is the base path of the Task Execution Service of GA4GH.
const TESPath = "/ga4gh/tes/v1"

// tesSource is the source of jobs that were made from TES tasks. No file can have this source.
const tesSource = "ga4gh:tes"

// maxTESLog is the number of bytes of an attempt's log that are read. The script writes far less.
const maxTESLog = 8 << 20

func (a *API) tesRoutes() {
	op := func(id, method, path, summary string) huma.Operation {
		return huma.Operation{OperationID: id, Method: method, Path: TESPath + path, Tags: []string{"tes"},
			Summary: summary, DefaultStatus: http.StatusOK}
	}
	userRoute(a, op("tes-service-info", http.MethodGet, "/service-info", "What the service is"), a.tesInfo)
	userRoute(a, op("tes-create-task", http.MethodPost, "/tasks", "Submit a task"), a.tesCreate)
	userRoute(a, op("tes-list-tasks", http.MethodGet, "/tasks", "List tasks, the newest first"), a.tesList)
	// In Go's mux, a pattern cannot end with :cancel, and older clients request tasks/service-info.
	userRoute(a, op("tes-get-task", http.MethodGet, "/tasks/{id}", "A task"), a.tesGet)
	cancel := op("tes-cancel-task", http.MethodPost, "/tasks/{id}", "Cancel a task")
	cancel.Description = "The ID is followed by `:cancel`. A finished task stays as it is."
	userRoute(a, cancel, a.tesCancel)
}

type tesInfo struct {
	ID           string            `json:"id"`
	Name         string            `json:"name"`
	Type         tesType           `json:"type"`
	Organization map[string]string `json:"organization"`
	Version      string            `json:"version"`
	Storage      []string          `json:"storage" nullable:"false"`
	Parameters   []string          `json:"tesResources_backend_parameters" nullable:"false"`
}

type tesType struct {
	Group    string `json:"group"`
	Artifact string `json:"artifact"`
	Version  string `json:"version"`
}

func (a *API) tesService() tesInfo {
	return tesInfo{
		ID: "tradewind", Name: "Tradewind",
		Type:         tesType{Group: "org.ga4gh", Artifact: "tes", Version: tes.Version},
		Organization: map[string]string{"name": "Tradewind", "url": "https://github.com/tradewind-broker/tradewind"},
		Version:      cmp.Or(a.cfg.Version, "unknown"), Parameters: tes.Parameters(),
		Storage: []string{"s3://", "gs://", "azblob://", "file://"},
	}
}

func (a *API) tesInfo(context.Context, *struct{}) (*body[tesInfo], error) {
	return &body[tesInfo]{Body: a.tesService()}, nil
}

// tesFormerInfo is the response of version 1.0 at tasks/service-info. Clients of that version, such as py-tes, reject
// any other field.
type tesFormerInfo struct {
	Name    string   `json:"name"`
	Doc     string   `json:"doc"`
	Storage []string `json:"storage"`
}

func (a *API) tesFormer() tesFormerInfo {
	s := a.tesService()
	return tesFormerInfo{Name: s.Name, Doc: "TES " + tes.Version + " is at " + TESPath, Storage: s.Storage}
}

type tesCreateInput struct {
	Body tes.Task
}

type tesCreated struct {
	ID string `json:"id"`
}

func (a *API) tesCreate(ctx context.Context, in *tesCreateInput) (*body[tesCreated], error) {
	spec, err := tes.Job(in.Body)
	if err != nil {
		return nil, err
	}
	job, err := a.cfg.Broker.Submitter.Submit(ctx, broker.Submission{Spec: spec, Token: rand.Text(), Source: tesSource})
	if err != nil {
		return nil, err
	}
	return &body[tesCreated]{Body: tesCreated{ID: job.ID}}, nil
}

type tesGetInput struct {
	ID   string   `path:"id" maxLength:"256"`
	View tes.View `query:"view" enum:"MINIMAL,BASIC,FULL" default:"MINIMAL"`
}

func (a *API) tesGet(ctx context.Context, in *tesGetInput) (*body[any], error) {
	if in.ID == "service-info" {
		return &body[any]{Body: a.tesFormer()}, nil
	}
	t, err := a.tesTask(ctx, in.ID, in.View)
	if err != nil {
		return nil, err
	}
	return &body[any]{Body: t.Show(in.View)}, nil
}

// tesTask returns the TES task of a job, with the parts that a view needs. It returns ErrNotFound for jobs that were
// not submitted as TES tasks.
func (a *API) tesTask(ctx context.Context, id string, v tes.View) (tes.Task, error) {
	d, err := a.cfg.Broker.JobViews.JobPart(ctx, id, view.Part{})
	if err == nil && d.Source != tesSource {
		err = record.NotFound(nil, "task "+id)
	}
	if err != nil {
		return tes.Task{}, err
	}
	t := tes.Task{ID: id, State: tes.StateOf(d)}
	if v == tes.Minimal {
		return t, nil
	}
	document, err := a.cfg.Broker.JobViews.Document(ctx, id)
	if err != nil {
		return t, err
	}
	if err := json.Unmarshal([]byte(document), &t); err != nil {
		return t, err
	}
	t.CreationTime = d.Submitted.UTC().Format(time.RFC3339)
	for _, attempt := range d.Attempts {
		log := tes.TaskLog{
			Metadata:  map[string]string{"offer": attempt.OfferID, "attempt": record.ClusterID(id, 0, attempt.Number)},
			StartTime: stamp(cmp.Or(attempt.Started, attempt.Admitted)), EndTime: stamp(attempt.Ended),
			SystemLogs: []string{"runs on " + attempt.OfferID},
		}
		if attempt.Reason != "" {
			log.SystemLogs = append(log.SystemLogs, tes.SystemLog(attempt.Reason))
		}
		text, err := a.tesLog(ctx, Log{Job: id, Attempt: log.Metadata["attempt"]})
		if err != nil {
			return t, err
		}
		log.Logs, log.Outputs = t.ReadLog(text)
		if attempt.Outcome != apitypes.OutcomeSucceeded {
			log.Outputs = []tes.OutputFileLog{}
		}
		t.Logs = append(t.Logs, log)
	}
	t.Explain(d.Reason)
	return t, nil
}

// stamp formats a time as TES does; the zero time is empty.
func stamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}

// tesLog reads the available part of a log.
func (a *API) tesLog(ctx context.Context, log Log) ([]byte, error) {
	var all []byte
	buf := make([]byte, logPiece)
	for len(all) < maxTESLog {
		n, err := a.cfg.Logs.Read(ctx, log, int64(len(all)), buf)
		all = append(all, buf[:n]...)
		switch {
		case errors.Is(err, io.EOF), errors.Is(err, ErrNoLog):
			return all, nil
		case err != nil:
			return nil, err
		case n == 0:
			return all, nil
		}
	}
	return all, nil
}

type tesListInput struct {
	View       tes.View  `query:"view" enum:"MINIMAL,BASIC,FULL" default:"MINIMAL"`
	NamePrefix string    `query:"name_prefix" maxLength:"1024"`
	State      tes.State `query:"state" enum:"UNKNOWN,QUEUED,INITIALIZING,RUNNING,PAUSED,COMPLETE,EXECUTOR_ERROR,SYSTEM_ERROR,CANCELED,PREEMPTED,CANCELING"` //nolint:lll // a tag
	TagKey     []string  `query:"tag_key,explode" maxItems:"64"`
	TagValue   []string  `query:"tag_value,explode" maxItems:"64"`
	PageSize   int       `query:"page_size" minimum:"1" maximum:"2047" default:"256"`
	PageToken  string    `query:"page_token" pattern:"^(-?[0-9a-f]{16}#[a-z0-9-]+)?$"`
}

type tesTasks struct {
	Tasks []tes.Task `json:"tasks" nullable:"false"`
	Next  string     `json:"next_page_token,omitempty"`
}

// tesLook is the maximum number of jobs that are read for one page. If the filters match few of them, the page is short
// and has a token for the next one.
const tesLook = 4096

func (a *API) tesList(ctx context.Context, in *tesListInput) (*body[tesTasks], error) {
	out := tesTasks{Tasks: []tes.Task{}, Next: in.PageToken}
	for looked := 0; looked < tesLook && len(out.Tasks) < in.PageSize; {
		// Read no more jobs than fit on the page, so that the next page begins after the last one read.
		limit := in.PageSize - len(out.Tasks)
		jobs, next, err := a.cfg.Broker.JobViews.Jobs(ctx, out.Next, limit)
		if err != nil {
			return nil, err
		}
		looked += limit
		for _, j := range jobs {
			if j.Source != tesSource {
				continue
			}
			t, wanted, err := a.tesWanted(ctx, j.ID, in)
			if err != nil {
				return nil, err
			}
			if wanted {
				out.Tasks = append(out.Tasks, t.Show(in.View))
			}
		}
		if out.Next = next; next == "" {
			break
		}
	}
	return &body[tesTasks]{Body: out}, nil
}

// tesWanted loads a task, and reports whether it matches a list's filters.
func (a *API) tesWanted(ctx context.Context, id string, in *tesListInput) (tes.Task, bool, error) {
	v := in.View
	if in.NamePrefix != "" || len(in.TagKey) > 0 {
		v = cmp.Or(map[tes.View]tes.View{tes.Minimal: tes.Basic}[v], v)
	}
	t, err := a.tesTask(ctx, id, v)
	if err != nil {
		return t, false, err
	}
	wanted := strings.HasPrefix(t.Name, in.NamePrefix) && (in.State == "" || t.State == in.State)
	for i, key := range in.TagKey {
		value, has := t.Tags[key]
		wanted = wanted && has && (i >= len(in.TagValue) || in.TagValue[i] == "" || in.TagValue[i] == value)
	}
	return t, wanted, nil
}

type tesCancelInput struct {
	ID string `path:"id" maxLength:"256" doc:"ID of the task, and :cancel"`
}

func (a *API) tesCancel(ctx context.Context, in *tesCancelInput) (*body[struct{}], error) {
	id, ok := strings.CutSuffix(in.ID, ":cancel")
	if !ok {
		return nil, problem(http.StatusNotFound, "to cancel a task, append :cancel to its ID")
	}
	if _, err := a.tesTask(ctx, id, tes.Minimal); err != nil {
		return nil, err
	}
	err := a.cfg.Broker.Submitter.Cancel(ctx, id, "cancelled by a TES client")
	if err != nil && !errors.Is(err, record.ErrFinished) {
		return nil, err
	}
	return &body[struct{}]{}, nil
}
