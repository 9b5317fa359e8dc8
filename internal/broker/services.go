package broker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/tradewind-broker/tradewind/internal/agent/wire"
	"github.com/tradewind-broker/tradewind/internal/broker/attempt"
	"github.com/tradewind-broker/tradewind/internal/broker/config"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/internal/broker/recordcache"
	"github.com/tradewind-broker/tradewind/internal/broker/txn"
	"github.com/tradewind-broker/tradewind/internal/pack"
	"github.com/tradewind-broker/tradewind/internal/sparkrun"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
	"github.com/tradewind-broker/tradewind/pkg/cloud/service"
)

// Services watches the attempts on managed services. These have no agents, so Services acts in their place: it says
// hello, submits the application, and reports the start and end. It keeps nothing between two calls, so any process
// may continue.
type Services struct {
	ports  Ports
	cfg    config.Config
	txns   *txn.Transactor
	agents *Agents
	log    *slog.Logger
}

// createPlace creates the place of an intended attempt on a service. It counts as the only machine of the attempt.
func (b *Functions) createPlace(ctx context.Context, st attempt.Buying) ([]cloud.Machine, error) {
	name := st.Cluster.Offer.Service
	s, ok := b.ports.Services[name]
	if !ok {
		return nil, cloud.Errorf(st.Cluster.Offer.Cloud, cloud.Auth, cloud.CodeNoCredentials,
			"no credentials for %s are configured", name)
	}
	spec := attempt.PlaceSpec(b.cfg, st)
	if scheme, _, _ := strings.Cut(spec.Logs, "://"); !slices.Contains(schemesOf(st.Cluster.Offer.Cloud), scheme) {
		return nil, cloud.OfRegion(cloud.Errorf(st.Cluster.Offer.Cloud, cloud.Quota, "NoStore",
			"%s cannot read the store of this deployment, %s://: use a bucket of its cloud (--store)", name, scheme))
	}
	p, err := s.Create(ctx, spec)
	if service.IsEnded(err) { // an earlier call created it, and crashed before it recorded it
		late := cloud.Errorf(st.Cluster.Offer.Cloud, cloud.Capacity, service.CodeEnded,
			"its place on %s has ended before the broker knew that it had been created", name)
		late.Late, err = 1, late
	}
	if err != nil {
		return nil, brief{err}
	}
	return []cloud.Machine{{ID: p.Name, Cluster: st.Cluster.ID, State: cloud.Pending, Offer: st.Cluster.Offer,
		Launched: p.Created}}, nil
}

// schemesOf returns the schemes of the stores that the services of a cloud read.
func schemesOf(name string) []string {
	return map[string][]string{"aws": {"s3"}, "gcp": {"gs"}}[name]
}

