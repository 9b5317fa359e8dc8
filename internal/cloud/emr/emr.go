// Package emr runs Spark applications on Amazon EMR: a place is a cluster, and a run is one of its steps.
//
// RunJobFlow and AddJobFlowSteps have no idempotency token. So the driver searches for the cluster or step by its
// name before each of these calls, never lets the SDK repeat them, and ends the younger of two clusters with one
// name.
package emr

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/emr"
	"github.com/aws/aws-sdk-go-v2/service/emr/types"

	"github.com/tradewind-broker/tradewind/internal/cloud/aws"
	"github.com/tradewind-broker/tradewind/internal/cloud/driver"
	"github.com/tradewind-broker/tradewind/internal/cloud/s3log"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
	"github.com/tradewind-broker/tradewind/pkg/cloud/service"
)

// Name is the catalogue's name of the service.
const Name = "emr"

// The names of the roles that EMR's own tools make (EMR Management Guide, "Service role for Amazon EMR").
const (
	DefaultServiceRole     = "EMR_DefaultRole"
	DefaultInstanceProfile = "EMR_EC2_DefaultRole"
)

// Config is the driver's configuration. Deployment is required; the zero values of the other fields are defaults.
type Config struct {
	// Deployment is the name in the tag of each resource that is made. The driver finds and ends only clusters of
	// this deployment.
	Deployment string
	// Regions are all regions in which clusters may be; if empty, the SDK configuration's region.
	Regions []string
	// ServiceRole is the role with which EMR buys machines. InstanceProfile is the profile of the machines, with
	// which they read code and inputs, and write outputs and logs.
	ServiceRole, InstanceProfile string
	// Subnets are the subnets of clusters by region; without one, EMR uses the default network.
	Subnets map[string]string
	Tags    map[string]string
	// Graves remember ended places; if nil, in this process's memory.
	Graves driver.Graves
}

// Service is EMR. It implements service.Service.
type Service struct {
	cfg     Config
	clients *aws.Regional[*emr.Client]
	graves  driver.Graves
	locks   driver.Locks
}

var _ service.Service = (*Service)(nil)

// New makes the driver. It makes no calls.
func New(sdk awssdk.Config, cfg Config) *Service {
	if len(cfg.Regions) == 0 {
		cfg.Regions = []string{sdk.Region}
	}
	cfg.ServiceRole = cmp.Or(cfg.ServiceRole, DefaultServiceRole)
	cfg.InstanceProfile = cmp.Or(cfg.InstanceProfile, DefaultInstanceProfile)
	s := &Service{cfg: cfg, graves: cfg.Graves}
	s.clients = aws.NewRegional(sdk, func(sdk awssdk.Config) *emr.Client {
		return emr.NewFromConfig(sdk)
	})
	if s.graves == nil {
		s.graves = &driver.MemoryGraves{}
	}
	return s
}

// Name implements service.Service.
func (s *Service) Name() string { return Name }

func (s *Service) client(region string) *emr.Client { return s.clients.Client(region) }

// once keeps the SDK from repeating a call that is not idempotent.
func once(o *emr.Options) { o.Retryer = awssdk.NopRetryer{} }

func (s *Service) clusterName(place string) string { return service.Prefix(s.cfg.Deployment) + place }

// The states of clusters that have not ended, and that have.
var (
	liveStates = []types.ClusterState{types.ClusterStateStarting, types.ClusterStateBootstrapping,
		types.ClusterStateRunning, types.ClusterStateWaiting, types.ClusterStateTerminating}
	endedStates = []types.ClusterState{types.ClusterStateTerminated, types.ClusterStateTerminatedWithErrors}
)

// remembered is the age up to which the driver lists ended clusters.
const remembered = 24 * time.Hour

// list returns the deployment's clusters in a region, the oldest first.
func (s *Service) list(ctx context.Context, region string, in *emr.ListClustersInput) ([]types.ClusterSummary, error) {
	var all []types.ClusterSummary
	pages := emr.NewListClustersPaginator(s.client(region), in)
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, err
		}
		for _, c := range page.Clusters {
			if strings.HasPrefix(awssdk.ToString(c.Name), service.Prefix(s.cfg.Deployment)) && c.Status != nil {
				all = append(all, c)
			}
		}
	}
	slices.SortFunc(all, func(a, b types.ClusterSummary) int {
		return cmp.Or(created(a.Status).Compare(created(b.Status)),
			cmp.Compare(awssdk.ToString(a.Id), awssdk.ToString(b.Id)))
	})
	return all, nil
}

