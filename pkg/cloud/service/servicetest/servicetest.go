// Package servicetest is the conformance suite of service.Service: a driver implements Harness and calls Run in one of
// its tests. The suite makes places, so against a real cloud it costs money.
//
// It checks the guarantees on which the broker relies: places and runs are made once, an ended place stays ended,
// failures have a kind, a failed application is told from a lost one, and nothing is left behind.
package servicetest

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/pkg/cloud"
	"github.com/tradewind-broker/tradewind/pkg/cloud/service"
)

// Kind selects the behaviour of an application of the suite.
type Kind string

// The applications.
const (
	Prints Kind = "prints" // it prints Hello on its standard output
	Fails  Kind = "fails"  // it prints Trouble on its standard error, and fails
	Waits  Kind = "waits"  // it runs until it is stopped
)

// The texts that the applications print.
const (
	Hello   = "hello from the application"
	Trouble = "trouble in the application"
)

// Call is a call of a service.
type Call string

// The calls.
const (
	Create Call = "create"
	Submit Call = "submit"
	End    Call = "end"
)

// Harness is the service under test with the controls that the suite needs. Each test gets its own harness.
type Harness interface {
	// Service returns the driver, always the same one.
	Service() service.Service
	// Restarted returns the driver that a new process of the same deployment would have.
	Restarted() service.Service
	// Sibling returns a driver of another deployment in the same account.
	Sibling() service.Service
	// Spec returns a place, and App an application, that the service can make.
	Spec(name string) service.Spec
	App(name string, kind Kind) service.App
	// Fail makes the next call fail as the cloud fails with err: the driver must turn that into an error with err's
	// kind. It returns false if the harness cannot make the cloud fail so.
	Fail(call Call, err *cloud.Error) bool
	// FailLate makes the service accept the next place, and then end it with err before it is ready. It returns false
	// if the cloud has no such failures.
	FailLate(err *cloud.Error) bool
	// LoseAnswer makes the cloud carry out the next call and lose the answer.
	LoseAnswer(call Call)
	// Kill ends a place while a run is in it, like a cloud that loses the place. It returns false if the cloud has no
	// such failures.
	Kill(place string) bool
	// Settle waits until an eventually consistent cloud has caught up, or advances its simulated time.
	Settle(ctx context.Context)
	// Left returns how many places, or batches of a service without places, really exist at the cloud. Made and Runs
	// return how many places were ever made (0 for a service without places), and how many runs were ever accepted. All
	// are independent of the driver.
	Left(ctx context.Context) (int, error)
	Made() int
	Runs() int
	// Close frees the resources of the harness.
	Close()
}

// Maker makes a harness for an account without places.
type Maker func(ctx context.Context, t *testing.T) (Harness, error)

// patience limits the wait for a cloud to become consistent.
const patience = 2 * time.Minute

// Run runs the suite.
func Run(t *testing.T, mk Maker) {
	for name, test := range map[string]func(*suite){
		"ApplicationRuns":                 runs,
		"ApplicationsShareAPlace":         share,
		"CreateAndSubmitAreIdempotent":    idempotent,
		"ParallelCallsBuyOnce":            parallelCalls,
		"LostAnswersBuyOnce":              lostAnswers,
		"ARestartedBrokerFindsEverything": restarted,
		"CancelStopsARun":                 cancel,
		"EndIsIdempotentAndFinal":         end,
		"EndStopsRuns":                    endStopsRuns,
		"FailedApplicationHasAMessage":    failedApplication,
		"LostPlaceLosesItsRuns":           lostPlace,
		"LateFailuresHaveAKind":           lateFailures,
		"RefusalsHaveAKindAndBuyNothing":  refusals,
		"ThrottledCallsCanBeRepeated":     throttled,
		"InvalidSpecsAreInvalid":          nonsense,
		"EndedContextEndsTheCall":         endedContext,
		"DeploymentsAreSeparate":          deployments,
	} {
		t.Run(name, func(t *testing.T) {
			ctx, stop := context.WithTimeout(t.Context(), patience)
			defer stop()
			h, err := mk(ctx, t)
			if err != nil {
				t.Fatal(err)
			}
			defer h.Close()
			s := &suite{T: t, Harness: h, ctx: ctx}
			defer s.cleanup()
			test(s)
		})
	}
}

