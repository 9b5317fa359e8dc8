package sim

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/tradewind-broker/tradewind/internal/broker"
	"github.com/tradewind-broker/tradewind/internal/broker/config"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/internal/sim/breaks"
	"github.com/tradewind-broker/tradewind/internal/sim/check"
	"github.com/tradewind-broker/tradewind/internal/sim/drawn"
	"github.com/tradewind-broker/tradewind/internal/sim/timeline"
	"github.com/tradewind-broker/tradewind/internal/sim/weather"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
	"github.com/tradewind-broker/tradewind/pkg/cloud/service"
	"github.com/tradewind-broker/tradewind/pkg/dag"
)

// managed is a managed service of a world, which runs Spark applications. Its calls have the faults of launches, and
// its places those of machines.
type managed struct {
	w      *world
	rand   timeline.Random
	name   string
	cloud  string
	places map[string]*place
	order  []*place
	ended  map[string]bool // names that were ended before they were used
}

var _ service.Service = (*managed)(nil)

// place is a cluster, an application of a serverless service, or, for a service of batches, only a name.
type place struct {
	check.Machine
	of     *managed
	spec   service.Spec
	at     weather.Managed
	state  service.State
	asked  bool // the broker has ended it
	why    *cloud.Error
	listed time.Time // when lists start to show it
	used   time.Time // when it became ready, or its last application ended
	runs   []*application
}

// application is one run of an application.
type application struct {
	service.Run
	app   service.App
	place *place
	shown time.Time // when the service finds it by its name
}

// newManaged returns the managed services of a world, or none.
func newManaged(w *world) (all []*managed) {
	if !w.opt.managed() {
		return nil
	}
	for _, name := range dag.SparkServices() {
		all = append(all, &managed{w: w, rand: timeline.NewRandom(w.Seed, name), name: name,
			cloud: dag.ServiceCloud(name), places: map[string]*place{}, ended: map[string]bool{}})
	}
	return all
}

// schemes are the schemes of the stores that the services of a cloud read.
var schemes = map[string]string{"aws": "s3", "gcp": "gs"}

// shareReadable is the fraction of the places of clouds that have a store which the services there can read.
const shareReadable = 0.9

// withServices returns stores that managed services read, besides those that a world has.
func withServices(seed uint64, s config.Stores) config.Stores {
	r := timeline.NewRandom(seed, "readable")
	for _, m := range weather.Services() {
		if at := m.Cloud + "-" + m.Region; r.Chance(shareReadable) {
			s.URLs[m.Cloud+":"+m.Region] = schemes[m.Cloud] + "://" + at
		}
	}
	return s
}

// servicePorts returns the ports of the managed services.
func (w *world) servicePorts() map[string]service.Service {
	ports := map[string]service.Service{}
	for _, s := range w.managed {
		ports[s.name] = s
	}
	return ports
}

// watching is the name of the process that watches the managed services, and watchEvery the time between its calls.
const (
	watching   = "watch"
	watchEvery = 5 * time.Second
)

// watchServices watches the attempts on managed services, like a host. It makes one call after the other, and any
// host may make the next one.
func (e *engine) watchServices() {
	e.w.After(watchEvery, func() {
		h := e.w.anyHost()
		if h == nil || e.stopped {
			e.watchServices()
			return
		}
		e.w.start(h, watching, func(ctx context.Context, b *broker.Broker) {
			if _, err := b.Services.Watch(ctx); err != nil {
				e.w.Say(e.w.actor(), "fails", err.Error())
				e.w.check.WatchFailed(err)
			}
		}, func(bool) { e.watchServices() })
	})
}

// call begins a call to a service: it takes time, and may be refused.
func (s *managed) call(name string, lo, hi time.Duration, throttles float64) error {
	s.w.before(name)
	if p := s.w.running; p != nil {
		p.wait(s.rand.Spread(lo, hi))
	}
	switch {
	case s.w.sky.Outage(s.cloud):
		s.w.Count("cloud outage")
		return cloud.Errorf(s.cloud, cloud.Auth, "AccessDenied", "the credentials were not accepted")
	case s.rand.Chance(throttles):
		s.w.Count("service throttled")
		return cloud.Errorf(s.cloud, cloud.Throttled, "ThrottlingException", "too many requests")
	}
	return nil
}

// Name implements service.Service.
func (s *managed) Name() string { return s.name }

