// Package cloudtest is the conformance suite of cloud.Cloud, modelled on go-cloud's drivertest: a driver implements
// Harness and calls Run in one of its tests. The suite buys machines, so against a real cloud it costs money.
//
// It checks the guarantees on which the broker relies: launches are idempotent and start all machines or none, a
// terminated cluster stays terminated, failures have a kind, and all of this holds under concurrency.
package cloudtest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
)

// Harness is the cloud under test with the controls that the suite needs. Each test gets its own harness.
type Harness interface {
	// Cloud returns the driver, always the same one.
	Cloud() cloud.Cloud
	// Offer returns an available offer, the cheapest one.
	Offer() apitypes.Offer
	// Bootstrap is for agents, which need not reach a broker.
	Bootstrap(cluster string, nodes int) cloud.Bootstrap
	// Fail makes the next launch of an offer fail as the cloud fails with err: the driver must turn that into an error
	// with err's kind and code. It returns false if the harness cannot make the cloud fail so.
	Fail(offer apitypes.Offer, err *cloud.Error) bool
	// Settle waits until an eventually consistent cloud has caught up, or advances its simulated time.
	Settle(ctx context.Context)
	// Left returns how many machines really exist at the cloud, independently of the driver.
	Left(ctx context.Context) (int, error)
	// Close frees the resources of the harness.
	Close()
}

// Maker makes a harness for an account without machines.
type Maker func(ctx context.Context, t *testing.T) (Harness, error)

// patience limits the wait for a cloud to become consistent.
const patience = 5 * time.Minute

// Run runs the suite.
func Run(t *testing.T, mk Maker) {
	for name, test := range map[string]func(*suite){
		"LaunchReturnsEveryRankOnce":           launchGivesEveryRankOnce,
		"LaunchIsIdempotent":                   launchIsIdempotent,
		"ParallelLaunchesBuyOnce":              launchInParallelBuysOnce,
		"ClustersAreSeparate":                  clustersAreApart,
		"TerminateEndsEveryMachine":            terminateEndsEveryMachine,
		"TerminateIsIdempotent":                terminateIsIdempotent,
		"TerminatedClusterStaysTerminated":     terminatedIsTerminated,
		"LaunchDuringTerminate":                launchAndTerminateMeet,
		"FailuresHaveAKindAndBuyNothing":       failuresAreTypedAndBuyNothing,
		"FailedLaunchCanBeRetried":             aFailedLaunchCanBeTriedAgain,
		"InvalidSpecsAreInvalid":               nonsenseIsInvalid,
		"EndedContextEndsTheCall":              anEndedContextEndsTheCall,
		"UnknownClusterHasNoMachines":          machinesOfAnUnknownClusterAreNone,
		"ManyParallelClustersLeaveNothing":     manyClustersInParallelLeaveNothing,
		"LateFailuresHaveAKindAndLeaveNothing": lateFailuresAreTypedAndLeaveNothing,
		"LostAnswerBuysOnce":                   aLostAnswerBuysOnce,
		"DeploymentsAreSeparate":               deploymentsAreApart,
		"ReservedCapacityIsUsed":               whatIsReservedIsUsed,
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			h, err := mk(ctx, t)
			if err != nil {
				t.Fatal(err)
			}
			defer h.Close()
			s := &suite{T: t, Harness: h, ctx: ctx, prefix: fmt.Sprintf("cloudtest-%d", time.Now().UnixNano())}
			defer s.cleanup()
			test(s)
		})
	}
}

// suite is the state of one test of the suite.
type suite struct {
	*testing.T
	Harness
	ctx    context.Context
	prefix string // distinguishes cluster names from those of earlier runs

	mu       sync.Mutex
	clusters map[string]bool
}

// name returns a cluster's full name and marks the cluster for the cleanup after the test.
func (s *suite) name(short string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.clusters == nil {
		s.clusters = map[string]bool{}
	}
	full := s.prefix + "-" + short
	s.clusters[full] = true
	return full
}

func (s *suite) cleanup() {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(s.ctx), patience)
	defer cancel()
	for name := range s.clusters {
		if err := s.Cloud().Terminate(ctx, name); err != nil {
			s.Errorf("clean up %s: %v", name, err)
		}
	}
}