// suite is the state of one test of the suite.
type suite struct {
	*testing.T
	Harness
	ctx context.Context

	mu     sync.Mutex
	places map[string]service.Spec
}

// spec returns a place and marks it for the cleanup after the test.
func (s *suite) spec(short string) service.Spec {
	s.mu.Lock()
	defer s.mu.Unlock()
	spec := s.Spec(fmt.Sprintf("t%x-%s", time.Now().UnixNano(), short))
	if s.places == nil {
		s.places = map[string]service.Spec{}
	}
	s.places[spec.Name] = spec
	return spec
}

func at(spec service.Spec) service.Place {
	return service.Place{Name: spec.Name, Region: spec.Region, Release: spec.Release, Logs: spec.Logs}
}

// cleanup ends all places and checks that nothing is left.
func (s *suite) cleanup() {
	s.Helper()
	s.await("an empty account", func() bool {
		for _, spec := range s.places {
			if err := s.Service().End(s.ctx, at(spec)); err != nil {
				s.Logf("end %s: %v", spec.Name, err)
			}
		}
		n, err := s.Left(s.ctx)
		if err != nil {
			s.Fatal(err)
		}
		return n == 0 && len(s.live(s.Service())) == 0
	})
}

func (s *suite) create(spec service.Spec) service.Place {
	s.Helper()
	p, err := s.Service().Create(s.ctx, spec)
	if err != nil {
		s.Fatalf("create %s: %v", spec.Name, err)
	}
	if p.Name != spec.Name || p.Region != spec.Region || p.Logs != spec.Logs || p.State == service.Ended {
		s.Errorf("created %+v of %+v", p, spec)
	}
	return p
}

func (s *suite) submit(p service.Place, app service.App) service.Run {
	s.Helper()
	var run service.Run
	s.await("the place to accept "+app.Name, func() bool {
		var err error
		run, err = s.Service().Submit(s.ctx, p, app)
		if err != nil && cloud.KindOf(err) != cloud.Throttled {
			s.Fatalf("submit %s: %v", app.Name, err)
		}
		return err == nil
	})
	if run.Name != app.Name || run.ID == "" {
		s.Errorf("submitted %+v", run)
	}
	return run
}

func (s *suite) watch(p service.Place, run service.Run) (service.Place, service.Run) {
	s.Helper()
	p, run, err := s.Service().Watch(s.ctx, p, run)
	if err != nil {
		s.Fatalf("watch %s: %v", run.Name, err)
	}
	return p, run
}

// wait waits until a run has ended, and returns it and its place.
func (s *suite) wait(p service.Place, run service.Run) (service.Place, service.Run) {
	s.Helper()
	s.await("the end of "+run.Name, func() bool {
		p, run = s.watch(p, run)
		return run.State.Final()
	})
	return p, run
}

// waitRunning waits until a run is running.
func (s *suite) waitRunning(p service.Place, run service.Run) {
	s.Helper()
	s.await(run.Name+" running", func() bool {
		_, run := s.watch(p, run)
		if run.State.Final() {
			s.Fatalf("%+v", run)
		}
		return run.State == service.Running
	})
}

// ended waits until a place that failed has ended, and returns why it failed.
func (s *suite) ended(p service.Place) (why *cloud.Error) {
	s.Helper()
	s.await("the end of "+p.Name, func() bool {
		now, _ := s.watch(p, service.Run{})
		why = cmp.Or(now.Why, why)
		if now.State == service.Ending { // some services keep it until then
			if err := s.Service().End(s.ctx, p); err != nil {
				s.Logf("end: %v", err)
			}
		}
		return now.State == service.Ended
	})
	return why
}

// live lists the places that have not ended.
func (s *suite) live(of service.Service) (names []string) {
	s.Helper()
	places, err := of.Places(s.ctx)
	if err != nil {
		s.Fatalf("places: %v", err)
	}
	for _, p := range places {
		if p.State != service.Ended {
			names = append(names, p.Name)
		}
	}
	slices.Sort(names)
	return names
}

