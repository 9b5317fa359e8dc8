package api

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"path"
	"strings"
	"time"
	"unicode"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/tradewind-broker/tradewind/internal/broker"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/internal/broker/view"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/dag"
	"github.com/tradewind-broker/tradewind/pkg/dag/read"
)

// Submitter submits, reruns, cancels and removes jobs. A *broker.Users is one.
type Submitter interface {
	Submit(ctx context.Context, s broker.Submission) (record.Job, error)
	Rerun(ctx context.Context, id, token string, failed bool) (record.Job, error)
	Cancel(ctx context.Context, id, reason string) error
	Remove(ctx context.Context, id string) error
}

// JobViews shows jobs. A *view.Views is one.
type JobViews interface {
	Jobs(ctx context.Context, after string, limit int) (views []apitypes.JobView, next string, err error)
	JobView(ctx context.Context, id string) (apitypes.JobView, error)
	JobPart(ctx context.Context, id string, p view.Part) (*apitypes.JobDetail, error)
	JobSince(ctx context.Context, id string, was *view.Look) (*view.Look, error)
	Document(ctx context.Context, id string) (string, error)
	ExplainPart(ctx context.Context, id string, p view.Part) (*apitypes.Story, error)
	Learned(ctx context.Context, job string) (apitypes.History, error)
}

func (a *API) jobRoutes() {
	submit := fileRequest()
	defer func() { submit.Content["multipart/form-data"] = formRequest() }()
	userRoute(a, huma.Operation{
		OperationID: "submit", Method: http.MethodPost, Path: "/v1/dags", Tags: []string{"jobs"},
		Summary: "Submit a job file", DefaultStatus: http.StatusCreated, RequestBody: submit,
		Description: "Accepts Tradewind or SkyPilot YAML, Kubernetes manifests, WfCommons JSON and Pegasus DAX, " +
			"each also gzipped. " +
			"An invalid file is not stored; the response is 422 with the position of the error. A job with " +
			"secrets is sent as a form: first the part secrets, a JSON object of their values, or of references to " +
			"where they are stored (ssm:/path), by name, and then the part file.",
	}, a.submit)
	userRoute(a, huma.Operation{
		OperationID: "list-jobs", Method: http.MethodGet, Path: "/v1/jobs", Tags: []string{"jobs"},
		Summary: "List jobs, the newest first",
	}, a.listJobs)
	userRoute(a, huma.Operation{
		OperationID: "get-job", Method: http.MethodGet, Path: "/v1/jobs/{id}", Tags: []string{"jobs"},
		Summary: "A job with its tasks, plans and attempts",
	}, a.getJob)
	userRoute(a, huma.Operation{
		OperationID: "explain-job", Method: http.MethodGet, Path: "/v1/jobs/{id}/explain", Tags: []string{"jobs"},
		Summary: "What happened to a job, and why its tasks run where they do",
	}, a.explainJob)
	userRoute(a, huma.Operation{
		OperationID:   "rerun-job",
		Method:        http.MethodPost,
		Path:          "/v1/jobs/{id}/rerun",
		Tags:          []string{"jobs"},
		Summary:       "Submit a job again, as a new one",
		DefaultStatus: http.StatusCreated,
		Description: "Runs all of its tasks again, or those of a finished job that failed or never ran, with the " +
			"deadline counted from now and the whole budget. If something that the job needs no longer exists, " +
			"such as its secrets, the response is 422.",
	}, a.rerunJob)
	cancel := huma.Operation{
		OperationID: "cancel-job", Method: http.MethodPost, Path: "/v1/jobs/{id}/cancel", Tags: []string{"jobs"},
		Summary: "Cancel a job", DefaultStatus: http.StatusAccepted,
		Description: "None of its tasks start any more, and its machines are released. 409 if it has already finished.",
	}
	userRoute(a, cancel, a.cancelJob)
	userRoute(a, huma.Operation{
		OperationID: "remove-job", Method: http.MethodPost, Path: "/v1/jobs/{id}/remove", Tags: []string{"jobs"},
		Summary: "Remove a finished job",
		Description: "Returns the job as it was. Its records, logs and outputs in the broker's own stores are " +
			"removed soon. Outputs at a URI of the job file stay. 409 if it has not finished.",
	}, a.removeJob)
	cancel.OperationID, cancel.Method, cancel.Path = "delete-job", http.MethodDelete, "/v1/jobs/{id}"
	cancel.Responses = nil
	userRoute(a, cancel, a.cancelJob)
}

// fileRequest describes a body that is a job file.
func fileRequest() *huma.RequestBody {
	text := func() *huma.MediaType { return &huma.MediaType{Schema: &huma.Schema{Type: huma.TypeString}} }
	binary := func() *huma.MediaType {
		return &huma.MediaType{Schema: &huma.Schema{Type: huma.TypeString, Format: "binary"}}
	}
	return &huma.RequestBody{
		Required: true, Description: "The file",
		Content: map[string]*huma.MediaType{
			"application/yaml": text(), "application/xml": text(), "application/json": {},
			"application/gzip": binary(), "application/octet-stream": binary(),
		},
	}
}