// Watch makes one step for each attempt on a service, and ends the places that have no attempt. If the step brings an
// attempt up, Watch also makes the next one, which submits the application. Hosts call it periodically. open reports
// whether attempts were on a service, or could not be read, so that the next call should come soon.
func (b *Services) Watch(ctx context.Context) (open bool, err error) {
	if len(b.ports.Services) == 0 {
		return false, nil
	}
	// Places are listed first. Each listed place was recorded before, so a place without a record now was given up.
	places, errs := map[string][]service.Place{}, []error(nil)
	for _, name := range slices.Sorted(maps.Keys(b.ports.Services)) {
		list, err := b.ports.Services[name].Places(ctx)
		places[name], errs = list, append(errs, err)
	}
	clusters, err := b.clusters(ctx)
	if err != nil {
		return true, errors.Join(append(errs, err)...)
	}
	known := map[string]bool{}
	for _, cl := range clusters {
		known[attempt.PlaceName(cl.ID)] = true
		up, err := b.step(ctx, cl)
		if up {
			err = b.stepAgain(ctx, cl.ID)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s on %s: %w", cl.ID, cl.Offer.Service, err))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(places)) {
		for _, p := range places[name] {
			if p.State == service.Ended || known[p.Name] {
				continue
			}
			b.log.Info("ending a place without an attempt", "service", name, "place", p.Name)
			errs = append(errs, b.ports.Services[name].End(ctx, p))
		}
	}
	return len(clusters) > 0, errors.Join(errs...)
}

// clusters returns the attempts on services of all unfinished jobs.
func (b *Services) clusters(ctx context.Context) (all []record.Cluster, err error) {
	ids, err := b.txns.ActiveJobs(ctx)
	if err != nil {
		return nil, err
	}
	u := b.txns.NewUnit(ctx, record.FnServices)
	for _, id := range ids {
		of, err := recordcache.List[record.Cluster](u, record.JobPart(id), record.ClusterPrefix, 0)
		if err != nil {
			return nil, err
		}
		for _, cl := range of {
			if cl.Offer.Service != "" {
				all = append(all, cl)
			}
		}
	}
	return all, nil
}

// stepAgain makes the next step of an attempt that has come up.
func (b *Services) stepAgain(ctx context.Context, id string) error {
	u := b.txns.NewUnit(ctx, record.FnServices)
	cl, found, err := recordcache.Get[record.Cluster](u, record.ClusterKey(id))
	if err == nil && found {
		_, err = b.step(ctx, cl)
	}
	return err
}

// step asks a service about an attempt, decides, and acts. It reports whether the attempt has come up.
func (b *Services) step(ctx context.Context, cl record.Cluster) (up bool, err error) {
	s, ok := b.ports.Services[cl.Offer.Service]
	if !ok || cl.State == record.ClusterLaunching || cl.State == record.ClusterReleasing {
		return false, nil
	}
	p, run, err := s.Watch(ctx, attempt.PlaceOn(b.cfg, cl), service.Run{Name: attempt.RunOnService})
	var e *cloud.Error
	if errors.As(err, &e) && e.Code == service.CodeNoRun {
		run, err = service.Run{}, nil
	}
	if err != nil {
		return false, err
	}
	if run.State == service.Lost && run.ID == "" { // the place ended before the application was submitted
		run = service.Run{}
	}
	claims := wire.Claims{Job: cl.Job, Cluster: cl.ID}
	switch step := attempt.DecideOnService(cl, p, run); {
	case step.Hello:
		_, err = b.agents.Hello(ctx, claims, wire.Hello{Address: cl.Offer.Service, Nonce: p.Name})
		up = err == nil
	case step.Submit:
		err = b.submit(ctx, s, cl, p)
	case step.Cancel:
		err = s.Cancel(ctx, p, run)
	case step.Report != nil:
		if run.State.Final() {
			b.keepLog(ctx, s, cl, p, run)
		}
		if err = b.setRan(ctx, s, cl, p, run, step.Report); err == nil {
			err = b.agents.Report(ctx, claims, *step.Report)
		}
	case step.Lost != nil:
		err = b.lose(ctx, cl.ID, step)
	}
	if errors.Is(err, record.ErrGone) {
		return false, nil // the attempt has ended meanwhile
	}
	return up, err
}

// setRan sets the run time of an application, if the service reports it, because the broker may check long after the
// start or the end. If a service does not bill its start and its lists lack the time, it is asked by the run's ID. If
// the service does not answer, the next check reports the run: without the time, the bill would be too low.
func (b *Services) setRan(ctx context.Context, s service.Service, cl record.Cluster, p service.Place, run service.Run,
	r *wire.Report) error {
	if r.Event != wire.Started && r.Event != wire.Succeeded || cl.Started {
		return nil
	}
	if run.Began.IsZero() && run.ID != "" && !record.BillsStart(cl.Offer.Service) {
		_, asked, err := s.Watch(ctx, p, run)
		if err != nil {
			return err
		}
		run = asked
	}
	if run.Began.IsZero() {
		return nil
	}
	until := b.ports.Now()
	if r.Event == wire.Succeeded && !run.Ended.IsZero() {
		until = run.Ended
	}
	r.Ran = b.cfg.Wall(max(until.Sub(run.Began), 0))
	return nil
}

// keepLog stores the output of an application before its end is reported. If that fails, the attempt ends as it would
// with it.
func (b *Services) keepLog(ctx context.Context, s service.Service, cl record.Cluster, p service.Place,
	run service.Run) {
	if b.ports.AppendLog == nil {
		return
	}
	log, err := s.Log(ctx, p, run)
	if err == nil {
		err = b.ports.AppendLog(ctx, cl.Job, cl.ID, slices.Concat(log.Stderr, log.Stdout))
	}
	if err != nil {
		b.log.Warn("the log of an application", "service", cl.Offer.Service, "attempt", cl.ID, "err", err)
	}
}

// submit submits the application of an attempt. If the service refuses it, the attempt fails or is lost.
func (b *Services) submit(ctx context.Context, s service.Service, cl record.Cluster, p service.Place) error {
	claims := wire.Claims{Job: cl.Job, Cluster: cl.ID}
	work, err := b.agents.Work(ctx, claims, 0)
	if err != nil || work.Command != wire.Run || work.Assignment == nil {
		return err
	}
	app, err := b.application(ctx, cl, work.Assignment)
	if err == nil {
		_, err = s.Submit(ctx, p, app)
	}
	switch kind := cloud.KindOf(err); {
	case err == nil || kind == cloud.Throttled || kind == cloud.Transient || service.IsEnded(err):
		return err // the next step reads it
	case kind != cloud.Invalid:
		var e *cloud.Error
		_ = errors.As(err, &e) // KindOf found one
		return b.lose(ctx, cl.ID, attempt.ServiceStep{Lost: e, Refused: true})
	}
	return b.agents.Report(ctx, claims, wire.Report{
		ID: "service-refused", Attempt: cl.ID, Event: wire.Failed, ExitCode: 1, Message: err.Error(),
	})
}

// application returns the application of an attempt. Its URIs are in the store of the place.
func (b *Services) application(ctx context.Context, cl record.Cluster,
	a *wire.Assignment) (app service.App, err error) {
	u := b.txns.NewUnit(ctx, record.FnServices)
	job, _, err := recordcache.Get[record.Job](u, record.JobKey(cl.Job))
	if err != nil {
		return app, err
	}
	spec, err := attempt.SpecOf(u, job, cl)
	if err != nil {
		return app, err
	}
	t := &spec.Tasks[cl.Task]
	files := map[string]string{}
	parents := maps.Clone(a.Parents)
	if parents == nil {
		parents = map[string]string{}
	}
	maps.Copy(parents, a.ListedParents)
	for parent, where := range parents {
		if !strings.Contains(where, "://") {
			where = strings.TrimSuffix(a.Store, "/") + "/" + where
		}
		files[parent] = strings.TrimSuffix(where, "/") + "/0/"
	}
	code := ""
	if a.Workdir != "" {
		if code, err = b.unpacked(ctx, cl, a, a.Workdir); err != nil {
			return app, err
		}
	}
	for _, in := range a.Inputs {
		name := path.Clean(cmp.Or(in.Path, path.Base(strings.TrimSuffix(in.URI, "/"))))
		if files[name], err = b.unpacked(ctx, cl, a, in.URI); err != nil {
			return app, err
		}
	}
	at := strings.TrimSuffix(a.Store, "/") + "/" + wire.OutputPrefix(a.Prefix, a.Attempt) + "0/"
	prefixes := sparkrun.Prefixes{Code: code, Files: files, Outputs: at}
	if app, err = sparkrun.OnService(t.Spark, prefixes, a.Env); err != nil {
		return app, cloud.Errorf(cl.Offer.Cloud, cloud.Invalid, service.CodeBadSpec, "%v", err)
	}
	app.Name, app.Executors = attempt.RunOnService, attempt.Executors(t, cl.Offer.Service)
	app.Limit, app.Labels = a.Timeout, map[string]string{"task": t.Name, "attempt": fmt.Sprint(cl.Attempt)}
	return app, nil
}

// unpacked returns the URI of an input in the store of an attempt. If the input is packed, it is first written there.
func (b *Services) unpacked(ctx context.Context, cl record.Cluster, a *wire.Assignment, uri string) (string, error) {
	switch {
	case !pack.IsURI(uri):
		return uri, nil
	case b.ports.Unpack == nil:
		return "", cloud.Errorf(cl.Offer.Cloud, cloud.Invalid, service.CodeBadSpec,
			"%s is an uploaded file, which this broker cannot copy to %s: write the URI of the file",
			uri, cl.Offer.Service)
	}
	u, err := pack.ParseURI(uri)
	if err != nil {
		return "", err
	}
	return b.ports.Unpack(ctx, uri, strings.TrimSuffix(a.Store, "/")+"/"+
		path.Join(cl.Job, "service-code", string(u.Digest))+"/")
}

// lose ends an attempt whose place or run is lost, so that its task runs again elsewhere. If the place never became
// ready, or refuses applications, its location is blocked.
func (b *Services) lose(ctx context.Context, id string, step attempt.ServiceStep) error {
	return b.txns.Transact(ctx, record.FnServices, id+"/lost", false, func(u *txn.Unit) error {
		l, found, err := attempt.LoadLosing(u, id)
		if err != nil || !found || l.Cluster.Outcome != "" {
			return record.OrSkip(err)
		}
		d := attempt.DecideLost(l, apitypes.OutcomeLost, brief{step.Lost}.Error(), u.Now)
		if step.Refused {
			if err := blockLocation(u, b.cfg, l.Cluster, &d, attempt.PlaceBlock(step.Lost)); err != nil {
				return err
			}
		}
		return u.Apply(d)
	})
}