// await lets the cloud settle until ok returns true.
func (s *suite) await(what string, ok func() bool) {
	s.Helper()
	for !ok() {
		if s.ctx.Err() != nil {
			s.Fatalf("timed out waiting for %s", what)
		}
		s.Settle(s.ctx)
	}
}

// bought checks that one place, or batch, exists, and that a number of runs were accepted.
func (s *suite) bought(runs int) {
	s.Helper()
	if n, err := s.Left(s.ctx); err != nil || n != 1 {
		s.Errorf("%d places exist, %v", n, err)
	}
	s.accepted(runs)
}

// accepted checks that at most one place was ever made, and that a number of runs were accepted.
func (s *suite) accepted(runs int) {
	s.Helper()
	if n := s.Made(); n > 1 {
		s.Errorf("%d places were made", n)
	}
	if n := s.Runs(); n != runs {
		s.Errorf("%d runs were accepted, want %d", n, runs)
	}
}

func runs(s *suite) {
	p := s.create(s.spec("a"))
	p, run := s.wait(p, s.submit(p, s.App("r", Prints)))
	if run.State != service.Succeeded || p.State == service.Ended {
		s.Fatalf("run %+v in %+v", run, p)
	}
	log, err := s.Service().Log(s.ctx, p, run)
	if err != nil || !bytes.Contains(log.Stdout, []byte(Hello)) {
		s.Errorf("log %q, %q, %v", log.Stdout, log.Stderr, err)
	}
}

func share(s *suite) {
	p := s.create(s.spec("a"))
	first, second := s.submit(p, s.App("first", Prints)), s.submit(p, s.App("second", Prints))
	if first.ID == second.ID {
		s.Errorf("both runs are %s", first.ID)
	}
	for _, run := range []service.Run{first, second} {
		if _, run := s.wait(p, run); run.State != service.Succeeded {
			s.Errorf("%+v", run)
		}
	}
	if n := s.Runs(); n != 2 {
		s.Errorf("%d runs", n)
	}
}

func idempotent(s *suite) {
	spec := s.spec("a")
	first, second := s.create(spec), s.create(spec)
	if first.ID != second.ID {
		s.Errorf("first %s, then %s", first.ID, second.ID)
	}
	app := s.App("r", Prints)
	run, again := s.submit(first, app), s.submit(second, app)
	if run.ID != again.ID {
		s.Errorf("first run %s, then %s", run.ID, again.ID)
	}
	s.wait(first, run)
	if after := s.submit(first, app); after.ID != run.ID {
		s.Errorf("after its end it is %s, before it was %s", after.ID, run.ID)
	}
	s.bought(1)
}

func parallelCalls(s *suite) {
	spec := s.spec("a")
	places, runs := map[string]bool{}, map[string]bool{}
	var mu sync.Mutex
	parallel(4, func(int) {
		p, err := s.Service().Create(s.ctx, spec)
		if err != nil {
			s.Errorf("create: %v", err)
			return
		}
		mu.Lock()
		defer mu.Unlock()
		places[p.ID] = true
	})
	p := s.create(spec)
	app := s.App("r", Prints)
	s.submit(p, s.App("warm", Prints)) // the place accepts runs now
	parallel(4, func(int) {
		run, err := s.Service().Submit(s.ctx, p, app)
		if err != nil {
			s.Errorf("submit: %v", err)
			return
		}
		mu.Lock()
		defer mu.Unlock()
		runs[run.ID] = true
	})
	if len(places) != 1 || len(runs) != 1 {
		s.Errorf("places %v, runs %v", places, runs)
	}
	s.accepted(2)
}

func lostAnswers(s *suite) {
	spec := s.spec("a")
	s.LoseAnswer(Create)
	if _, err := s.Service().Create(s.ctx, spec); err != nil && cloud.KindOf(err) != cloud.Transient {
		s.Errorf("create without an answer: %v", err)
	}
	p := s.create(spec)
	app := s.App("r", Prints)
	s.submit(p, s.App("warm", Prints))
	s.LoseAnswer(Submit)
	if _, err := s.Service().Submit(s.ctx, p, app); err != nil && cloud.KindOf(err) != cloud.Transient {
		s.Errorf("submit without an answer: %v", err)
	}
	run := s.submit(p, app)
	if _, run := s.wait(p, run); run.State != service.Succeeded {
		s.Errorf("%+v", run)
	}
	s.accepted(2)
	s.LoseAnswer(End)
	if err := s.Service().End(s.ctx, p); err != nil && cloud.KindOf(err) != cloud.Transient {
		s.Errorf("end without an answer: %v", err)
	}
}

