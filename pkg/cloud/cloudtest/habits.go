package cloudtest

import (
	"context"
	"slices"

	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
)

// Optional abilities of a cloud or its harness. If a harness has one of these methods, the suite checks more.
type (
	// Late is a cloud that accepts a launch and fails it later, in an operation. FailLate makes the
	// next launch of an offer fail in this way, after some of its machines exist. The driver returns
	// their number with the error (cloud.Late). A cloud that makes no machine until it has capacity for
	// all is a Queue.
	Late interface {
		FailLate(offer apitypes.Offer, err *cloud.Error) bool
	}
	// Queue is a Late cloud whose launches wait, and make machines only when all are available.
	Queue interface {
		Queues() bool
	}
	// Lossy is a cloud that can carry out the next launch and lose the answer.
	Lossy interface {
		LoseAnswer() bool
	}
	// Littered is a cloud that can leave behind more than machines: Leftovers names the disks, addresses, interfaces
	// and groups that exist although no machine needs them.
	Littered interface {
		Leftovers(ctx context.Context) ([]string, error)
	}
	// Shared is an account that another deployment uses as well; Sibling returns that deployment's driver.
	Shared interface {
		Sibling() cloud.Cloud
	}
	// Reserving is a cloud whose account can have reserved capacity. Reserve reserves a number of on-demand machines
	// of the harness's offer, and returns the offer on that reservation. Unreserve removes the reservation. Beside
	// returns the number of existing machines that run at their list price, outside of the reservation.
	Reserving interface {
		Reserve(machines int) (offer apitypes.Offer, ok bool)
		Unreserve()
		Beside(ctx context.Context) (int, error)
	}
)

func whatIsReservedIsUsed(s *suite) {
	reserving, is := s.Harness.(Reserving)
	if !is {
		s.Skip("this cloud has no reserved capacity that a launch can name")
	}
	on, ok := reserving.Reserve(2)
	if !ok {
		s.Skip("this offer cannot be reserved")
	}
	beside := func(want int, when string) {
		s.Helper()
		if n, err := reserving.Beside(s.ctx); err != nil || n != want {
			s.Errorf("%s: %d machines outside the reservation, not %d: %v", when, n, want, err)
		}
	}
	reserved := func(short string, nodes int) cloud.LaunchSpec {
		spec := s.spec(short, nodes)
		spec.Offer = on
		return spec
	}
	spec := reserved("a", 2)
	s.launch(spec)
	s.launch(spec)
	if n := len(s.live(spec.Cluster)); n != 2 {
		s.Errorf("%d machines of 2 on the reservation", n)
	}
	beside(0, "exactly as many as are reserved")
	s.launch(s.spec("b", 1))
	beside(1, "one that was not planned there")
	// A cloud may sell a machine beyond the reservation at its list price, or refuse it. Tradewind's
	// driver counts machines and refuses it as transient, because the reservation soon has room again.
	full := reserved("c", 1)
	switch _, err := s.Cloud().Launch(s.ctx, full); {
	case err == nil:
		beside(2, "one beyond the reservation that is sold at its price")
	case cloud.KindOf(err) == cloud.Transient:
		beside(1, "one beyond the reservation that is refused")
	default:
		s.Errorf("one beyond the reservation is refused as %s: %v", cloud.KindOf(err), err)
	}
	for _, name := range []string{spec.Cluster, s.name("b"), full.Cluster} {
		s.terminate(name)
	}
	s.empty()
	again := reserved("d", 2)
	s.launch(again)
	beside(0, "after the earlier machines ended")
	s.terminate(again.Cluster)
	s.empty()
	reserving.Unreserve()
	if machines, err := s.Cloud().Launch(s.ctx, reserved("e", 2)); cloud.KindOf(err) != cloud.Capacity {
		s.Errorf("an offer on a removed reservation is refused as %s, with machines %v: %v", cloud.KindOf(err),
			ids(machines), err)
	}
	s.empty()
}

