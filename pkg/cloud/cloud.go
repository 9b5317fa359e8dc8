// Package cloud is the port through which the broker buys machines: launch a whole cluster or nothing, terminate it,
// and list the machines that the deployment owns. Errors carry a kind, set by the driver, so that failover never
// parses a message.
//
// Each cloud is a sub-package; cloudtest is the conformance suite that every driver passes. This package does not know
// jobs, plans or price histories.
package cloud

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tradewind-broker/tradewind/pkg/apitypes"
)

// Kind is the type of a failure; it decides the reaction of failover.
type Kind string

// The kinds of failure, and how the broker handles each.
const (
	Capacity  Kind = "capacity"  // block the zone and machine type for a time
	Quota     Kind = "quota"     // block the region and machine family
	Auth      Kind = "auth"      // block the cloud
	Throttled Kind = "throttled" // back off, try the same again
	Transient Kind = "transient" // back off, try the same again
	Invalid   Kind = "invalid"   // fail the task with the cloud's message
)

// Scope is the part of a cloud that a failure concerns.
type Scope string

// The scopes: a machine type in every region and market, or everything in a region. The zero value lets the kind
// decide.
const (
	ScopeType   Scope = "type"
	ScopeRegion Scope = "region"
)

// CodeNoCredentials is the code of a failure of kind Auth that means missing or invalid credentials. A missing right
// may still be propagating, but credentials do not appear without a user.
const CodeNoCredentials = "NoCredentials"