// A broker that crashed knows the names of its places and runs, but not their IDs.
func restarted(s *suite) {
	spec := s.spec("a")
	app := s.App("r", Waits)
	run := s.submit(s.create(spec), app)
	s.waitRunning(at(spec), run)
	again := s.Restarted()
	s.await("the place in the list", func() bool { return slices.Equal(s.live(again), []string{spec.Name}) })
	p, err := again.Create(s.ctx, spec)
	if err != nil || p.Name != spec.Name {
		s.Fatalf("create again: %+v, %v", p, err)
	}
	p, same, err := again.Watch(s.ctx, at(spec), service.Run{Name: app.Name})
	if err != nil || same.ID != run.ID || same.State != service.Running || p.State == service.Ended {
		s.Errorf("found %+v in %+v, want %+v: %v", same, p, run, err)
	}
	if _, err := again.Log(s.ctx, at(spec), service.Run{Name: app.Name}); err != nil {
		s.Errorf("log: %v", err)
	}
	if same, err = again.Submit(s.ctx, at(spec), app); err != nil || same.ID != run.ID {
		s.Errorf("submitted again: %+v, %v", same, err)
	}
	s.bought(1)
	if err := again.Cancel(s.ctx, at(spec), service.Run{Name: app.Name}); err != nil {
		s.Errorf("cancel: %v", err)
	}
	if _, run = s.wait(at(spec), service.Run{Name: app.Name}); run.State != service.Cancelled {
		s.Errorf("%+v", run)
	}
	s.await("the end of the place", func() bool {
		if err := again.End(s.ctx, at(spec)); err != nil {
			s.Fatal(err)
		}
		return len(s.live(again)) == 0
	})
}

func cancel(s *suite) {
	p := s.create(s.spec("a"))
	run := s.submit(p, s.App("r", Waits))
	s.waitRunning(p, run)
	for range 2 {
		if err := s.Service().Cancel(s.ctx, p, run); err != nil {
			s.Errorf("cancel: %v", err)
		}
	}
	if _, run = s.wait(p, run); run.State != service.Cancelled {
		s.Errorf("%+v", run)
	}
	if err := s.Service().Cancel(s.ctx, p, run); err != nil {
		s.Errorf("cancel of an ended run: %v", err)
	}
	if err := s.Service().Cancel(s.ctx, p, service.Run{Name: "never"}); err != nil {
		s.Errorf("cancel of a run that does not exist: %v", err)
	}
	if _, next := s.wait(p, s.submit(p, s.App("next", Prints))); next.State != service.Succeeded {
		s.Errorf("after a cancelled run: %+v", next)
	}
}

func end(s *suite) {
	never := s.spec("never")
	if err := s.Service().End(s.ctx, at(never)); err != nil {
		s.Errorf("end of a place that does not exist: %v", err)
	}
	spec := s.spec("a")
	p := s.create(spec)
	s.wait(p, s.submit(p, s.App("r", Prints)))
	parallel(3, func(int) {
		if err := s.Service().End(s.ctx, p); err != nil {
			s.Errorf("end: %v", err)
		}
	})
	s.cleanup()
	for _, dead := range []service.Spec{spec, never} {
		if p, err := s.Service().Create(s.ctx, dead); err == nil || cloud.KindOf(err) != cloud.Invalid {
			s.Errorf("created %+v after its end: %v", p, err)
		}
		if run, err := s.Service().Submit(s.ctx, at(dead), s.App("late", Prints)); !service.IsEnded(err) {
			s.Errorf("submitted %+v after the end of its place: %v", run, err)
		}
	}
	if n := s.Runs(); n != 1 {
		s.Errorf("%d runs", n)
	}
}

func endStopsRuns(s *suite) {
	spec := s.spec("a")
	p := s.create(spec)
	s.waitRunning(p, s.submit(p, s.App("r", Waits)))
	s.submit(p, s.App("second", Waits))
	s.cleanup()
	place, run, err := s.Service().Watch(s.ctx, p, service.Run{Name: "r"})
	if err != nil || place.State != service.Ended || run.State != service.Cancelled && run.State != service.Lost {
		s.Errorf("%+v in %+v, %v", run, place, err)
	}
}