func lateFailuresAreTypedAndLeaveNothing(s *suite) {
	late, ok := s.Harness.(Late)
	if !ok {
		s.Skip("this cloud refuses launches at once")
	}
	queue, _ := s.Harness.(Queue)
	queues := queue != nil && queue.Queues()
	for _, kind := range []cloud.Kind{cloud.Capacity, cloud.Quota, cloud.Transient} {
		if !late.FailLate(s.Offer(), &cloud.Error{Kind: kind, Code: "late", Message: "on second thoughts"}) {
			s.Logf("the cloud cannot be made to fail late with %s", kind)
			continue
		}
		spec := s.spec("late-"+string(kind), 3)
		machines, err := s.Cloud().Launch(s.ctx, spec)
		if got := cloud.KindOf(err); err == nil || got != kind {
			s.Errorf("%s: kind %s, machines %v: %v", kind, got, ids(machines), err)
		}
		if made := cloud.Late(err); kind != cloud.Transient && (made < 1 && !queues || made > spec.Nodes) {
			s.Errorf("%s: the error reports %d of %d machines as made: %v", kind, made, spec.Nodes, err)
		}
		// All or nothing: the driver has ended the machines that the operation created before it failed, unless the
		// error means that the caller retries.
		if kind == cloud.Transient {
			s.terminate(spec.Cluster)
		}
		s.empty()
		if again, err := s.Cloud().Launch(s.ctx, s.spec("after-"+string(kind), 1)); err != nil || len(again) != 1 {
			s.Errorf("after a late %s: %v", kind, err)
		}
		s.terminate(s.prefix + "-after-" + string(kind))
	}
	s.empty()
}

func aLostAnswerBuysOnce(s *suite) {
	lossy, ok := s.Harness.(Lossy)
	if !ok || !lossy.LoseAnswer() {
		s.Skip("the cloud cannot be made to lose an answer")
	}
	spec := s.spec("a", 2)
	if _, err := s.Cloud().Launch(s.ctx, spec); err != nil && cloud.KindOf(err) != cloud.Transient {
		s.Errorf("a lost answer is transient: %v", err)
	}
	var again []cloud.Machine
	s.await("a launch that finds the machines", func() bool {
		var err error
		again, err = s.Cloud().Launch(s.ctx, spec)
		return err == nil
	})
	if n, err := s.Left(s.ctx); err != nil || n != 2 || len(again) != 2 {
		s.Errorf("launched %v, %d machines exist, %v", ids(again), n, err)
	}
	s.terminate(spec.Cluster)
	if lossy.LoseAnswer() {
		spec = s.spec("b", 2)
		_, _ = s.Cloud().Launch(s.ctx, spec) // the answer is lost
		s.terminate(spec.Cluster)
	}
	s.empty()
}

func deploymentsAreApart(s *suite) {
	shared, ok := s.Harness.(Shared)
	if !ok {
		s.Skip("no second deployment in this account")
	}
	other, spec := shared.Sibling(), s.spec("a", 2)
	mine := s.launch(spec)
	theirs, err := other.Launch(s.ctx, spec) // of the same name
	if err != nil {
		s.Fatalf("the other deployment: %v", err)
	}
	defer func() {
		if err := other.Terminate(context.WithoutCancel(s.ctx), spec.Cluster); err != nil {
			s.Errorf("the other deployment: %v", err)
		}
	}()
	for _, m := range theirs {
		if slices.Contains(ids(mine), m.ID) {
			s.Errorf("machine %s belongs to both", m.ID)
		}
	}
	s.await("only this deployment's machines", func() bool { return slices.Equal(ids(s.live("")), ids(mine)) })
	s.terminate(spec.Cluster)
	s.await("the end of this deployment's machines", func() bool { return len(s.live("")) == 0 })
	left, err := other.Machines(s.ctx, spec.Cluster)
	left = slices.DeleteFunc(left, func(m cloud.Machine) bool {
		return m.State != cloud.Pending && m.State != cloud.Running
	})
	if err != nil || !slices.Equal(ids(left), ids(theirs)) {
		s.Errorf("the other deployment had %v and has %v; %v", ids(theirs), ids(left), err)
	}
}