// Error is a cloud's failure with its kind.
type Error struct {
	Kind       Kind
	Cloud      string
	Code       string        // the cloud's own code: "InsufficientInstanceCapacity"
	Message    string        // the cloud's own message
	RetryAfter time.Duration // the wait that the cloud requested; 0 means unknown
	// RetryAfterFull is the time for which the broker skips this place after its first failure. A
	// driver sets it if a retry costs nothing, for example because it watches a cluster and knows
	// whether the cluster is full. 0 lets the broker decide.
	RetryAfterFull time.Duration
	// Scope is the scope of the failure, if it differs from the scope that its kind blocks.
	Scope Scope
	// Class is the exhausted quota, for a failure of kind Quota: a group of package quotas. Empty is the family of the
	// machine type.
	Class string
	// Late is the number of machines that had been created when the launch failed. They are billed, and
	// may still exist, even if the driver has ended them since. A failure of kind Transient or
	// Throttled may always hide machines.
	Late int
	Err  error // the cause; may be nil
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

// KindOf returns the kind of the *Error that err wraps. For any other error it returns Transient, because an error
// without a kind is best retried.
func KindOf(err error) Kind {
	var e *Error
	if errors.As(err, &e) {
		return e.Kind
	}
	return Transient
}

// Late returns how many machines are known to have been made by a launch that failed with err.
func Late(err error) int {
	var e *Error
	if errors.As(err, &e) {
		return e.Late
	}
	return 0
}

// MayHaveMachines reports whether a launch that failed with err may have made machines.
func MayHaveMachines(err error) bool {
	kind := KindOf(err)
	return Late(err) > 0 || kind == Transient || kind == Throttled
}

// Errorf makes an Error of a kind with a message.
func Errorf(cloud string, kind Kind, code, format string, args ...any) *Error {
	return &Error{Kind: kind, Cloud: cloud, Code: code, Message: fmt.Sprintf(format, args...)}
}

// OfRegion returns an error that concerns all machine types of its region, in both markets.
func OfRegion(err error) error {
	var e *Error
	if !errors.As(err, &e) {
		return err
	}
	again := *e
	again.Scope, again.Err = ScopeRegion, err
	return &again
}

// DefaultDiskGiB is the size of the root disk for a machine whose spec sets no size.
const DefaultDiskGiB = 30

// LaunchSpec describes the cluster to launch: Nodes machines of one offer.
type LaunchSpec struct {
	// Cluster names the cluster and is the idempotency token: a second launch with the same name returns the machines
	// of the first launch and buys nothing.
	Cluster string
	Offer   apitypes.Offer
	Nodes   int
	// MaxUSDPerHour is the bid of one spot machine; 0 bids the on-demand price.
	MaxUSDPerHour float64
	DiskGiB       float64 // 0 means any size
	Image         string  // boot image of the machines; empty is the driver's default
	// Container is the container image in which the task's scripts run; empty is none. If machines are containers, the
	// driver makes them from it; otherwise the agent starts it.
	Container string
	Bootstrap Bootstrap
	// Labels are attached to the machines as tags: job, task, queue.
	Labels map[string]string
	// Rules limit where the machines are placed relative to each other and to those of other launches.
	// They are for drivers that choose a place after the launch. Drivers of clouds ignore them: a
	// bought machine shares nothing and is in the offer's zone. KnownBy has the labels by which rules
	// of other launches find these machines.
	Rules   []Rule
	KnownBy map[string]string
}

// ImageFault is the kind of an error that the launch's image causes. If the task names the image,
// the task is at fault (Invalid). If the deployment names it for a class of machines, other classes
// may still work (Quota).
func (s LaunchSpec) ImageFault() Kind {
	if s.Image != "" {
		return Invalid
	}
	return Quota
}

// Rule limits the placement of machines: one of Spread, Pack and Apart is set. Levels are zone, rack and machine.
type Rule struct {
	// Group names the launches, including this one, whose machines count for a spread or pack rule.
	Group  string
	Spread string // level: at most Most of the machines are in one of these
	Most   int
	Pack   string // level: all machines are in the same one
	// Apart are labels. At the level By, no machine shares its place with a machine of another job that
	// has one of these labels.
	Apart map[string]string
	By    string
}

// Bootstrap is the data with which an agent reaches the broker. Tokens has one job-scoped, expiring
// token for each node, by rank. A token is the only secret that a machine gets. Any is one token
// for all nodes, for clouds whose user data have no room for one token each; the machines then
// report their ranks themselves.
//
// Mailbox is set if the broker has no address. An agent then exchanges messages with the broker
// through a bucket (package mailbox). Mailbox contains the key of these messages, and Programs has,
// by digest, the URLs from which the agent's programs are downloaded. A driver that cannot pass
// these on to its machines refuses the launch as Invalid.
type Bootstrap struct {
	Endpoint string
	Tokens   []string
	Any      string
	Mailbox  string
	Programs map[string]string
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
	ID       string // the cloud's ID
	Cluster  string
	Rank     int    // 0 … Nodes-1
	Account  string // account, project or subscription that owns it; empty if the cloud has none or does not report it
	State    State
	Offer    apitypes.Offer
	Launched time.Time
	// Reason why a machine ended without a request: "spot-interruption".
	Reason string
	// Fault is set if the machine could not start because of the account's settings. It has the cause,
	// and what the user can do. Another machine there would fail in the same way.
	Fault string
}

// Notice is a cloud's warning that it will take a machine away, or its report that it did.
type Notice struct {
	Cluster string
	Machine string
	Kind    NoticeKind
	At      time.Time // when the machine will be, or was, taken
}

// NoticeKind distinguishes a warning from a fact.
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
	// may still exist (after a time-out, for example): the caller launches the same cluster again, or terminates it.
	// Errors are *Error.
	Launch(ctx context.Context, spec LaunchSpec) ([]Machine, error)
	// Terminate ends every machine of a cluster. It is idempotent; a missing cluster is not an error. A launch with the
	// same name after Terminate returned must fail with Invalid, or start nothing that outlives the next reconcile.
	Terminate(ctx context.Context, cluster string) error
	// Machines lists the machines of one cluster, or of the whole deployment if cluster is empty. Terminated machines
	// may be listed for a while. A new machine may be missing for a while (eventual consistency).
	Machines(ctx context.Context, cluster string) ([]Machine, error)
}
