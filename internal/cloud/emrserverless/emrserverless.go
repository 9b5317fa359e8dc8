// Package emrserverless runs Spark applications on Amazon EMR Serverless. A place is an application of that service,
// and a run is one of its job runs. Client tokens that are derived from the names make the calls idempotent. After
// the service has forgotten a token, the driver finds the resource of the first call by its name.
package emrserverless

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/emrserverless"
	"github.com/aws/aws-sdk-go-v2/service/emrserverless/types"

	"github.com/tradewind-broker/tradewind/internal/cloud/aws"
	"github.com/tradewind-broker/tradewind/internal/cloud/driver"
	"github.com/tradewind-broker/tradewind/internal/cloud/s3log"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
	"github.com/tradewind-broker/tradewind/pkg/cloud/service"
)

// Name is the catalogue's name of the service.
const Name = "emr-serverless"

const scheme = "s3"

// Config is the driver's configuration. Deployment and Role are required; the zero values of the other fields are
// defaults.
type Config struct {
	// Deployment is the name in the tag of each resource that is made. The driver finds and ends only this
	// deployment's places.
	Deployment string
	// Regions are all regions in which places may be; if empty, the SDK configuration's region.
	Regions []string
	// Role is the ARN of the role of job runs: it reads code and inputs, and writes outputs and logs.
	Role string
	Tags map[string]string
	// Graves remember ended places; if nil, in this process's memory.
	Graves driver.Graves
}

// Service is EMR Serverless. It implements service.Service.
type Service struct {
	cfg     Config
	clients *aws.Regional[*emrserverless.Client]
	graves  driver.Graves
	locks   driver.Locks
}

var _ service.Service = (*Service)(nil)

// New makes the driver. It makes no calls.
func New(sdk awssdk.Config, cfg Config) *Service {
	if len(cfg.Regions) == 0 {
		cfg.Regions = []string{sdk.Region}
	}
	s := &Service{cfg: cfg, graves: cfg.Graves}
	s.clients = aws.NewRegional(sdk, func(sdk awssdk.Config) *emrserverless.Client {
		return emrserverless.NewFromConfig(sdk)
	})
	if s.graves == nil {
		s.graves = &driver.MemoryGraves{}
	}
	return s
}

// Name implements service.Service.
func (s *Service) Name() string { return Name }

func (s *Service) client(region string) *emrserverless.Client { return s.clients.Client(region) }

// applicationName is the cloud's name of a place.
func (s *Service) applicationName(place string) string {
	return service.Prefix(s.cfg.Deployment) + place
}

// token returns a client token, which has at most 64 characters.
func (s *Service) token(names ...string) *string {
	sum := sha256.Sum256([]byte(s.cfg.Deployment + "\x00" + strings.Join(names, "\x00")))
	return awssdk.String(hex.EncodeToString(sum[:]))
}

// list returns the deployment's applications in a region, the oldest first.
func (s *Service) list(ctx context.Context, region string) (all []service.Place, err error) {
	pages := emrserverless.NewListApplicationsPaginator(s.client(region), &emrserverless.ListApplicationsInput{})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, err
		}
		for i := range page.Applications {
			a := &page.Applications[i]
			if strings.HasPrefix(awssdk.ToString(a.Name), service.Prefix(s.cfg.Deployment)) {
				p, err := s.place(ctx, region, application{a.Id, a.Name, a.State, a.StateDetails, a.CreatedAt})
				if err != nil {
					return nil, err
				}
				all = append(all, p)
			}
		}
	}
	slices.SortStableFunc(all, func(a, b service.Place) int { return a.Created.Compare(b.Created) })
	return all, nil
}

// application has the common fields of the lists and the descriptions of applications.
type application struct {
	id, name *string
	state    types.ApplicationState
	details  *string
	created  *time.Time
}

// place returns the place of an application. A stopped one starts with its next job run, unless its place was ended.
func (s *Service) place(ctx context.Context, region string, a application) (service.Place, error) {
	name := awssdk.ToString(a.name)
	p := service.Place{
		Name: strings.TrimPrefix(name, service.Prefix(s.cfg.Deployment)), Region: region, ID: awssdk.ToString(a.id),
		State: service.Ready, Created: awssdk.ToTime(a.created),
	}
	buried, err := s.graves.Buried(ctx, name)
	switch {
	case a.state == types.ApplicationStateTerminated:
		p.State = service.Ended
		if text := awssdk.ToString(a.details); text != "" && !buried {
			p.Why = cloud.Errorf(aws.Name, cloud.Transient, string(a.state), "%s", text)
		}
	case buried:
		p.State = service.Ending
	case a.state == types.ApplicationStateCreating:
		p.State = service.Starting
	}
	return p, err
}