// formRequest describes the form of a job with its secrets. It is added after the operation was registered; otherwise
// huma would parse the body of every request as a form.
func formRequest() *huma.MediaType {
	return &huma.MediaType{Schema: &huma.Schema{
		Type: huma.TypeObject, Required: []string{apitypes.FormFile},
		Properties: map[string]*huma.Schema{
			apitypes.FormSecrets: {
				Type:        huma.TypeString,
				Description: "JSON object of secrets by name; before the file",
			},
			apitypes.FormFile: {Type: huma.TypeString, Format: "binary"},
		},
	}}
}

// fileBody is a request body that is a job file, or a form with one. It is read as it arrives.
type fileBody struct {
	body     io.Reader
	fallback string                            // name of an unnamed file
	form     func() (*multipart.Reader, error) // nil if the body is only a file
	deadline func(time.Time) error
}

// Resolve implements huma.Resolver; it keeps the body for reading.
func (f *fileBody) Resolve(ctx huma.Context) []error {
	r, w := humago.Unwrap(ctx)
	f.body, f.fallback = r.Body, "dag"+extension(r.Header.Get("Content-Type"))
	f.deadline = http.NewResponseController(w).SetReadDeadline
	mediaType, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if mediaType == "multipart/form-data" {
		f.form = r.MultipartReader
	}
	return nil
}

// secrets reads the secrets of a form, which come before its file. Errors do not contain the secrets.
func (f *fileBody) secrets() (values dag.SecretValues, err error) {
	if f.form == nil {
		return nil, nil
	}
	form, err := f.form()
	if err != nil {
		return nil, problem(http.StatusBadRequest, "reading the form: "+err.Error())
	}
	for {
		part, err := form.NextPart()
		var big *http.MaxBytesError
		switch {
		case errors.As(err, &big):
			return nil, err
		case err != nil:
			return nil, problem(http.StatusBadRequest, "the form has no part "+apitypes.FormFile)
		}
		switch part.FormName() {
		case apitypes.FormFile:
			f.body, f.fallback = part, "dag"+extension(part.Header.Get("Content-Type"))
			return values, nil
		case apitypes.FormSecrets:
			in := io.LimitReader(part, maxSecretBytes)
			if json.NewDecoder(in).Decode((*map[string]string)(&values)) != nil {
				return nil, problem(
					http.StatusBadRequest,
					"the part "+apitypes.FormSecrets+" is not a JSON object with text values",
				)
			}
		default:
			return nil, problem(
				http.StatusBadRequest,
				fmt.Sprintf("the form has an unknown part %q; valid are %s and %s",
					printable(part.FormName()), apitypes.FormSecrets, apitypes.FormFile),
			)
		}
	}
}

// maxSecretBytes limits the JSON of a job's secrets; the broker limits their contents more closely.
const maxSecretBytes = 1 << 20

// extension returns the file extension for a media type.
func extension(contentType string) string {
	mediaType, _, err := mime.ParseMediaType(contentType)
	switch {
	case err != nil:
		return ""
	case strings.HasSuffix(mediaType, "json"):
		return ".json"
	case strings.HasSuffix(mediaType, "xml"):
		return ".xml"
	case strings.HasSuffix(mediaType, "yaml"):
		return ".yaml"
	default:
		return ""
	}
}

// printable removes characters from a name that could disturb a terminal.
func printable(name string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return -1
		}
		return r
	}, name)
}

// readFile reads the job in the body of a request. At most maxHeavy jobs are read and planned at once; the caller calls
// done when it has finished with the job.
func (a *API) readFile(ctx context.Context, name string, in *fileBody, limits *Limits) (spec *dag.Job,
	secrets dag.SecretValues, done func(), err error) {
	select {
	case a.heavy <- struct{}{}:
	case <-ctx.Done():
		return nil, nil, nil, ctx.Err()
	}
	done = func() { <-a.heavy }
	if err := in.deadline(time.Now().Add(uploadWithin)); err != nil && !errors.Is(err, http.ErrNotSupported) {
		done()
		return nil, nil, nil, err
	}
	if secrets, err = in.secrets(); err == nil {
		spec, err = read.JobContext(ctx, cmp.Or(printable(name), in.fallback), in.body)
	}
	// Planning may take longer than the upload was allowed to.
	_ = in.deadline(time.Time{}) // cannot fail, because it succeeded before
	if err == nil {
		err = limits.override(spec)
	}
	if err != nil {
		done()
		return nil, nil, nil, err
	}
	return spec, secrets, done, nil
}

type submitInput struct {
	fileBody
	Limits
	Name string `query:"name" maxLength:"1024" doc:"Name of the file: used in errors, for a job without a name, and, by its extension, for the format if the content does not show it"`
	Key  string `header:"Idempotency-Key" maxLength:"256" doc:"Requests with the same key submit one job"`
	// Updates makes it an update of services.
	Updates string `query:"updates" maxLength:"256" doc:"ID of a job whose services to update, one replica after the other, instead of submitting a new job"`
}