func created(s *types.ClusterStatus) time.Time {
	if s.Timeline == nil {
		return time.Time{}
	}
	return awssdk.ToTime(s.Timeline.CreationDateTime)
}

// named returns the clusters of a place that have not ended, the oldest first.
func (s *Service) named(ctx context.Context, region, place string) ([]types.ClusterSummary, error) {
	all, err := s.list(ctx, region, &emr.ListClustersInput{ClusterStates: liveStates})
	return s.ofPlace(all, place), err
}

func (s *Service) ofPlace(all []types.ClusterSummary, place string) []types.ClusterSummary {
	return slices.DeleteFunc(all, func(c types.ClusterSummary) bool {
		return awssdk.ToString(c.Name) != s.clusterName(place)
	})
}

// find returns the cluster of a place: one that has not ended or, if there is none, the last one that has. ok is
// false if there is none.
func (s *Service) find(ctx context.Context, region, place string) (p service.Place, ok bool, err error) {
	live, err := s.named(ctx, region, place)
	if err != nil {
		return p, false, err
	}
	if len(live) > 0 {
		return s.place(region, live[0].Name, live[0].Id, live[0].Status), true, nil
	}
	ended, err := s.list(ctx, region, &emr.ListClustersInput{
		ClusterStates: endedStates, CreatedAfter: awssdk.Time(time.Now().Add(-remembered)),
	})
	if ended = s.ofPlace(ended, place); err != nil || len(ended) == 0 {
		return p, false, err
	}
	last := ended[len(ended)-1]
	return s.place(region, last.Name, last.Id, last.Status), true, nil
}

func (s *Service) place(region string, name, id *string, status *types.ClusterStatus) service.Place {
	p := service.Place{
		Name: strings.TrimPrefix(awssdk.ToString(name), service.Prefix(s.cfg.Deployment)), Region: region,
		ID: awssdk.ToString(id), Created: created(status), Why: why(status),
	}
	switch status.State {
	case types.ClusterStateRunning, types.ClusterStateWaiting:
		p.State = service.Ready
	case types.ClusterStateTerminating:
		p.State = service.Ending
	case types.ClusterStateTerminated, types.ClusterStateTerminatedWithErrors:
		p.State = service.Ended
	default:
		p.State = service.Starting
	}
	return p
}

// Create implements service.Service.
func (s *Service) Create(ctx context.Context, spec service.Spec) (service.Place, error) {
	if err := s.check(spec); err != nil {
		return service.Place{}, err
	}
	release, err := s.locks.Take(ctx, spec.Name)
	if err != nil {
		return service.Place{}, aws.Typed(err)
	}
	defer release()
	p, err := s.create(ctx, spec)
	p.Logs, p.Release = spec.Logs, spec.Release
	return p, aws.Typed(err)
}

func (s *Service) create(ctx context.Context, spec service.Spec) (service.Place, error) {
	if err := s.notEnded(ctx, spec.Name); err != nil {
		return service.Place{}, err
	}
	p, ok, err := s.find(ctx, spec.Region, spec.Name)
	switch {
	case err != nil:
		return p, err
	case ok && (p.State == service.Ended || p.State == service.Ending):
		return p, service.ErrorEnded(aws.Name, spec.Name)
	case ok:
		return p, nil
	}
	out, err := s.client(spec.Region).RunJobFlow(ctx, s.request(spec), once)
	if err != nil {
		return p, err
	}
	p = service.Place{Name: spec.Name, Region: spec.Region, ID: awssdk.ToString(out.JobFlowId), State: service.Starting,
		Created: time.Now()}
	if err := s.notEnded(ctx, spec.Name); err != nil { // another process has ended it meanwhile
		_, again := s.terminate(ctx, spec.Region, p.ID)
		return p, cmp.Or(again, err)
	}
	return s.keepOldest(ctx, p)
}

func (s *Service) notEnded(ctx context.Context, place string) error {
	buried, err := s.graves.Buried(ctx, s.clusterName(place))
	if err == nil && buried {
		err = service.ErrorEnded(aws.Name, place)
	}
	return err
}