// find returns a place: one that has not ended or, if there is none, the last one that has. Without either, the place
// has ended, or is not listed yet.
func (s *Service) find(ctx context.Context, of service.Place) (service.Place, error) {
	if of.ID != "" {
		out, err := s.client(of.Region).GetApplication(ctx, &emrserverless.GetApplicationInput{ApplicationId: &of.ID})
		if err != nil {
			return of, err
		}
		a := out.Application
		p, err := s.place(ctx, of.Region, application{a.ApplicationId, a.Name, a.State, a.StateDetails, a.CreatedAt})
		p.Logs, p.Release = of.Logs, of.Release
		return p, err
	}
	all, err := s.list(ctx, of.Region)
	if err != nil {
		return of, err
	}
	found := -1
	for i, p := range all {
		if p.Name == of.Name && (found < 0 || all[found].State == service.Ended) {
			found = i
		}
	}
	if found >= 0 {
		all[found].Logs, all[found].Release = of.Logs, of.Release
		return all[found], nil
	}
	if err := s.notEnded(ctx, of.Name); err != nil {
		return of, err
	}
	return of, errNotListed(of.Name)
}

const codeNotListed = "ApplicationNotListed"

func errNotListed(place string) error {
	return cloud.Errorf(aws.Name, cloud.Transient, codeNotListed, "EMR Serverless does not list application %s", place)
}

func isNotListed(err error) bool {
	var e *cloud.Error
	return errors.As(err, &e) && e.Code == codeNotListed
}

func (s *Service) notEnded(ctx context.Context, place string) error {
	buried, err := s.graves.Buried(ctx, s.applicationName(place))
	if err == nil && buried {
		err = service.ErrorEnded(aws.Name, place)
	}
	return err
}

// Create implements service.Service.
func (s *Service) Create(ctx context.Context, spec service.Spec) (service.Place, error) {
	if err := spec.Check(aws.Name, scheme); err != nil {
		return service.Place{}, err
	}
	if !slices.Contains(s.cfg.Regions, spec.Region) {
		return service.Place{}, cloud.OfRegion(cloud.Errorf(aws.Name, cloud.Quota, "RegionNotEnabled",
			"region %q is not among the regions of this deployment: %v", spec.Region, s.cfg.Regions))
	}
	release, err := s.locks.Take(ctx, s.applicationName(spec.Name))
	if err != nil {
		return service.Place{}, aws.Typed(err)
	}
	defer release()
	p, err := s.create(ctx, spec)
	return p, aws.Typed(err)
}

func (s *Service) create(ctx context.Context, spec service.Spec) (service.Place, error) {
	of := service.Place{Name: spec.Name, Region: spec.Region, Release: spec.Release, Logs: spec.Logs}
	if err := s.notEnded(ctx, spec.Name); err != nil {
		return of, err
	}
	p, err := s.find(ctx, of)
	switch {
	case err == nil && (p.State == service.Ended || p.State == service.Ending):
		return p, service.ErrorEnded(aws.Name, spec.Name)
	case !isNotListed(err):
		return p, err
	}
	out, err := s.client(spec.Region).CreateApplication(ctx, s.request(spec))
	if err != nil {
		return of, err
	}
	of.ID, of.State, of.Created = awssdk.ToString(out.ApplicationId), service.Starting, time.Now()
	// another process may have ended the place meanwhile: its next End finds the run
	return of, s.notEnded(ctx, spec.Name)
}

// The limits of the time after which an idle application stops (EMR Serverless API reference, "AutoStopConfig").
const minIdle, maxIdle = time.Minute, 7 * 24 * time.Hour

func (s *Service) request(spec service.Spec) *emrserverless.CreateApplicationInput {
	tags := maps.Clone(s.cfg.Tags)
	if tags == nil {
		tags = map[string]string{}
	}
	for k, v := range spec.Labels {
		tags["tradewind:"+k] = aws.TagText(v)
	}
	tags["tradewind:deployment"], tags["tradewind:place"] = aws.TagText(s.cfg.Deployment), spec.Name
	minutes := int32((min(max(spec.Idle, minIdle), maxIdle) + time.Minute - 1) / time.Minute)
	in := &emrserverless.CreateApplicationInput{
		Name: awssdk.String(s.applicationName(spec.Name)), ClientToken: s.token(spec.Name),
		ReleaseLabel: awssdk.String("emr-" + spec.Release), Type: awssdk.String("SPARK"), Tags: tags,
		AutoStartConfiguration: &types.AutoStartConfig{Enabled: awssdk.Bool(true)},
		AutoStopConfiguration:  &types.AutoStopConfig{Enabled: awssdk.Bool(true), IdleTimeoutMinutes: &minutes},
	}
	if e := spec.Executors; e.VCPUs > 0 && e.MemoryGiB > 0 { // the executors and the driver
		in.MaximumCapacity = &types.MaximumAllowedResources{
			Cpu:    awssdk.String(strconv.Itoa((e.Max+1)*e.VCPUs) + " vCPU"),
			Memory: awssdk.String(strconv.Itoa((e.Max+1)*e.MemoryGiB) + " GB"),
		}
	}
	return in
}

