// Package cloud is the port through which the broker buys machines: launch a
// cluster whole or not at all, terminate it, list what is ours. Failure is
// typed here, at the edge, so that failover never parses a message.
//
// Each cloud is a sub-package; cloudtest is the conformance suite that every
// one passes. This package knows nothing of jobs, plans or prices over time.
package cloud

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tradewind-broker/tradewind/pkg/apitypes"
)

// Kind is the type of a failure; it decides what failover does.
type Kind string

// The kinds of failure, with what the broker does about each.
const (
	Capacity  Kind = "capacity"  // block the zone and machine type for a time
	Quota     Kind = "quota"     // block the region and machine family
	Auth      Kind = "auth"      // block the cloud
	Throttled Kind = "throttled" // back off, try the same again
	Transient Kind = "transient" // back off, try the same again
	Invalid   Kind = "invalid"   // fail the task with the cloud's own words
)

// Error is a failure of a cloud, typed.
type Error struct {
	Kind       Kind
	Cloud      string
	Code       string        // the cloud's own code: "InsufficientInstanceCapacity"
	Message    string        // the cloud's own words
	RetryAfter time.Duration // when the cloud said so; 0 is unknown
	// AskAgain is for how long the place is left alone the first time, where asking again costs nothing: a driver that
	// watches a cluster knows whether it is full. 0 leaves it to the broker.
	AskAgain time.Duration
	// Late is how many machines had been made when the launch failed, whatever has been undone of them: they may be
	// there, and they are billed. A failure of kind Transient or Throttled may always hide some.
	Late int
	Err  error // the cause, when there is one
}

func (e *Error) Error() string {
	s := e.Cloud + ": " + string(e.Kind)
	if e.Code != "" {
		s += " (" + e.Code + ")"
	}
	if e.Message != "" {
		s += ": " + e.Message
	}
	return s
}

func (e *Error) Unwrap() error { return e.Err }

// KindOf returns the kind of err: of the *Error it wraps, or Transient for any other,
// because what nobody typed is best tried again.
func KindOf(err error) Kind {
	var e *Error
	if errors.As(err, &e) {
		return e.Kind
	}
	return Transient
}

// Late is how many machines are known to have been made by a launch that failed with err.
func Late(err error) int {
	var e *Error
	if errors.As(err, &e) {
		return e.Late
	}
	return 0
}

// Hidden says whether a launch that failed with err may have made machines.
func Hidden(err error) bool {
	kind := KindOf(err)
	return Late(err) > 0 || kind == Transient || kind == Throttled
}

// Errorf makes an Error of a kind with a message.
func Errorf(cloud string, kind Kind, code, format string, args ...any) *Error {
	return &Error{Kind: kind, Cloud: cloud, Code: code, Message: fmt.Sprintf(format, args...)}
}

// DefaultDiskGiB is the root disk of a machine that asks for none.
const DefaultDiskGiB = 30

// LaunchSpec asks for a cluster: Nodes machines of one offer.
type LaunchSpec struct {
	// Cluster names the cluster and is the idempotency token: a second launch with the same name returns the machines
	// of the first and buys nothing.
	Cluster string
	Offer   apitypes.Offer
	Nodes   int
	// MaxUSDPerHour is the bid of one spot machine; 0 bids the on-demand price.
	MaxUSDPerHour float64
	DiskGiB       float64 // 0 is no matter
	Image         string  // that machines boot from; empty is the driver's default
	// Container is the container image that the task's scripts run in; empty is none. Where machines are containers
	// themselves the machine is made of it, elsewhere its agent sees to it.
	Container string
	Bootstrap Bootstrap
	// Labels are attached to the machines as tags: job, task, queue.
	Labels map[string]string
	// Rules are where the machines stand to each other and to those of other launches, for drivers whose machines are
	// given their places after they are asked for. Machines that are bought stand alone, in the offer's zone: nothing
	// is to be done about rules there. KnownBy are the labels by which rules of other launches know the machines.
	Rules   []Rule
	KnownBy map[string]string
}

// ImageFault is the kind of an error of a launch's image: the fault of a task that names it. One that the deployment
// names for a class of machines is no fault of the task, and others may have theirs.
func (s LaunchSpec) ImageFault() Kind {
	if s.Image != "" {
		return Invalid
	}
	return Quota
}

// Rule is where machines stand: one of Spread, Pack and Apart is set. Levels are zone, rack and machine.
type Rule struct {
	// Group names the launches whose machines a rule that spreads or packs is about, this one's among them.
	Group  string
	Spread string // at most Most of the machines are in one of these
	Most   int
	Pack   string // all of the machines are in the same one
	// Apart are labels: of machines of other jobs that are known by one of them, none is in the same By.
	Apart map[string]string
	By    string
}

// Bootstrap is what an agent needs to dial home. Tokens has one job-scoped, expiring token a node, by
// rank; it is the only secret a machine is given. Any is one for all of them, which say their ranks themselves, where
// there is no room for so many.
type Bootstrap struct {
	Endpoint string
	Tokens   []string
	Any      string
}

// State of a machine.
type State string

// The states of a machine. A terminated machine may disappear from lists.
const (
	Pending     State = "pending"
	Running     State = "running"
	Terminating State = "terminating"
	Terminated  State = "terminated"
)

// Machine is one machine that this deployment owns.
type Machine struct {
	ID       string // the cloud's own
	Cluster  string
	Rank     int    // 0 … Nodes-1
	Account  string // account, project or subscription that it is of; empty where the cloud has none, or has not said
	State    State
	Offer    apitypes.Offer
	Launched time.Time
	// Reason a machine ended without being asked to: "spot-interruption".
	Reason string
}

// Notice is a cloud's warning that it will take machines away, or that it did.
type Notice struct {
	Cluster string
	Machine string
	Kind    NoticeKind
	At      time.Time // when the machine will be, or was, taken
}

// NoticeKind tells a warning from a fact.
type NoticeKind string

// The kinds of notice.
const (
	Interruption NoticeKind = "interruption" // will be taken at At (AWS: two minutes ahead)
	Rebalance    NoticeKind = "rebalance"    // likely to be taken; advice only
	Taken        NoticeKind = "taken"        // gone
)

// Cloud buys and frees machines. All methods are safe for concurrent use.
type Cloud interface {
	// Name is the catalogue's name of the cloud: aws, gcp, azure, lambda.
	Name() string
	// Launch starts all machines of a cluster or none, idempotently by spec.Cluster. When it returns an error, machines
	// may yet exist (a time-out hides the answer): the caller launches again with the same cluster, or terminates it.
	// Errors are *Error.
	Launch(ctx context.Context, spec LaunchSpec) ([]Machine, error)
	// Terminate ends every machine of a cluster. It is idempotent; a cluster that does not exist is not an error,
	// and a launch with its name after Terminate returned must fail with Invalid or start nothing that outlives the
	// next reconcile.
	Terminate(ctx context.Context, cluster string) error
	// Machines lists the machines of one cluster, or of the whole deployment when cluster is empty. Terminated ones may
	// be listed for a while. A machine just launched may be missing for a while (eventual consistency).
	Machines(ctx context.Context, cluster string) ([]Machine, error)
}
