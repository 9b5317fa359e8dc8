package dataproc

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"google.golang.org/api/dataproc/v1"

	"github.com/tradewind-broker/tradewind/internal/cloud/driver"
	"github.com/tradewind-broker/tradewind/internal/cloud/gcp"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
	"github.com/tradewind-broker/tradewind/pkg/cloud/service"
)

// Batches is Dataproc Serverless. It implements service.Service. A place exists only as a label. So it is ready at
// once, and is listed while it has batches.
type Batches struct{ *base }

var _ service.Service = (*Batches)(nil)

// NewBatches makes the driver. It makes no calls.
func NewBatches(cfg Config) *Batches { return &Batches{newBase(cfg)} }

// Name implements service.Service.
func (s *Batches) Name() string { return ServerlessName }

// Create implements service.Service. It makes no calls.
func (s *Batches) Create(ctx context.Context, spec service.Spec) (service.Place, error) {
	p := service.Place{
		Name: spec.Name, Region: spec.Region, Release: spec.Release, Logs: spec.Logs, State: service.Ready,
	}
	return p, typed(cmp.Or(s.check(spec), s.notEnded(ctx, spec.Name)))
}

func (s *Batches) parent(region string) string {
	return "projects/" + s.cfg.Project + "/locations/" + region
}

func (s *Batches) batchID(place, run string) string { return s.full(s.id(place, run)) }

// batch returns the batch of a run; nil if there is none.
func (s *Batches) batch(ctx context.Context, p service.Place, run string) (*dataproc.Batch, error) {
	api, err := s.api(ctx)
	if err != nil {
		return nil, err
	}
	name := s.parent(p.Region) + "/batches/" + s.batchID(p.Name, run)
	batch, err := api.Projects.Locations.Batches.Get(name).Context(ctx).Do()
	if isStatus(err, http.StatusNotFound) {
		return nil, nil //nolint:nilnil // there is none
	}
	return batch, err
}

// Submit implements service.Service.
func (s *Batches) Submit(ctx context.Context, at service.Place, app service.App) (service.Run, error) {
	if err := app.Check(gcp.Name, scheme); err != nil {
		return service.Run{}, err
	}
	release, err := s.locks.Take(ctx, s.full(at.Name)) // End waits for it, and then sees the batch
	if err != nil {
		return service.Run{}, typed(err)
	}
	defer release()
	run, err := s.submit(ctx, at, app)
	return run, typed(err)
}

func (s *Batches) submit(ctx context.Context, at service.Place, app service.App) (service.Run, error) {
	run := service.Run{Name: app.Name}
	batch, err := s.batch(ctx, at, app.Name)
	if err != nil {
		return run, err
	}
	if batch != nil {
		return runOfBatch(batch), nil
	}
	if err := s.notEnded(ctx, at.Name); err != nil {
		return run, err
	}
	api, err := s.api(ctx)
	if err != nil {
		return run, err
	}
	_, err = api.Projects.Locations.Batches.Create(s.parent(at.Region), s.batchOf(at, app)).
		BatchId(s.batchID(at.Name, app.Name)).RequestId(s.requestID(at.Name, app.Name)).Context(ctx).Do()
	if err != nil && !isStatus(err, http.StatusConflict) {
		return run, err
	}
	run.ID, run.State = s.batchID(at.Name, app.Name), service.Pending
	return run, s.notEnded(ctx, at.Name) // another process may have ended the place: its next End finds the batch
}

// The limits of a batch's time (Dataproc API reference, "ExecutionConfig").
const minTTL, maxTTL = 10 * time.Minute, 14 * 24 * time.Hour

func (s *Batches) batchOf(p service.Place, app service.App) *dataproc.Batch {
	f := filesOf(app)
	b := &dataproc.Batch{
		Labels:        s.labels(p.Name, app.Name, app.Labels),
		RuntimeConfig: &dataproc.RuntimeConfig{Version: p.Release, Properties: f.properties},
		EnvironmentConfig: &dataproc.EnvironmentConfig{ExecutionConfig: &dataproc.ExecutionConfig{
			ServiceAccount: s.cfg.ServiceAccount, SubnetworkUri: s.cfg.Subnetwork, StagingBucket: bucket(p.Logs),
		}},
	}
	if app.Limit > 0 {
		b.EnvironmentConfig.ExecutionConfig.Ttl = seconds(app.Limit, minTTL, maxTTL)
	}
	if f.python {
		b.PysparkBatch = &dataproc.PySparkBatch{
			MainPythonFileUri: f.main, Args: f.args, PythonFileUris: f.pyFiles, JarFileUris: f.jarFiles,
		}
	} else {
		b.SparkBatch = &dataproc.SparkBatch{MainClass: f.class, Args: f.args, JarFileUris: f.jarFiles}
	}
	return b
}

func runOfBatch(b *dataproc.Batch) service.Run {
	run := service.Run{Name: b.Labels[labelRun], State: service.Pending}
	run.ID = b.Name[strings.LastIndexByte(b.Name, '/')+1:]
	switch b.State {
	case "RUNNING", "CANCELLING":
		run.State = service.Running
	case "SUCCEEDED":
		run.State = service.Succeeded
	case "CANCELLED":
		run.State = service.Cancelled
	case "FAILED":
		run.State, run.Message = service.Failed, cmp.Or(b.StateMessage, "the batch failed: see its log")
	}
	if run.Began = began(b); run.State.Final() {
		run.Ended, _ = time.Parse(time.RFC3339Nano, b.StateTime)
	}
	return run
}