// keepOldest ends all but the oldest cluster of a place, because two processes may have made one each.
func (s *Service) keepOldest(ctx context.Context, made service.Place) (service.Place, error) {
	live, err := s.named(ctx, made.Region, made.Name)
	if err != nil || len(live) < 2 {
		return made, err
	}
	var others []string
	for _, c := range live[1:] {
		others = append(others, awssdk.ToString(c.Id))
	}
	_, err = s.terminate(ctx, made.Region, others...)
	return s.place(made.Region, live[0].Name, live[0].Id, live[0].Status), err
}

func (s *Service) terminate(ctx context.Context, region string, ids ...string) (*emr.TerminateJobFlowsOutput, error) {
	return s.client(region).TerminateJobFlows(ctx, &emr.TerminateJobFlowsInput{JobFlowIds: ids})
}

// at returns the cluster of a place, described by EMR. ok is false if there is none.
func (s *Service) at(ctx context.Context, of service.Place) (p service.Place, ok bool, err error) {
	if of.ID == "" {
		if p, ok, err = s.find(ctx, of.Region, of.Name); err != nil || !ok {
			return p, ok, err
		}
		of.ID = p.ID
	}
	out, err := s.client(of.Region).DescribeCluster(ctx, &emr.DescribeClusterInput{ClusterId: &of.ID})
	if err != nil {
		return of, false, err
	}
	p = s.place(of.Region, out.Cluster.Name, out.Cluster.Id, out.Cluster.Status)
	p.Logs, p.Release = cmp.Or(of.Logs, awssdk.ToString(out.Cluster.LogUri)), of.Release
	return p, true, nil
}

// step returns a run's step; nil if the cluster has none.
func (s *Service) step(ctx context.Context, p service.Place, run service.Run) (*types.StepSummary, error) {
	in := &emr.ListStepsInput{ClusterId: &p.ID}
	if run.ID != "" {
		in.StepIds = []string{run.ID}
	}
	pages := emr.NewListStepsPaginator(s.client(p.Region), in)
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, err
		}
		for i := range page.Steps {
			if awssdk.ToString(page.Steps[i].Name) == run.Name {
				return &page.Steps[i], nil
			}
		}
	}
	return nil, nil //nolint:nilnil // there is none
}

// Submit implements service.Service.
func (s *Service) Submit(ctx context.Context, at service.Place, app service.App) (service.Run, error) {
	if err := app.Check(aws.Name, scheme); err != nil {
		return service.Run{}, err
	}
	release, err := s.locks.Take(ctx, at.Name)
	if err != nil {
		return service.Run{}, aws.Typed(err)
	}
	defer release()
	run, err := s.submit(ctx, at, app)
	return run, aws.Typed(err)
}

func (s *Service) submit(ctx context.Context, of service.Place, app service.App) (service.Run, error) {
	run := service.Run{Name: app.Name}
	p, err := s.existing(ctx, of)
	if err != nil {
		return run, err
	}
	step, err := s.step(ctx, p, run)
	if err != nil {
		return run, err
	}
	if step != nil {
		return runOf(step, p), nil
	}
	if p.State == service.Ended || p.State == service.Ending {
		return run, service.ErrorEnded(aws.Name, of.Name)
	}
	out, err := s.client(p.Region).AddJobFlowSteps(ctx, &emr.AddJobFlowStepsInput{
		JobFlowId: &p.ID, Steps: []types.StepConfig{stepOf(app)},
	}, once)
	if err != nil {
		return run, err
	}
	run.State = service.Pending
	if len(out.StepIds) > 0 {
		run.ID = out.StepIds[0]
	}
	return run, nil
}

// existing returns the cluster of a place. A place without a cluster has ended, or is not listed yet.
func (s *Service) existing(ctx context.Context, of service.Place) (service.Place, error) {
	p, ok, err := s.at(ctx, of)
	if err != nil || ok {
		return p, err
	}
	if err := s.notEnded(ctx, of.Name); err != nil {
		return of, err
	}
	return of, cloud.Errorf(aws.Name, cloud.Transient, "ClusterNotListed", "EMR does not list cluster %s", of.Name)
}