// Submit implements service.Service.
func (s *Service) Submit(ctx context.Context, at service.Place, app service.App) (service.Run, error) {
	if err := app.Check(aws.Name, scheme); err != nil {
		return service.Run{}, err
	}
	run, err := s.submit(ctx, at, app)
	return run, aws.Typed(err)
}

func (s *Service) submit(ctx context.Context, at service.Place, app service.App) (service.Run, error) {
	run := service.Run{Name: app.Name}
	p, err := s.find(ctx, at)
	if err != nil {
		return run, err
	}
	found, ok, err := s.run(ctx, p, run)
	switch {
	case err != nil || ok:
		return found, err
	case p.State == service.Ended || p.State == service.Ending:
		return run, service.ErrorEnded(aws.Name, at.Name)
	}
	out, err := s.client(p.Region).StartJobRun(ctx, s.jobRun(p, app))
	if err != nil {
		return run, err
	}
	run.ID, run.State = awssdk.ToString(out.JobRunId), service.Pending
	return run, nil
}

// minLimit is the shortest time limit of a job run (EMR Serverless API reference, "StartJobRun").
const minLimit = 5 * time.Minute

func (s *Service) jobRun(p service.Place, app service.App) *emrserverless.StartJobRunInput {
	properties := app.Properties()
	files := app
	files.Conf, files.Executors = nil, service.Executors{}
	var options []string
	for args := service.SparkSubmit(files); len(args) > 1 && args[0] != "--conf"; args = args[2:] {
		options = append(options, args[0], args[1])
	}
	in := &emrserverless.StartJobRunInput{
		ApplicationId: &p.ID, ClientToken: s.token(p.Name, app.Name), ExecutionRoleArn: &s.cfg.Role, Name: &app.Name,
		JobDriver: &types.JobDriverMemberSparkSubmit{Value: types.SparkSubmit{
			EntryPoint: &app.Main, EntryPointArguments: app.Args,
		}},
		// Properties are a map here, so that no value needs quotes.
		ConfigurationOverrides: &types.ConfigurationOverrides{
			ApplicationConfiguration: []types.Configuration{{
				Classification: awssdk.String("spark-defaults"), Properties: properties,
			}},
			MonitoringConfiguration: &types.MonitoringConfiguration{
				S3MonitoringConfiguration: &types.S3MonitoringConfiguration{LogUri: &p.Logs},
			},
		},
		Tags: map[string]string{"tradewind:deployment": aws.TagText(s.cfg.Deployment), "tradewind:place": p.Name},
	}
	if len(options) > 0 {
		spark, _ := in.JobDriver.(*types.JobDriverMemberSparkSubmit)
		spark.Value.SparkSubmitParameters = awssdk.String(strings.Join(options, " "))
	}
	for k, v := range app.Labels {
		in.Tags["tradewind:"+k] = aws.TagText(v)
	}
	if app.Limit > 0 {
		in.ExecutionTimeoutMinutes = awssdk.Int64(int64((max(app.Limit, minLimit) + time.Minute - 1) / time.Minute))
	}
	return in
}

// runs returns the job runs of a place.
func (s *Service) runs(ctx context.Context, p service.Place) (all []service.Run, err error) {
	pages := emrserverless.NewListJobRunsPaginator(s.client(p.Region),
		&emrserverless.ListJobRunsInput{ApplicationId: &p.ID})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, err
		}
		for _, r := range page.JobRuns {
			all = append(all, runOf(awssdk.ToString(r.Name), r.Id, r.State, r.StateDetails, p))
		}
	}
	return all, nil
}

// run returns a run of a place; ok is false if there is none.
func (s *Service) run(ctx context.Context, p service.Place, run service.Run) (found service.Run, ok bool, err error) {
	if run.ID != "" {
		out, err := s.client(p.Region).GetJobRun(ctx, &emrserverless.GetJobRunInput{
			ApplicationId: &p.ID, JobRunId: &run.ID,
		})
		var missing *types.ResourceNotFoundException
		if errors.As(err, &missing) {
			return run, false, nil
		}
		if err != nil {
			return run, false, err
		}
		found := runOf(run.Name, &run.ID, out.JobRun.State, out.JobRun.StateDetails, p)
		found.Began, found.Ended = awssdk.ToTime(out.JobRun.StartedAt), awssdk.ToTime(out.JobRun.EndedAt)
		return found, true, nil
	}
	all, err := s.runs(ctx, p)
	i := slices.IndexFunc(all, func(r service.Run) bool { return r.Name == run.Name })
	if err != nil || i < 0 {
		return run, false, err
	}
	return all[i], true, nil
}

