package dataproc

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"google.golang.org/api/dataproc/v1"

	"github.com/tradewind-broker/tradewind/internal/cloud/driver"
	"github.com/tradewind-broker/tradewind/internal/cloud/gcp"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
	"github.com/tradewind-broker/tradewind/pkg/cloud/service"
)

// Clusters is Dataproc. It implements service.Service.
type Clusters struct{ *base }

var _ service.Service = (*Clusters)(nil)

// NewClusters makes the driver. It makes no calls.
func NewClusters(cfg Config) *Clusters { return &Clusters{newBase(cfg)} }

// Name implements service.Service.
func (s *Clusters) Name() string { return Name }

// minWorkers is the smallest number of primary workers of a cluster. HDFS is on them, so they are never spot machines.
const minWorkers = 2

// The limits of a cluster's times (Dataproc API reference, "LifecycleConfig").
const (
	minIdle, maxIdle = 5 * time.Minute, 14 * 24 * time.Hour
	minLife, maxLife = 10 * time.Minute, 14 * 24 * time.Hour
)

// request builds the cluster of a place.
func (s *Clusters) request(spec service.Spec) *dataproc.Cluster {
	disk := &dataproc.DiskConfig{BootDiskSizeGb: int64(spec.DiskGiB)}
	group := func(n int) *dataproc.InstanceGroupConfig {
		return &dataproc.InstanceGroupConfig{
			NumInstances: int64(n), MachineTypeUri: spec.InstanceType, DiskConfig: disk,
		}
	}
	primary, spot := max(spec.Executors.Min, minWorkers), 0
	if spec.Spot {
		primary, spot = minWorkers, max(spec.Executors.Min-minWorkers, 0)
	}
	config := &dataproc.ClusterConfig{
		ConfigBucket: bucket(spec.Logs),
		GceClusterConfig: &dataproc.GceClusterConfig{
			ServiceAccount: s.cfg.ServiceAccount, SubnetworkUri: s.cfg.Subnetwork,
		},
		MasterConfig: group(1), WorkerConfig: group(primary),
		SoftwareConfig:  &dataproc.SoftwareConfig{ImageVersion: spec.Release},
		LifecycleConfig: &dataproc.LifecycleConfig{},
	}
	if spot > 0 {
		config.SecondaryWorkerConfig = &dataproc.InstanceGroupConfig{NumInstances: int64(spot), Preemptibility: "SPOT"}
	}
	if spec.Idle > 0 {
		config.LifecycleConfig.IdleDeleteTtl = seconds(spec.Idle, minIdle, maxIdle)
	}
	if spec.Life > 0 {
		config.LifecycleConfig.AutoDeleteTtl = seconds(spec.Life, minLife, maxLife)
	}
	return &dataproc.Cluster{
		ProjectId: s.cfg.Project, ClusterName: s.full(spec.Name), Config: config,
		Labels: s.labels(spec.Name, "", spec.Labels),
	}
}

// Create implements service.Service.
func (s *Clusters) Create(ctx context.Context, spec service.Spec) (service.Place, error) {
	if err := s.check(spec); err != nil {
		return service.Place{}, err
	}
	if spec.InstanceType == "" {
		return service.Place{}, cloud.Errorf(gcp.Name, cloud.Invalid, service.CodeBadSpec,
			"the cluster has no machine type")
	}
	release, err := s.locks.Take(ctx, s.full(spec.Name))
	if err != nil {
		return service.Place{}, typed(err)
	}
	defer release()
	p, err := s.create(ctx, spec)
	return p, typed(err)
}

func (s *Clusters) create(ctx context.Context, spec service.Spec) (service.Place, error) {
	of := service.Place{Name: spec.Name, Region: spec.Region, Release: spec.Release, Logs: spec.Logs}
	if err := s.notEnded(ctx, spec.Name); err != nil {
		return of, err
	}
	api, err := s.api(ctx)
	if err != nil {
		return of, err
	}
	_, err = api.Projects.Regions.Clusters.Create(s.cfg.Project, spec.Region, s.request(spec)).
		RequestId(s.requestID(spec.Name)).Context(ctx).Do()
	if err != nil && !isStatus(err, http.StatusConflict) {
		return of, err
	}
	p, err := s.find(ctx, of)
	if err == nil && (p.State == service.Ending || p.State == service.Ended) {
		err = service.ErrorEnded(gcp.Name, spec.Name)
	}
	return p, cmp.Or(err, s.notEnded(ctx, spec.Name)) // another process may have ended it: its next End sees it
}