// Create implements service.Service.
func (s *managed) Create(_ context.Context, spec service.Spec) (service.Place, error) {
	w, cluster := s.w, s.w.check.ClusterOf(spec.Name)
	if err := spec.Check(s.name, schemes[s.cloud]); err != nil {
		w.Violate(check.InvErrors, err.Error())
	}
	p, err := s.create(cluster, spec)
	w.after("create " + cluster)
	if err != nil {
		w.Say(s.name, "refuses", cluster+": "+err.Error())
		w.check.LaunchFailed(cloud.LaunchSpec{Cluster: cluster}, cloud.KindOf(err), err)
		return service.Place{}, err
	}
	return p.view(), nil
}

func (s *managed) create(cluster string, spec service.Spec) (*place, error) {
	w, r := s.w, s.rand
	if err := s.call("create "+cluster, w.pace.launch[0], w.pace.launch[1], w.faults.CloudThrottles); err != nil {
		return nil, err
	}
	p := s.places[spec.Name]
	switch {
	case s.ended[spec.Name] || p != nil && (p.state == service.Ended || p.state == service.Ending):
		return nil, service.ErrorEnded(s.name, spec.Name)
	case p != nil:
		return p, nil
	}
	at, known := weather.ManagedOf(s.name, spec.Region)
	if !known {
		w.Violatef(check.InvErrors, "%s is not in %s", s.name, spec.Region)
	}
	if err := s.scarce(&at); err != nil {
		return nil, err
	}
	if r.Chance(w.faults.LaunchFails) {
		if w.Count("place fails"); r.Chance(0.2) {
			return nil, cloud.Errorf(s.cloud, cloud.Invalid, "ValidationException", "the request is invalid")
		}
		return nil, cloud.Errorf(s.cloud, cloud.Transient, "InternalError", "an internal error has occurred")
	}
	if r.Chance(w.faults.LaunchHangs) {
		w.Count("place hangs")
		w.After(r.Spread(10*time.Second, 6*time.Minute), func() {
			if s.places[spec.Name] == nil {
				s.make(cluster, spec, at)
			}
		})
		return nil, cloud.Errorf(s.cloud, cloud.Transient, "RequestTimeout", "no answer")
	}
	p = s.make(cluster, spec, at)
	if r.Chance(w.faults.LaunchUnseen) {
		w.Count("place unseen")
		return nil, cloud.Errorf(s.cloud, cloud.Transient, "ConnectionReset", "the connection was reset")
	}
	return p, nil
}

// scarce returns an error if a service has no capacity in a region, or the quota there is exceeded.
func (s *managed) scarce(at *weather.Managed) error {
	if has, _ := s.w.sky.Capacity(at.Offer(false, 0), 1); !has {
		s.w.Count("no capacity of a service")
		return cloud.Errorf(s.cloud, cloud.Capacity, "InsufficientCapacity", "no capacity in %s", at.Region)
	}
	held := 0
	for _, p := range s.order {
		if p.Alive() && p.at.Region == at.Region {
			held++
		}
	}
	if most := s.w.faults.QuotaMachines; most > 0 && held >= most {
		s.w.Count("no quota of a service")
		return cloud.Errorf(s.cloud, cloud.Quota, "LimitExceeded", "%d places in %s are too many", held+1, at.Region)
	}
	return nil
}

// make makes a place. It becomes ready after a while, or much later, or never.
func (s *managed) make(cluster string, spec service.Spec, at weather.Managed) *place {
	w, r := s.w, s.rand
	p := &place{of: s, spec: spec, at: at, state: service.Starting, listed: w.Now}
	p.Machine = check.Machine{ID: fmt.Sprintf("%s-%04d", s.name, len(s.order)+1), Cluster: cluster, Cloud: s.cloud,
		Service: s.name, Launched: w.Now}
	p.Offer = w.check.OfferOf(cluster)
	if lag := w.faults.ListLag; lag > 0 {
		p.listed = w.Now.Add(r.Between(0, lag))
	}
	s.places[spec.Name] = p
	s.order = append(s.order, p)
	w.Say(s.name, "makes", cluster+" "+p.ID)
	w.check.Launched(cloud.LaunchSpec{Cluster: cluster, Nodes: 1}, []*check.Machine{&p.Machine}, 1)
	ready := p.late("late place", at.Ready)
	p.mayRefuse(ready)
	w.After(ready, p.ready)
	dies := w.faults.Dies / time.Duration(spec.Executors.Min+1) // any of its machines
	if w.opt.Break == breaks.Oblivious {
		dies = 20 * time.Minute
	}
	if dies > 0 {
		w.After(r.Span(dies), func() {
			if w.faults.Dies > 0 || w.opt.Break == breaks.Oblivious {
				p.lose(cloud.Errorf(s.cloud, cloud.Capacity, "InstanceFailure", "one of its nodes has failed"))
			}
		})
	}
	return p
}