func runOf(name string, id *string, state types.JobRunState, details *string, p service.Place) service.Run {
	run := service.Run{Name: name, ID: awssdk.ToString(id), State: service.Pending}
	switch state {
	case types.JobRunStateRunning, types.JobRunStateCancelling:
		run.State = service.Running
	case types.JobRunStateSuccess:
		run.State = service.Succeeded
	case types.JobRunStateCancelled:
		run.State = service.Cancelled
	case types.JobRunStateFailed:
		run.State, run.Message = service.Failed, cmp.Or(awssdk.ToString(details), "the job run failed: see its log")
	}
	return run.In(p)
}

// Watch implements service.Service.
func (s *Service) Watch(ctx context.Context, at service.Place, run service.Run) (service.Place, service.Run, error) {
	p, r, err := s.watch(ctx, at, run)
	return p, r, aws.Typed(err)
}

func (s *Service) watch(ctx context.Context, at service.Place, run service.Run) (service.Place, service.Run, error) {
	p, err := s.find(ctx, at)
	if service.IsEnded(err) {
		at.State, run.State = service.Ended, service.Lost
		return at, run, nil
	}
	if err != nil || run.Name == "" {
		return p, run, err
	}
	found, ok, err := s.run(ctx, p, run)
	switch {
	case err != nil || ok:
		return p, found, err
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
	// EMR Serverless User Guide, "Storing logs": these are the files of the driver.
	log, err := s3log.Read(ctx, s.clients.Config(p.Region), p.Logs+"applications/"+p.ID+"/jobs/"+r.ID+"/SPARK_DRIVER/")
	return log, aws.Typed(err)
}

// Cancel implements service.Service.
func (s *Service) Cancel(ctx context.Context, at service.Place, run service.Run) error {
	p, r, err := s.watch(ctx, at, run)
	var e *cloud.Error
	if errors.As(err, &e) && (e.Code == service.CodeNoRun || e.Code == codeNotListed) {
		return nil
	}
	if err != nil || r.State.Final() {
		return aws.Typed(err)
	}
	return aws.Typed(s.cancel(ctx, p, r))
}

// cancel cancels a run. If the run ends at this moment, the service refuses the call as invalid.
func (s *Service) cancel(ctx context.Context, p service.Place, r service.Run) error {
	_, err := s.client(p.Region).CancelJobRun(ctx, &emrserverless.CancelJobRunInput{
		ApplicationId: &p.ID, JobRunId: &r.ID,
	})
	var invalid *types.ValidationException
	if !errors.As(err, &invalid) {
		return err
	}
	now, _, again := s.run(ctx, p, r)
	if again == nil && now.State.Final() {
		return nil
	}
	return cmp.Or(again, err)
}

// End implements service.Service: it cancels job runs, then stops the application, then deletes it. Each step needs
// the end of the one before, so the caller repeats the call.
func (s *Service) End(ctx context.Context, at service.Place) error {
	release, err := driver.BeginTerminate(ctx, s.graves, &s.locks, s.applicationName(at.Name))
	if err != nil {
		return aws.Typed(err)
	}
	defer release()
	p, err := s.find(ctx, at)
	if service.IsEnded(err) || err == nil && p.State == service.Ended {
		return nil
	}
	if err != nil {
		return aws.Typed(err)
	}
	runs, err := s.runs(ctx, p)
	if err != nil {
		return aws.Typed(err)
	}
	running := false
	for _, r := range runs {
		if !r.State.Final() {
			running = true
			if err := s.cancel(ctx, p, r); err != nil {
				return aws.Typed(err)
			}
		}
	}
	if running {
		return nil
	}
	return aws.Typed(s.delete(ctx, p))
}

func (s *Service) delete(ctx context.Context, p service.Place) error {
	client := s.client(p.Region)
	out, err := client.GetApplication(ctx, &emrserverless.GetApplicationInput{ApplicationId: &p.ID})
	if err != nil {
		return err
	}
	switch out.Application.State {
	case types.ApplicationStateStarted, types.ApplicationStateStarting:
		_, err = client.StopApplication(ctx, &emrserverless.StopApplicationInput{ApplicationId: &p.ID})
	case types.ApplicationStateCreated, types.ApplicationStateStopped:
		_, err = client.DeleteApplication(ctx, &emrserverless.DeleteApplicationInput{ApplicationId: &p.ID})
	}
	return err
}

// Places implements service.Service.
func (s *Service) Places(ctx context.Context) (all []service.Place, err error) {
	for _, region := range s.cfg.Regions {
		in, err := s.list(ctx, region)
		if err != nil {
			return nil, aws.Typed(err)
		}
		all = append(all, in...)
	}
	return all, nil
}