// find returns a place. If its cluster does not exist, the place has ended: create waits for the answer, so the
// cluster cannot appear later.
func (s *Clusters) find(ctx context.Context, of service.Place) (service.Place, error) {
	api, err := s.api(ctx)
	if err != nil {
		return of, err
	}
	c, err := api.Projects.Regions.Clusters.Get(s.cfg.Project, of.Region, s.full(of.Name)).Context(ctx).Do()
	if isStatus(err, http.StatusNotFound) {
		of.State = service.Ended
		return of, nil
	}
	if err != nil {
		return of, err
	}
	p := s.place(of.Region, c)
	p.Release, p.Logs = of.Release, of.Logs
	return p, nil
}

func (s *Clusters) place(region string, c *dataproc.Cluster) service.Place {
	p := service.Place{
		Name: strings.TrimPrefix(c.ClusterName, service.Prefix(s.cfg.Deployment)), Region: region, ID: c.ClusterUuid,
		State: service.Starting,
	}
	if c.Status == nil {
		return p
	}
	p.Created = parsed(c.Status.StateStartTime)
	if len(c.StatusHistory) > 0 {
		p.Created = parsed(c.StatusHistory[0].StateStartTime)
	}
	switch c.Status.State {
	case "RUNNING", "UPDATING":
		p.State = service.Ready
	case "DELETING", "STOPPING", "STOPPED":
		p.State = service.Ending
	case "ERROR", "ERROR_DUE_TO_UPDATE": // it remains, and costs money, until it is deleted
		p.State, p.Why = service.Ending, why(c.Status.Detail)
	}
	return p
}

// why returns the reason for which a cluster failed. Dataproc has no code for it, so the message decides.
//
// Source: Dataproc documentation, "Troubleshoot cluster creation issues".
func why(detail string) *cloud.Error {
	e := cloud.Errorf(gcp.Name, cloud.Capacity, "ERROR", "%s", cmp.Or(detail, "the cluster failed"))
	switch {
	case insufficientQuota.MatchString(detail):
		e.Kind = cloud.Quota
	case strings.Contains(detail, "ermission"):
		e.Kind = cloud.Auth
	}
	return e
}

func (s *Clusters) jobID(place, run string) string { return s.full(place) + "-" + run }

// job returns the job of a run; nil if there is none.
func (s *Clusters) job(ctx context.Context, p service.Place, run string) (*dataproc.Job, error) {
	api, err := s.api(ctx)
	if err != nil {
		return nil, err
	}
	j, err := api.Projects.Regions.Jobs.Get(s.cfg.Project, p.Region, s.jobID(p.Name, run)).Context(ctx).Do()
	if isStatus(err, http.StatusNotFound) {
		return nil, nil //nolint:nilnil // there is none
	}
	return j, err
}

// Submit implements service.Service.
func (s *Clusters) Submit(ctx context.Context, at service.Place, app service.App) (service.Run, error) {
	if err := app.Check(gcp.Name, scheme); err != nil {
		return service.Run{}, err
	}
	run, err := s.submit(ctx, at, app)
	return run, typed(err)
}

func (s *Clusters) submit(ctx context.Context, at service.Place, app service.App) (service.Run, error) {
	run := service.Run{Name: app.Name}
	p, err := s.find(ctx, at)
	if err != nil {
		return run, err
	}
	j, err := s.job(ctx, p, app.Name)
	switch {
	case err != nil:
		return run, err
	case j != nil:
		return runOfJob(app.Name, j, p), nil
	case p.State == service.Starting:
		e := cloud.Errorf(gcp.Name, cloud.Throttled, "ClusterNotReady", "cluster %s is not ready", at.Name)
		e.RetryAfter = startPause
		return run, e
	case p.State != service.Ready:
		return run, service.ErrorEnded(gcp.Name, at.Name)
	}
	api, err := s.api(ctx)
	if err != nil {
		return run, err
	}
	j, err = api.Projects.Regions.Jobs.Submit(s.cfg.Project, p.Region, &dataproc.SubmitJobRequest{
		Job: s.jobOf(p, app), RequestId: s.requestID(p.Name, app.Name),
	}).Context(ctx).Do()
	if isStatus(err, http.StatusConflict) {
		j, err = s.job(ctx, p, app.Name)
	}
	if err != nil || j == nil {
		return run, err
	}
	return runOfJob(app.Name, j, p), nil
}

// startPause is the time between two requests for the state of a starting cluster. A start takes about 90 seconds.
const startPause = 15 * time.Second

func (s *Clusters) jobOf(p service.Place, app service.App) *dataproc.Job {
	f := filesOf(app)
	j := &dataproc.Job{
		Reference: &dataproc.JobReference{ProjectId: s.cfg.Project, JobId: s.jobID(p.Name, app.Name)},
		Placement: &dataproc.JobPlacement{ClusterName: s.full(p.Name)}, Labels: s.labels(p.Name, app.Name, app.Labels),
	}
	if f.python {
		j.PysparkJob = &dataproc.PySparkJob{
			MainPythonFileUri: f.main, Args: f.args, PythonFileUris: f.pyFiles, JarFileUris: f.jarFiles,
			Properties: f.properties,
		}
	} else {
		j.SparkJob = &dataproc.SparkJob{
			MainClass: f.class, Args: f.args, JarFileUris: f.jarFiles, Properties: f.properties,
		}
	}
	return j
}