// runOf returns the run of a step.
func runOf(step *types.StepSummary, p service.Place) service.Run {
	run := service.Run{Name: awssdk.ToString(step.Name), ID: awssdk.ToString(step.Id), State: service.Pending}
	if step.Status == nil {
		return run
	}
	switch step.Status.State {
	case types.StepStateRunning, types.StepStateCancelPending:
		run.State = service.Running
	case types.StepStateCompleted:
		run.State = service.Succeeded
	case types.StepStateCancelled:
		run.State = service.Cancelled
	case types.StepStateFailed:
		run.State = service.Failed
	case types.StepStateInterrupted:
		run.State = service.Lost
	}
	if d := step.Status.FailureDetails; d != nil {
		run.Message = strings.TrimSpace(awssdk.ToString(d.Reason) + " " + awssdk.ToString(d.Message))
	}
	if run.Message == "" && run.State == service.Failed {
		run.Message = "the step failed: see its log"
	}
	return run.In(p)
}

// Watch implements service.Service.
func (s *Service) Watch(ctx context.Context, at service.Place, run service.Run) (service.Place, service.Run, error) {
	p, r, err := s.watch(ctx, at, run)
	return p, r, aws.Typed(err)
}

func (s *Service) watch(ctx context.Context, of service.Place, run service.Run) (service.Place, service.Run, error) {
	p, err := s.existing(ctx, of)
	if service.IsEnded(err) {
		of.State, run.State = service.Ended, service.Lost
		return of, run, nil
	}
	if err != nil || run.Name == "" {
		return p, run, err
	}
	step, err := s.step(ctx, p, run)
	switch {
	case err != nil:
		return p, run, err
	case step != nil:
		return p, runOf(step, p), nil
	case p.State == service.Ended:
		run.State = service.Lost
		return p, run, nil
	}
	return p, run, service.ErrorNoRun(aws.Name, run.Name)
}

// Log implements service.Service.
func (s *Service) Log(ctx context.Context, at service.Place, run service.Run) (service.Log, error) {
	p, r, err := s.watch(ctx, at, run)
	if err != nil || r.ID == "" {
		return service.Log{}, aws.Typed(err)
	}
	// EMR Management Guide, "View log files": these are the files of a step.
	log, err := s3log.Read(ctx, s.clients.Config(p.Region), p.Logs+p.ID+"/steps/"+r.ID+"/")
	return log, aws.Typed(err)
}

// Cancel implements service.Service.
func (s *Service) Cancel(ctx context.Context, at service.Place, run service.Run) error {
	p, ok, err := s.at(ctx, at)
	if err != nil || !ok {
		return aws.Typed(err)
	}
	step, err := s.step(ctx, p, run)
	if err != nil || step == nil || runOf(step, p).State.Final() {
		return aws.Typed(err)
	}
	// If a step ends at this moment, the refusal is in the answer and not an error.
	_, err = s.client(p.Region).CancelSteps(ctx, &emr.CancelStepsInput{
		ClusterId: &p.ID, StepIds: []string{awssdk.ToString(step.Id)},
		StepCancellationOption: types.StepCancellationOptionTerminateProcess,
	})
	return aws.Typed(err)
}

// End implements service.Service.
func (s *Service) End(ctx context.Context, at service.Place) error {
	release, err := driver.BeginTerminate(ctx, s.graves, &s.locks, s.clusterName(at.Name))
	if err != nil {
		return aws.Typed(err)
	}
	defer release()
	live, err := s.named(ctx, at.Region, at.Name)
	if err != nil {
		return aws.Typed(err)
	}
	var ids []string
	for _, c := range live {
		if c.Status.State != types.ClusterStateTerminating {
			ids = append(ids, awssdk.ToString(c.Id))
		}
	}
	if len(ids) > 0 {
		_, err = s.terminate(ctx, at.Region, ids...)
	}
	return aws.Typed(err)
}

// Places implements service.Service.
func (s *Service) Places(ctx context.Context) (all []service.Place, err error) {
	for _, region := range s.cfg.Regions {
		clusters, err := s.list(ctx, region, &emr.ListClustersInput{ClusterStates: liveStates})
		if err != nil {
			return nil, aws.Typed(err)
		}
		for _, c := range clusters {
			all = append(all, s.place(region, c.Name, c.Id, c.Status))
		}
	}
	return all, nil
}