// late draws a time to start, which is much longer sometimes, when a service has no capacity for a while.
func (p *place) late(what string, usual [2]time.Duration) time.Duration {
	if usual[1] > 0 && p.of.rand.Chance(p.of.w.faults.SlowBoot) {
		p.of.w.Count(what)
		usual = [2]time.Duration{usual[1], 40 * time.Minute}
	}
	return p.of.rand.Between(usual[0], usual[1])
}

// mayRefuse draws whether a service later refuses a request that it has accepted, before the request's start.
func (p *place) mayRefuse(start time.Duration) {
	s := p.of
	if start > 0 && s.rand.Chance(s.w.faults.LaunchHalf) {
		s.w.Count("late refusal")
		kind := timeline.Pick(s.rand, []cloud.Kind{cloud.Capacity, cloud.Quota})
		s.w.After(start/2, func() { p.lose(cloud.Errorf(s.cloud, kind, "LateRefusal", "there is no room")) })
	}
}

func (p *place) ready() {
	if p.state == service.Starting {
		p.state = service.Ready
		p.idle()
	}
}

// idle makes a cluster end itself if it has had no application for the time that the broker requested.
func (p *place) idle() {
	w, since := p.of.w, p.of.w.Now
	p.used = since
	if weather.Serverless(p.Service) || p.spec.Idle == 0 || w.opt.Break == breaks.Lingering {
		return
	}
	w.After(p.spec.Idle, func() {
		if p.used.Equal(since) && p.active() == nil && p.state == service.Ready {
			w.Count("idle place ends itself")
			p.lose(cloud.Errorf(p.Cloud, cloud.Transient, "AutoTermination", "it was idle"))
		}
	})
}

// active returns the first application that has not ended, or nil.
func (p *place) active() *application {
	for _, a := range p.runs {
		if !a.State.Final() {
			return a
		}
	}
	return nil
}

// lose ends a cluster that the broker has not ended. A serverless service loses the application.
func (p *place) lose(why *cloud.Error) {
	a := p.active()
	serverless := weather.Serverless(p.Service) && p.state == service.Ready
	if p.asked || p.state == service.Ended || p.state == service.Ending || serverless && a == nil {
		return
	}
	w := p.of.w
	w.Count("place lost")
	w.Say(p.Service, "loses", p.Cluster+" "+p.ID+": "+why.Message)
	if p.Lost = w.Now; a != nil {
		p.To = w.Now
	}
	if !serverless {
		p.Ended = w.Now
		defer w.check.Ended(&p.Machine)
	}
	if w.opt.Break == breaks.Oblivious {
		return
	}
	if a != nil {
		a.State, a.Message = service.Lost, why.Message
	}
	if !serverless {
		p.why = why
		p.stop()
	}
}

// stop lets a place that takes nothing more end.
func (p *place) stop() {
	p.state = service.Ending
	p.of.w.After(p.of.rand.Between(time.Second, 3*time.Minute), func() { p.state = service.Ended })
}

func (p *place) view() service.Place {
	return service.Place{Name: p.spec.Name, Region: p.spec.Region, Release: p.spec.Release, Logs: p.spec.Logs, ID: p.ID,
		State: p.state, Created: p.Launched, Why: p.why}
}

// find returns the first application with a name, or nil.
func (p *place) find(name string) *application {
	for _, a := range p.runs {
		if a.Name == name {
			return a
		}
	}
	return nil
}

// Submit implements service.Service.
func (s *managed) Submit(_ context.Context, at service.Place, app service.App) (service.Run, error) {
	w := s.w
	if err := app.Check(s.name, schemes[s.cloud]); err != nil {
		w.Violate(check.InvErrors, err.Error())
	}
	a, err := s.submit(at, app)
	w.after("submit " + at.Name)
	if err != nil {
		return service.Run{}, err
	}
	return a.Run, nil
}