func runOfJob(name string, j *dataproc.Job, p service.Place) service.Run {
	run := service.Run{Name: name, State: service.Pending}
	if j.Reference != nil {
		run.ID = j.Reference.JobId
	}
	if j.Status == nil {
		return run.In(p)
	}
	switch j.Status.State {
	case "RUNNING", "CANCEL_PENDING", "CANCEL_STARTED", "ATTEMPT_FAILURE":
		run.State = service.Running
	case "DONE":
		run.State = service.Succeeded
	case "CANCELLED":
		run.State = service.Cancelled
	case "ERROR":
		run.State, run.Message = service.Failed, cmp.Or(j.Status.Details, "the job failed: see its log")
		if p.State == service.Ending || p.State == service.Ended { // Dataproc has no other state for a lost job
			run.State = service.Lost
		}
	}
	return run.In(p)
}

// Watch implements service.Service.
func (s *Clusters) Watch(ctx context.Context, at service.Place, run service.Run) (service.Place, service.Run, error) {
	p, r, _, err := s.watch(ctx, at, run)
	return p, r, typed(err)
}

func (s *Clusters) watch(ctx context.Context, at service.Place, run service.Run) (
	p service.Place, r service.Run, j *dataproc.Job, err error,
) {
	if p, err = s.find(ctx, at); err != nil || run.Name == "" {
		return p, run, nil, err
	}
	switch j, err = s.job(ctx, p, run.Name); {
	case err != nil:
		return p, run, nil, err
	case j != nil:
		return p, runOfJob(run.Name, j, p), j, nil
	case p.State == service.Ended:
		run.State = service.Lost
		return p, run, nil, nil
	}
	return p, run, nil, service.ErrorNoRun(gcp.Name, run.Name)
}

// Log implements service.Service.
func (s *Clusters) Log(ctx context.Context, at service.Place, run service.Run) (service.Log, error) {
	j, err := s.job(ctx, at, run.Name)
	if err != nil || j == nil {
		return service.Log{}, typed(err)
	}
	log, err := s.log(ctx, j.DriverOutputResourceUri)
	return log, typed(err)
}

// Cancel implements service.Service.
func (s *Clusters) Cancel(ctx context.Context, at service.Place, run service.Run) error {
	_, r, j, err := s.watch(ctx, at, run)
	var e *cloud.Error
	if errors.As(err, &e) && e.Code == service.CodeNoRun {
		return nil
	}
	if err != nil || j == nil || r.State.Final() {
		return typed(err)
	}
	api, err := s.api(ctx)
	if err != nil {
		return typed(err)
	}
	_, err = api.Projects.Regions.Jobs.Cancel(s.cfg.Project, at.Region, s.jobID(at.Name, run.Name),
		&dataproc.CancelJobRequest{}).Context(ctx).Do()
	if err != nil { // it may have ended in this moment
		if _, now, _, again := s.watch(ctx, at, run); again == nil && now.State.Final() {
			return nil
		}
	}
	return typed(err)
}

// End implements service.Service. A cluster that is starting cannot be deleted: the caller repeats the call.
func (s *Clusters) End(ctx context.Context, at service.Place) error {
	release, err := driver.BeginTerminate(ctx, s.graves, &s.locks, s.full(at.Name))
	if err != nil {
		return typed(err)
	}
	defer release()
	api, err := s.api(ctx)
	if err != nil {
		return typed(err)
	}
	_, err = api.Projects.Regions.Clusters.Delete(s.cfg.Project, at.Region, s.full(at.Name)).
		RequestId(s.requestID("end", at.Name)).Context(ctx).Do()
	if isStatus(err, http.StatusNotFound) {
		return nil
	}
	if isStatus(err, http.StatusBadRequest) || isStatus(err, http.StatusConflict) {
		p, again := s.find(ctx, at)
		if again == nil && p.State != service.Ready {
			return nil
		}
	}
	return typed(err)
}

// Places implements service.Service.
func (s *Clusters) Places(ctx context.Context) (all []service.Place, err error) {
	api, err := s.api(ctx)
	if err != nil {
		return nil, typed(err)
	}
	for _, region := range s.cfg.Regions {
		err := api.Projects.Regions.Clusters.List(s.cfg.Project, region).Pages(ctx,
			func(page *dataproc.ListClustersResponse) error {
				for _, c := range page.Clusters {
					if strings.HasPrefix(c.ClusterName, service.Prefix(s.cfg.Deployment)) {
						all = append(all, s.place(region, c))
					}
				}
				return nil
			})
		if err != nil {
			return nil, typed(err)
		}
	}
	return all, nil
}