func failedApplication(s *suite) {
	p := s.create(s.spec("a"))
	p, run := s.wait(p, s.submit(p, s.App("r", Fails)))
	if run.State != service.Failed || run.Message == "" || p.State == service.Ended {
		s.Fatalf("%+v in %+v", run, p)
	}
	log, err := s.Service().Log(s.ctx, p, run)
	if err != nil || !bytes.Contains(append(log.Stdout, log.Stderr...), []byte(Trouble)) {
		s.Errorf("log %q, %q, %v", log.Stdout, log.Stderr, err)
	}
	if _, next := s.wait(p, s.submit(p, s.App("next", Prints))); next.State != service.Succeeded {
		s.Errorf("after a failed run: %+v", next)
	}
	there, _, err := s.Service().Watch(s.ctx, p, service.Run{Name: "never"})
	if cloud.KindOf(err) != cloud.Invalid || there.Name != p.Name || there.State != service.Ready {
		s.Errorf("watch of a run that does not exist: %+v, %v", there, err)
	}
}

func lostPlace(s *suite) {
	spec := s.spec("a")
	p := s.create(spec)
	run := s.submit(p, s.App("r", Waits))
	s.waitRunning(p, run)
	if !s.Kill(spec.Name) {
		s.Skip("the cloud loses no places")
	}
	p, run = s.wait(p, run)
	if run.State != service.Lost || p.Why == nil || p.State != service.Ended && p.State != service.Ending {
		s.Errorf("%+v in %+v", run, p)
	}
	if why := s.ended(p); why == nil {
		s.Error("the place ended without a reason")
	}
	if _, err := s.Service().Submit(s.ctx, p, s.App("next", Prints)); !service.IsEnded(err) {
		s.Errorf("submitted to a lost place: %v", err)
	}
	if _, err := s.Service().Create(s.ctx, spec); !service.IsEnded(err) {
		s.Errorf("made a lost place again: %v", err)
	}
	q := s.create(s.spec("b"))
	if _, next := s.wait(q, s.submit(q, s.App("r", Prints))); next.State != service.Succeeded {
		s.Errorf("in another place: %+v", next)
	}
}

func lateFailures(s *suite) {
	for _, want := range []*cloud.Error{
		{Kind: cloud.Capacity, Message: "none left"}, {Kind: cloud.Quota, Message: "too many"},
	} {
		if !s.FailLate(want) {
			s.Skip("the cloud has no late failures")
		}
		p := s.create(s.spec(string(want.Kind)))
		if why := s.ended(p); why == nil || why.Kind != want.Kind || why.Message == "" {
			s.Errorf("want %+v\n got %+v", want, why)
		}
		if _, err := s.Service().Submit(s.ctx, p, s.App("r", Prints)); !service.IsEnded(err) {
			s.Errorf("submitted to a place that was never ready: %v", err)
		}
	}
}

// kinds are the failures of a call. Their codes are those of this suite; a harness replaces them with the cloud's.
var kinds = []*cloud.Error{
	{Kind: cloud.Capacity, Code: "no-capacity", Message: "none left"},
	{Kind: cloud.Quota, Code: "quota", Message: "too many"},
	{Kind: cloud.Auth, Code: "denied", Message: "who are you"},
	{Kind: cloud.Throttled, Code: "slow", Message: "slow down", RetryAfter: 3 * time.Second},
	{Kind: cloud.Transient, Code: "oops", Message: "again please"},
	{Kind: cloud.Invalid, Code: "bad", Message: "no such thing"},
}