func (s *managed) submit(at service.Place, app service.App) (*application, error) {
	w, r := s.w, s.rand
	if err := s.call("submit", 300*time.Millisecond, 10*time.Second, w.faults.CloudThrottles); err != nil {
		return nil, err
	}
	p := s.places[at.Name]
	switch {
	case p == nil || p.state == service.Ended || p.state == service.Ending:
		return nil, service.ErrorEnded(s.name, at.Name)
	case p.state == service.Starting:
		return nil, cloud.Errorf(s.cloud, cloud.Throttled, "NotReady", "the place is starting")
	}
	if a := p.find(app.Name); a != nil && w.opt.Break != breaks.Repeating {
		w.Count("submitted again")
		return a, nil
	}
	if r.Chance(w.faults.LaunchFails) {
		w.Count("submit fails")
		return nil, s.refusal(p)
	}
	w.check.Submitted(&p.Machine, w.running.began)
	a := &application{app: app, place: p, Run: service.Run{Name: app.Name, ID: fmt.Sprintf("%s-run%d", p.ID,
		len(p.runs)+1), State: service.Pending}}
	if lag := w.faults.ListLag; lag > 0 {
		a.shown = w.Now.Add(r.Between(0, lag/8))
	}
	if w.opt.Break == breaks.Repeating {
		a.shown = w.Now.Add(15 * time.Second)
	}
	p.runs = append(p.runs, a)
	w.Say(s.name, "accepts", p.Cluster+" "+a.ID)
	start := p.late("late executors", p.at.Start)
	if weather.Serverless(s.name) {
		p.mayRefuse(start)
	}
	w.After(start, a.start)
	if r.Chance(w.faults.LaunchUnseen) {
		w.Count("submit unseen")
		return nil, cloud.Errorf(s.cloud, cloud.Transient, "ConnectionReset", "the connection was reset")
	}
	return a, nil
}

// refusal draws why an application is not accepted.
func (s *managed) refusal(p *place) error {
	kind := timeline.Pick(s.rand, []cloud.Kind{cloud.Transient, cloud.Transient, cloud.Transient, cloud.Capacity,
		cloud.Quota, cloud.Invalid})
	if kind == cloud.Invalid {
		s.w.users.failedOn(p.Cluster)
	}
	return cloud.Errorf(s.cloud, kind, "Refused", "the application is not accepted")
}

// start gives an application its executors.
func (a *application) start() {
	p, w := a.place, a.place.of.w
	if a.State != service.Pending {
		return
	}
	a.State = service.Running
	if p.From.IsZero() {
		p.From = w.Now
	}
	if weather.Serverless(p.Service) {
		a.Began = w.Now
	}
	lasts := w.users.durationOn(p)
	if p.of.rand.Chance(w.faults.TaskFails) {
		w.After(p.of.rand.Between(0, lasts), func() {
			if a.State == service.Running {
				w.Count("application fails")
				w.users.failedOn(p.Cluster)
				a.Message = "simulated failure"
				a.end(service.Failed)
			}
		})
	}
	w.After(lasts, func() {
		if a.State != service.Running {
			return
		}
		w.check.OutputsStored(strings.TrimSuffix(a.app.Args[0], "0/"+drawn.SparkOutput))
		a.end(service.Succeeded)
		w.Count("application succeeds")
		n := 0
		for _, other := range p.runs {
			if other.State == service.Succeeded {
				n++
			}
		}
		w.check.Succeeded(&p.Machine, n)
	})
}

// end ends an application.
func (a *application) end(as service.RunState) {
	a.State = as
	if !a.Began.IsZero() {
		a.Ended = a.place.of.w.Now
	}
	a.place.To = a.place.of.w.Now
	a.place.of.w.Say(a.place.Service, "ends", a.place.Cluster+" "+a.ID+": "+string(as))
	a.place.idle()
}

// forgetful is the service that forgets an ended place with its applications: Dataproc has deleted the cluster.
const forgetful = "dataproc"

// listsWithoutTimes is the service whose lists do not have the start of a run. Only a request for a run by its ID
// returns that (EMR Serverless: GetJobRun).
const listsWithoutTimes = "emr-serverless"