type submitOutput struct {
	Location string `header:"Location" doc:"Path of the job"`
	Body     apitypes.Submitted
}

func (a *API) submit(ctx context.Context, in *submitInput) (*submitOutput, error) {
	spec, secrets, done, err := a.readFile(ctx, in.Name, &in.fileBody, &in.Limits)
	if err != nil {
		return nil, err
	}
	defer done()
	source := "api"
	if name := printable(in.Name); name != "" {
		source = path.Base(name)
	}
	if source == tesSource { // a file, not a TES task
		source += " (file)"
	}
	job, err := a.cfg.Broker.Submitter.Submit(ctx, broker.Submission{
		Spec: spec, Secrets: secrets, Token: in.Key, Source: source, Updates: in.Updates,
	})
	if err != nil {
		return nil, err
	}
	view, err := a.cfg.Broker.JobViews.JobView(ctx, job.ID)
	if err != nil {
		return nil, err
	}
	return &submitOutput{
		Location: "/v1/jobs/" + job.ID,
		Body:     apitypes.Submitted{JobView: view, Warnings: spec.Warnings},
	}, nil
}

type listInput struct {
	Limit int    `query:"limit" minimum:"1" maximum:"1000" default:"100" doc:"Maximum number of jobs"`
	After string `query:"after" pattern:"^(-?[0-9a-f]{16}#[a-z0-9-]+)?$" doc:"The value of next of the previous page"`
}

func (a *API) listJobs(ctx context.Context, in *listInput) (*body[apitypes.JobList], error) {
	jobs, next, err := a.cfg.Broker.JobViews.Jobs(ctx, in.After, in.Limit)
	if err != nil {
		return nil, err
	}
	return &body[apitypes.JobList]{Body: apitypes.JobList{Now: a.cfg.Now().UTC(), Jobs: orEmpty(jobs), Next: next}}, nil
}

// orEmpty returns an empty list instead of nil, so that JSON does not have null.
func orEmpty[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

type partInput struct {
	ID    string `path:"id" doc:"Job ID" maxLength:"256"`
	Limit int    `query:"limit" minimum:"0" maximum:"1000000" doc:"Maximum number of tasks; there may be fewer, and next says where to continue; 0 for all"`
	After int    `query:"after" minimum:"0" maximum:"1000000" doc:"The value of next of the previous page"`
}

func (in *partInput) part() view.Part { return view.Part{From: in.After, Limit: in.Limit} }

func (a *API) getJob(ctx context.Context, in *partInput) (*body[apitypes.JobDetail], error) {
	d, err := a.cfg.Broker.JobViews.JobPart(ctx, in.ID, in.part())
	if err != nil {
		return nil, err
	}
	out := &body[apitypes.JobDetail]{Body: *d}
	out.Body.TaskList, out.Body.Plans, out.Body.Attempts = orEmpty(d.TaskList), orEmpty(d.Plans), orEmpty(d.Attempts)
	return out, nil
}

func (a *API) explainJob(ctx context.Context, in *partInput) (*body[apitypes.Story], error) {
	s, err := a.cfg.Broker.JobViews.ExplainPart(ctx, in.ID, in.part())
	if err != nil {
		return nil, err
	}
	out := &body[apitypes.Story]{Body: *s}
	out.Body.Entries = orEmpty(s.Entries)
	return out, nil
}

type rerunInput struct {
	ID  string `path:"id" doc:"Job ID" maxLength:"256"`
	Key string `header:"Idempotency-Key" maxLength:"256" doc:"Requests with the same key make one new job"`
	// Failed is for jobs that have finished.
	Failed bool `query:"failed" doc:"Run only the tasks that failed or never ran, with the outputs of the others"`
}

func (a *API) rerunJob(ctx context.Context, in *rerunInput) (*submitOutput, error) {
	job, err := a.cfg.Broker.Submitter.Rerun(ctx, in.ID, in.Key, in.Failed)
	if err != nil {
		return nil, err
	}
	view, err := a.cfg.Broker.JobViews.JobView(ctx, job.ID)
	if err != nil {
		return nil, err
	}
	return &submitOutput{Location: "/v1/jobs/" + job.ID, Body: apitypes.Submitted{JobView: view}}, nil
}

type cancelInput struct {
	ID     string `path:"id" doc:"Job ID" maxLength:"256"`
	Reason string `query:"reason" maxLength:"1024" default:"cancelled by user" doc:"Why, for the job's history"`
}

func (a *API) cancelJob(ctx context.Context, in *cancelInput) (*body[apitypes.JobView], error) {
	if err := a.cfg.Broker.Submitter.Cancel(ctx, in.ID, in.Reason); err != nil {
		return nil, err
	}
	return a.jobResponse(ctx, in.ID)
}

type removeInput struct {
	ID string `path:"id" doc:"Job ID" maxLength:"256"`
}

func (a *API) removeJob(ctx context.Context, in *removeInput) (*body[apitypes.JobView], error) {
	was, err := a.jobResponse(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	return was, a.cfg.Broker.Submitter.Remove(ctx, in.ID)
}