// began returns when a batch began to run; zero if it has not.
func began(b *dataproc.Batch) (at time.Time) {
	since := b.StateTime
	if b.State != "RUNNING" {
		since = ""
		for _, s := range b.StateHistory {
			if s.State == "RUNNING" {
				since = s.StateStartTime
			}
		}
	}
	at, _ = time.Parse(time.RFC3339Nano, since)
	return at
}

// list returns the deployment's batches in a region.
func (s *Batches) list(ctx context.Context, region string) (all []*dataproc.Batch, err error) {
	api, err := s.api(ctx)
	if err != nil {
		return nil, err
	}
	pages := api.Projects.Locations.Batches.List(s.parent(region))
	err = pages.Pages(ctx, func(page *dataproc.ListBatchesResponse) error {
		for _, b := range page.Batches {
			if b.Labels[labelDeployment] == strings.Trim(service.Prefix(s.cfg.Deployment), "-") {
				all = append(all, b)
			}
		}
		return nil
	})
	return all, err
}

// find returns a place. The place has ended if its end was requested and it has no more batches.
func (s *Batches) find(ctx context.Context, of service.Place) (service.Place, error) {
	of.State = service.Ready
	err := s.notEnded(ctx, of.Name)
	if err == nil || !service.IsEnded(err) {
		return of, err
	}
	all, err := s.list(ctx, of.Region)
	if of.State = service.Ended; slices.ContainsFunc(all, isOf(of.Name)) {
		of.State = service.Ending
	}
	return of, err
}

func isOf(place string) func(*dataproc.Batch) bool {
	return func(b *dataproc.Batch) bool { return b.Labels[labelPlace] == place }
}

// Watch implements service.Service.
func (s *Batches) Watch(ctx context.Context, at service.Place, run service.Run) (service.Place, service.Run, error) {
	p, r, _, err := s.watch(ctx, at, run)
	return p, r, typed(err)
}

func (s *Batches) watch(ctx context.Context, at service.Place, run service.Run) (
	p service.Place, r service.Run, b *dataproc.Batch, err error,
) {
	if p, err = s.find(ctx, at); err != nil || run.Name == "" {
		return p, run, nil, err
	}
	switch b, err = s.batch(ctx, at, run.Name); {
	case err != nil:
		return p, run, nil, err
	case b != nil:
		return p, runOfBatch(b).In(p), b, nil
	case p.State == service.Ended || p.State == service.Ending:
		run.State = service.Lost
		return p, run, nil, nil
	}
	return p, run, nil, service.ErrorNoRun(gcp.Name, run.Name)
}

// Log implements service.Service.
func (s *Batches) Log(ctx context.Context, at service.Place, run service.Run) (service.Log, error) {
	b, err := s.batch(ctx, at, run.Name)
	if err != nil || b == nil || b.RuntimeInfo == nil {
		return service.Log{}, typed(err)
	}
	log, err := s.log(ctx, b.RuntimeInfo.OutputUri)
	return log, typed(err)
}

// Cancel implements service.Service.
func (s *Batches) Cancel(ctx context.Context, at service.Place, run service.Run) error {
	_, r, b, err := s.watch(ctx, at, run)
	var e *cloud.Error
	if errors.As(err, &e) && e.Code == service.CodeNoRun {
		return nil
	}
	if err != nil || b == nil || r.State.Final() {
		return typed(err)
	}
	return typed(s.cancel(ctx, b))
}

// cancel cancels a batch by its operation. An operation that has ended meanwhile is refused.
func (s *Batches) cancel(ctx context.Context, b *dataproc.Batch) error {
	api, err := s.api(ctx)
	if err != nil {
		return err
	}
	if _, err = api.Projects.Regions.Operations.Cancel(b.Operation).Context(ctx).Do(); err != nil {
		now, again := api.Projects.Locations.Batches.Get(b.Name).Context(ctx).Do()
		if again == nil && runOfBatch(now).State.Final() {
			return nil
		}
	}
	return err
}

// End implements service.Service: it cancels batches, and deletes those that have ended.
func (s *Batches) End(ctx context.Context, at service.Place) error {
	release, err := driver.BeginTerminate(ctx, s.graves, &s.locks, s.full(at.Name))
	if err != nil {
		return typed(err)
	}
	defer release()
	all, err := s.list(ctx, at.Region)
	if err != nil {
		return typed(err)
	}
	api, err := s.api(ctx)
	for _, b := range all {
		switch {
		case err != nil:
			return typed(err)
		case !isOf(at.Name)(b) || b.State == "CANCELLING":
		case !runOfBatch(b).State.Final():
			err = s.cancel(ctx, b)
		default:
			_, err = api.Projects.Locations.Batches.Delete(b.Name).Context(ctx).Do()
			if isStatus(err, http.StatusNotFound) {
				err = nil
			}
		}
	}
	return typed(err)
}

// Places implements service.Service.
func (s *Batches) Places(ctx context.Context) (places []service.Place, err error) {
	for _, region := range s.cfg.Regions {
		all, err := s.list(ctx, region)
		if err != nil {
			return nil, typed(err)
		}
		slices.SortFunc(all, func(a, b *dataproc.Batch) int { return strings.Compare(a.CreateTime, b.CreateTime) })
		known := map[string]bool{}
		for _, b := range all {
			name := b.Labels[labelPlace]
			if known[name] {
				continue
			}
			known[name] = true
			p := service.Place{Name: name, Region: region, State: service.Ready, Created: parsed(b.CreateTime)}
			if s.notEnded(ctx, name) != nil {
				p.State = service.Ending
			}
			places = append(places, p)
		}
	}
	return places, nil
}