// Watch implements service.Service.
func (s *managed) Watch(_ context.Context, at service.Place, run service.Run) (service.Place, service.Run, error) {
	if err := s.call("describe", 100*time.Millisecond, 3*time.Second, s.w.faults.ListFails); err != nil {
		return at, run, err
	}
	p := s.places[at.Name]
	if p == nil || s.name == forgetful && p.state == service.Ended {
		at.State, run.State = service.Ended, service.Lost
		return at, run, nil
	}
	now, a := p.view(), p.find(run.Name)
	switch {
	case run.Name == "":
		return now, run, nil
	case a != nil && !a.shown.After(s.w.Now):
		found := a.In(now)
		if s.name == listsWithoutTimes && run.ID == "" {
			found.Began, found.Ended = time.Time{}, time.Time{}
		}
		return now, found, nil
	case p.state == service.Ended:
		run.State = service.Lost
		return now, run, nil
	}
	return now, run, service.ErrorNoRun(s.name, run.Name)
}

// Log implements service.Service.
func (s *managed) Log(context.Context, service.Place, service.Run) (service.Log, error) {
	return service.Log{}, s.call("log", 100*time.Millisecond, 3*time.Second, s.w.faults.ListFails)
}

// Cancel implements service.Service.
func (s *managed) Cancel(_ context.Context, at service.Place, run service.Run) error {
	if err := s.call("cancel", 300*time.Millisecond, 10*time.Second, s.w.faults.CloudThrottles); err != nil {
		return err
	}
	if p := s.places[at.Name]; p != nil {
		if a := p.find(run.Name); a != nil && !a.State.Final() {
			a.end(service.Cancelled)
		}
	}
	return nil
}

// End implements service.Service. A serverless service ends in two calls: the first ends its applications, the second
// the place.
func (s *managed) End(_ context.Context, at service.Place) error {
	w, p := s.w, s.places[at.Name]
	if err := s.call("end "+at.Name, 300*time.Millisecond, 10*time.Second, w.faults.CloudThrottles); err != nil {
		if p != nil && cloud.KindOf(err) == cloud.Auth {
			w.check.Unended(p.Cluster)
		}
		return err
	}
	lost := s.rand.Chance(w.faults.TerminateFails)
	if lost {
		w.Count("end fails")
	}
	if (!lost || s.rand.Chance(0.5)) && w.opt.Break != breaks.Lingering {
		s.end(at.Name)
	}
	w.after("end " + at.Name)
	if lost {
		return cloud.Errorf(s.cloud, cloud.Transient, "ConnectionReset", "the connection was reset")
	}
	return nil
}

func (s *managed) end(name string) {
	p := s.places[name]
	if p == nil {
		s.ended[name] = true
		return
	}
	if p.asked && p.state == service.Ending && weather.Serverless(s.name) && p.Alive() {
		p.over()
		p.state = service.Ended
		return
	}
	if p.asked || p.state == service.Ended {
		return
	}
	p.asked = true
	for a := p.active(); a != nil; a = p.active() {
		a.end(service.Cancelled)
	}
	switch {
	case !p.Alive(): // it has ended itself
	case weather.Serverless(s.name):
		p.state = service.Ending
	default:
		p.over()
		p.stop()
	}
}

// over ends the bill of a place.
func (p *place) over() {
	p.Ended = p.of.w.Now
	p.of.w.Say(p.Service, "ends", p.Cluster+" "+p.ID)
	p.of.w.check.Ended(&p.Machine)
}

// Places implements service.Service.
func (s *managed) Places(context.Context) (all []service.Place, err error) {
	if err := s.call("places", 100*time.Millisecond, 3*time.Second, s.w.faults.ListFails); err != nil {
		return nil, err
	}
	for _, p := range s.order {
		if !p.listed.After(s.w.Now) && (p.Alive() || s.w.Now.Sub(p.Ended) < listedFor) {
			all = append(all, p.view())
		}
	}
	return all, nil
}

// onCluster returns the job and the task of a cluster on a managed service.
func (u *users) onCluster(cluster string) (j *userJob, task int) {
	task, _, _ = record.ClusterAttempt(cluster)
	return u.byName[u.w.check.Jobs[record.ClusterJob(cluster)].Name], task
}

// durationOn returns how long the application of a place really takes.
func (u *users) durationOn(p *place) time.Duration {
	j, task := u.onCluster(p.Cluster)
	return time.Duration(float64(record.TimeOn(&j.Spec.Tasks[task], p.Offer)) * j.Factor[task])
}

// failedOn counts a failed application.
func (u *users) failedOn(cluster string) {
	j, task := u.onCluster(cluster)
	j.Failures[task]++
}