func (s *suite) spec(short string, nodes int) cloud.LaunchSpec {
	name := s.name(short)
	return cloud.LaunchSpec{
		Cluster: name, Offer: s.Offer(), Nodes: nodes, Bootstrap: s.Bootstrap(name, nodes),
		Labels: map[string]string{"job": "cloudtest", "task": short},
	}
}

func (s *suite) launch(spec cloud.LaunchSpec) []cloud.Machine {
	s.Helper()
	machines, err := s.Cloud().Launch(s.ctx, spec)
	if err != nil {
		s.Fatalf("launch %s: %v", spec.Cluster, err)
	}
	return machines
}

func (s *suite) terminate(cluster string) {
	s.Helper()
	if err := s.Cloud().Terminate(s.ctx, cluster); err != nil {
		s.Fatalf("terminate %s: %v", cluster, err)
	}
}

// live lists the machines that are neither terminated nor terminating.
func (s *suite) live(cluster string) []cloud.Machine {
	s.Helper()
	machines, err := s.Cloud().Machines(s.ctx, cluster)
	if err != nil {
		s.Fatalf("machines of %q: %v", cluster, err)
	}
	return slices.DeleteFunc(machines, func(m cloud.Machine) bool {
		return m.State == cloud.Terminated || m.State == cloud.Terminating
	})
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

// empty waits until no machine is listed, and none really exists.
func (s *suite) empty() {
	s.Helper()
	s.await("an empty list", func() bool { return len(s.live("")) == 0 })
	s.await("an empty account", func() bool {
		n, err := s.Left(s.ctx)
		if err != nil {
			s.Fatal(err)
		}
		return n == 0
	})
	littered, ok := s.Harness.(Littered)
	if !ok {
		return
	}
	s.await("an account without leftovers", func() bool {
		left, err := littered.Leftovers(s.ctx)
		if err != nil {
			s.Fatal(err)
		}
		return len(left) == 0
	})
}

func ids(machines []cloud.Machine) []string {
	var out []string
	for _, m := range machines {
		out = append(out, m.ID)
	}
	slices.Sort(out)
	return out
}

func launchGivesEveryRankOnce(s *suite) {
	spec := s.spec("a", 3)
	machines := s.launch(spec)
	seen := map[int]string{}
	for _, m := range machines {
		if m.Cluster != spec.Cluster || m.ID == "" || seen[m.Rank] != "" || m.Rank < 0 || m.Rank >= 3 {
			s.Errorf("machine %+v", m)
		}
		if m.Offer.InstanceType != spec.Offer.InstanceType || m.Offer.Spot != spec.Offer.Spot {
			s.Errorf("machine from another offer: %+v", m.Offer)
		}
		if m.Launched.IsZero() {
			s.Errorf("machine %s has no launch time", m.ID)
		}
		seen[m.Rank] = m.ID
	}
	if len(machines) != 3 || len(slices.Compact(ids(machines))) != 3 {
		s.Fatalf("%d machines: %v", len(machines), ids(machines))
	}
	s.await("the machines in the list", func() bool { return slices.Equal(ids(s.live(spec.Cluster)), ids(machines)) })
	for _, m := range s.live(spec.Cluster) {
		if m.Rank < 0 || m.Rank > 2 || seen[m.Rank] != m.ID {
			s.Errorf("listed as rank %d: %s, launched: %s", m.Rank, m.ID, seen[m.Rank])
		}
	}
}

func launchIsIdempotent(s *suite) {
	spec := s.spec("a", 2)
	first, second := s.launch(spec), s.launch(spec)
	if !slices.Equal(ids(first), ids(second)) {
		s.Errorf("first %v, then %v", ids(first), ids(second))
	}
	s.await("both machines", func() bool { return len(s.live("")) == 2 })
	if n, err := s.Left(s.ctx); err != nil || n != 2 {
		s.Errorf("%d machines exist, %v", n, err)
	}
}

func launchInParallelBuysOnce(s *suite) {
	spec := s.spec("a", 2)
	const callers = 4
	got := make([][]cloud.Machine, callers)
	errs := make([]error, callers)
	parallel(callers, func(i int) { got[i], errs[i] = s.Cloud().Launch(s.ctx, spec) })
	won := s.launch(spec) // even if some of those launches failed, this one returns the machines
	for i := range callers {
		if errs[i] == nil && !slices.Equal(ids(got[i]), ids(won)) {
			s.Errorf("caller %d got %v, the cluster is %v", i, ids(got[i]), ids(won))
		}
		if errs[i] != nil && cloud.KindOf(errs[i]) == cloud.Invalid {
			s.Errorf("caller %d: %v", i, errs[i])
		}
	}
	if n, err := s.Left(s.ctx); err != nil || n != 2 {
		s.Errorf("%d machines exist, %v", n, err)
	}
}

func clustersAreApart(s *suite) {
	a, b := s.launch(s.spec("a", 1)), s.launch(s.spec("b", 2))
	s.await("all machines", func() bool { return len(s.live("")) == 3 })
	if got := ids(s.live(a[0].Cluster)); !slices.Equal(got, ids(a)) {
		s.Errorf("cluster a lists %v, launched %v", got, ids(a))
	}
	s.terminate(a[0].Cluster)
	s.await("cluster a gone", func() bool { return len(s.live(a[0].Cluster)) == 0 })
	if got := ids(s.live("")); !slices.Equal(got, ids(b)) {
		s.Errorf("after a is gone: %v, want %v", got, ids(b))
	}
}

func terminateEndsEveryMachine(s *suite) {
	spec := s.spec("a", 3)
	s.launch(spec)
	s.terminate(spec.Cluster)
	s.empty()
}

func terminateIsIdempotent(s *suite) {
	spec := s.spec("a", 1)
	s.terminate(spec.Cluster + "-never-launched")
	s.launch(spec)
	parallel(3, func(int) {
		if err := s.Cloud().Terminate(s.ctx, spec.Cluster); err != nil {
			s.Errorf("terminate: %v", err)
		}
	})
	s.terminate(spec.Cluster)
	s.empty()
}

func terminatedIsTerminated(s *suite) {
	spec := s.spec("a", 1)
	s.launch(spec)
	s.terminate(spec.Cluster)
	if _, err := s.Cloud().Launch(s.ctx, spec); err != nil && cloud.KindOf(err) != cloud.Invalid {
		s.Errorf("launch after terminate: kind %s, want invalid: %v", cloud.KindOf(err), err)
	} else if err == nil { // allowed, if the next reconcile ends its machines
		s.terminate(spec.Cluster)
	}
	s.empty()
	never := s.spec("never", 1)
	s.terminate(never.Cluster)
	if _, err := s.Cloud().Launch(s.ctx, never); err == nil {
		s.terminate(never.Cluster)
	}
	s.empty()
}

func launchAndTerminateMeet(s *suite) {
	for i := range 5 {
		spec := s.spec(fmt.Sprint("a", i), 2)
		parallel(2, func(who int) {
			if who == 0 {
				_, _ = s.Cloud().Launch(s.ctx, spec)
			} else if err := s.Cloud().Terminate(s.ctx, spec.Cluster); err != nil {
				s.Errorf("terminate: %v", err)
			}
		})
		// Launch and terminate run at the same time. When both have returned, and terminate last, no machine exists.
		s.terminate(spec.Cluster)
	}
	s.empty()
}

func failuresAreTypedAndBuyNothing(s *suite) {
	for _, want := range []*cloud.Error{
		{Kind: cloud.Capacity, Code: "no-capacity", Message: "none left"},
		{Kind: cloud.Quota, Code: "quota", Message: "too many"}, {Kind: cloud.Auth, Code: "denied",
			Message: "who are you"},
		{Kind: cloud.Throttled, Code: "slow", Message: "slow down", RetryAfter: 3 * time.Second},
		{Kind: cloud.Transient, Code: "oops", Message: "again please"},
		{Kind: cloud.Invalid, Code: "bad", Message: "no such thing"},
	} {
		if !s.Fail(s.Offer(), want) {
			s.Logf("the cloud cannot be made to fail with %s", want.Kind)
			continue
		}
		spec := s.spec(string(want.Kind), 2)
		machines, err := s.Cloud().Launch(s.ctx, spec)
		var typed *cloud.Error
		if !errors.As(err, &typed) {
			s.Errorf("%s: got %v and machines %v", want.Kind, err, ids(machines))
			continue
		}
		if typed.Kind != want.Kind || typed.Cloud != s.Cloud().Name() || typed.Message == "" {
			s.Errorf("want %+v\n got %+v", want, typed)
		}
		if want.RetryAfter > 0 && typed.RetryAfter <= 0 {
			s.Errorf("%s: RetryAfter got lost", want.Kind)
		}
		s.terminate(spec.Cluster) // machines may exist after an error; terminating must be enough
	}
	s.empty()
}

func aFailedLaunchCanBeTriedAgain(s *suite) {
	if !s.Fail(s.Offer(), &cloud.Error{Kind: cloud.Throttled, Code: "slow", Message: "slow down"}) {
		s.Skip("the cloud cannot be made to fail")
	}
	spec := s.spec("a", 2)
	if _, err := s.Cloud().Launch(s.ctx, spec); err == nil {
		s.Fatal("the launch did not fail")
	}
	if got := s.launch(spec); len(got) != 2 {
		s.Errorf("the second launch returned %v", ids(got))
	}
	if n, err := s.Left(s.ctx); err != nil || n != 2 {
		s.Errorf("%d machines exist, %v", n, err)
	}
}

func nonsenseIsInvalid(s *suite) {
	for name, spoil := range map[string]func(*cloud.LaunchSpec){
		"no name":     func(l *cloud.LaunchSpec) { l.Cluster = "" },
		"no machines": func(l *cloud.LaunchSpec) { l.Nodes, l.Bootstrap.Tokens = 0, nil },
		"few tokens":  func(l *cloud.LaunchSpec) { l.Bootstrap.Tokens = l.Bootstrap.Tokens[:1] },
		"other cloud": func(l *cloud.LaunchSpec) { l.Offer.Cloud = "no-such-cloud" },
	} {
		spec := s.spec("a", 2)
		spoil(&spec)
		if _, err := s.Cloud().Launch(s.ctx, spec); err == nil || cloud.KindOf(err) != cloud.Invalid {
			s.Errorf("%s: %v", name, err)
		}
	}
	s.empty()
}

func anEndedContextEndsTheCall(s *suite) {
	ctx, cancel := context.WithCancel(s.ctx)
	cancel()
	spec := s.spec("a", 1)
	if _, err := s.Cloud().Launch(ctx, spec); err == nil {
		s.Error("launch succeeded")
	} else if k := cloud.KindOf(err); k != cloud.Transient {
		s.Errorf("launch: kind %s: %v", k, err)
	}
	if _, err := s.Cloud().Machines(ctx, ""); err == nil {
		s.Error("machines succeeded")
	}
	s.terminate(spec.Cluster)
	s.empty()
}

func machinesOfAnUnknownClusterAreNone(s *suite) {
	s.launch(s.spec("a", 1))
	if got := s.live(s.prefix + "-other"); len(got) != 0 {
		s.Errorf("%v", ids(got))
	}
}

func manyClustersInParallelLeaveNothing(s *suite) {
	parallel(6, func(i int) {
		spec := s.spec(fmt.Sprint("c", i), 1+i%2)
		if machines, err := s.Cloud().Launch(s.ctx, spec); err != nil || len(machines) != spec.Nodes {
			s.Errorf("%s: %d machines, %v", spec.Cluster, len(machines), err)
		}
		if _, err := s.Cloud().Machines(s.ctx, ""); err != nil {
			s.Errorf("machines: %v", err)
		}
		if err := s.Cloud().Terminate(s.ctx, spec.Cluster); err != nil {
			s.Errorf("terminate %s: %v", spec.Cluster, err)
		}
	})
	s.empty()
}

// parallel calls f for 0 … n-1 in parallel.
func parallel(n int, f func(int)) {
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { f(i) })
	}
	wg.Wait()
}