func refusals(s *suite) {
	check := func(call Call, want *cloud.Error, err error) {
		s.Helper()
		var typed *cloud.Error
		if !errors.As(err, &typed) || typed.Kind != want.Kind || typed.Message == "" {
			s.Errorf("%s: want %+v\n got %+v", call, want, err)
			return
		}
		if want.RetryAfter > 0 && typed.RetryAfter <= 0 {
			s.Errorf("%s: RetryAfter got lost", call)
		}
	}
	for _, want := range kinds {
		if s.Fail(Create, want) {
			_, err := s.Service().Create(s.ctx, s.spec(string(want.Kind)))
			check(Create, want, err)
		}
	}
	p := s.create(s.spec("a"))
	s.wait(p, s.submit(p, s.App("warm", Prints)))
	for _, want := range kinds {
		if s.Fail(Submit, want) {
			_, err := s.Service().Submit(s.ctx, p, s.App("r-"+string(want.Kind), Prints))
			check(Submit, want, err)
		}
	}
	s.bought(1)
}

func throttled(s *suite) {
	slow := &cloud.Error{Kind: cloud.Throttled, Code: "slow", Message: "slow down"}
	spec, app := s.spec("a"), s.App("r", Prints)
	if s.Fail(Create, slow) {
		if _, err := s.Service().Create(s.ctx, spec); err == nil {
			s.Error("the call did not fail")
		}
	}
	p := s.create(spec)
	s.submit(p, s.App("warm", Prints))
	if s.Fail(Submit, slow) {
		if _, err := s.Service().Submit(s.ctx, p, app); err == nil {
			s.Error("the call did not fail")
		}
	}
	if _, run := s.wait(p, s.submit(p, app)); run.State != service.Succeeded {
		s.Errorf("%+v", run)
	}
	s.accepted(2)
}

func nonsense(s *suite) {
	for name, spoil := range map[string]func(*service.Spec){
		"no name":      func(p *service.Spec) { p.Name = "" },
		"a long name":  func(p *service.Spec) { p.Name += "-and-a-name-that-is-much-too-long-for-a-cluster" },
		"no release":   func(p *service.Spec) { p.Release = "" },
		"no executors": func(p *service.Spec) { p.Executors = service.Executors{} },
		"no logs":      func(p *service.Spec) { p.Logs = "" },
		"other logs":   func(p *service.Spec) { p.Logs = "http://bucket/" },
	} {
		spec := s.spec("a")
		spoil(&spec)
		if _, err := s.Service().Create(s.ctx, spec); err == nil || cloud.KindOf(err) != cloud.Invalid {
			s.Errorf("%s: %v", name, err)
		}
	}
	p := s.create(s.spec("b"))
	for name, spoil := range map[string]func(*service.App){
		"no name":       func(a *service.App) { a.Name = "" },
		"a local file":  func(a *service.App) { a.Main = "/tmp/main.py" },
		"another store": func(a *service.App) { a.Jars = []string{"http://example.com/a.jar"} },
		"no executors":  func(a *service.App) { a.Executors.Min = 0 },
	} {
		app := s.App("r", Prints)
		spoil(&app)
		if _, err := s.Service().Submit(s.ctx, p, app); err == nil || cloud.KindOf(err) != cloud.Invalid {
			s.Errorf("%s: %v", name, err)
		}
	}
	if n := s.Runs(); n != 0 {
		s.Errorf("%d runs", n)
	}
}

func endedContext(s *suite) {
	p := s.create(s.spec("a"))
	ctx, stop := context.WithCancel(s.ctx)
	stop()
	if _, err := s.Service().Submit(ctx, p, s.App("r", Prints)); err == nil || cloud.KindOf(err) != cloud.Transient {
		s.Errorf("submit: %v", err)
	}
	if _, err := s.Service().Places(ctx); err == nil || cloud.KindOf(err) != cloud.Transient {
		s.Errorf("places: %v", err)
	}
}

func deployments(s *suite) {
	p := s.create(s.spec("a"))
	run := s.submit(p, s.App("r", Waits))
	s.waitRunning(p, run)
	other := s.Sibling()
	if got := s.live(other); len(got) != 0 {
		s.Errorf("another deployment lists %v", got)
	}
	if err := other.End(s.ctx, service.Place{Name: p.Name, Region: p.Region}); err != nil {
		s.Errorf("end by another deployment: %v", err)
	}
	s.waitRunning(p, run)
	s.await("the place in the list", func() bool { return slices.Equal(s.live(s.Service()), []string{p.Name}) })
}

// parallel calls f for 0 … n-1 in parallel.
func parallel(n int, f func(int)) {
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { f(i) })
	}
	wg.Wait()
}
