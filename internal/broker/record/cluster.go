package record

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tradewind-broker/tradewind/internal/agent/wire"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
	"github.com/tradewind-broker/tradewind/pkg/grant"
)

// Run makes the agents of a cluster start their task.
func (cl *Cluster) Run() {
	cl.Seq++
	cl.Command = string(wire.Run)
}

// LeaveGang: another task of the gang cannot continue. LeaveSuspended: a user has suspended the job or its queue.
const (
	LeaveGang      Leaving = "gang"
	LeaveSuspended Leaving = "suspended"
)

// LeaveReplaced: a new replica of the service has replaced it. LeaveUnready: the replica is not ready any more, and
// there is no money for two.
const (
	LeaveReplaced Leaving = "replaced"
	LeaveUnready  Leaving = "unready"
)

// Serves reports whether a replica's cluster is ready and not about to stop.
func (cl *Cluster) Serves() bool {
	return !cl.Ready.IsZero() && cl.State == ClusterUp && cl.Outcome == ""
}

// Saving reports whether the cluster will be interrupted, is saving its work, and has requested a plan for its
// continuation.
func (cl *Cluster) Saving() bool {
	return cl.State == ClusterDoomed && cl.MinPlan > 0 && cl.Outcome == ""
}

// Stopped reports whether every node has saved its work and stopped.
func (cl *Cluster) Stopped() bool {
	return len(cl.Nodes) > 0 && !slices.ContainsFunc(cl.Nodes, func(n Node) bool { return !n.Stopped })
}

// Leaving is the reason why the broker gives up machines that the cloud has not interrupted.
type Leaving string

// The reasons to give up machines.
const (
	LeaveForPrice    Leaving = "price"    // on-demand is expected to cost less until the end
	LeaveForDeadline Leaving = "deadline" // an interruption before the next check would make even on-demand late
	LeaveForOthers   Leaving = "others"   // its part of the quota belongs to another queue or task
)

// LossOutcome returns the outcome of an attempt on a doomed cluster.
func (cl *Cluster) LossOutcome() apitypes.Outcome {
	if cl.Leaving != "" {
		return apitypes.OutcomeMoved
	}
	return apitypes.OutcomePreempted
}

// LeaveMachine: the owner wants the machine back. LeaveForRoom: a machine of a pool is left to make room for another
// task.
const (
	LeaveMachine Leaving = "machine"
	LeaveForRoom Leaving = "room"
)

// ClusterState is the state of a cluster. A cluster without a record is gone.
type ClusterState string

// The states of a cluster.
const (
	ClusterLaunching ClusterState = "launching" // intended; the cloud may have it or not
	ClusterBooting   ClusterState = "booting"   // bought; not every node has called
	ClusterUp        ClusterState = "up"
	ClusterDoomed    ClusterState = "doomed"    // will be interrupted or left; saving its work
	ClusterReleasing ClusterState = "releasing" // not needed any more; being terminated
)

// Cluster is the record of one attempt's machines that are bought or may have been bought. It exists from the intent
// to buy until the machines are certainly gone.
type Cluster struct {
	ID      string         `json:"id"`
	Job     string         `json:"job"`
	Task    int            `json:"task"`
	Attempt int            `json:"attempt"`
	Queue   string         `json:"queue"`
	State   ClusterState   `json:"state"`
	Offer   apitypes.Offer `json:"offer"`
	MaxUSD  float64        `json:"maxUSD,omitempty"`
	// Spec is the version of the job's spec that the cluster runs, for a replica of a service.
	Spec  int      `json:"spec,omitempty"`
	VCPU  float64  `json:"vcpu"`            // of all nodes
	Hosts []string `json:"hosts,omitempty"` // for a pool: its machines, by rank
	// Store is the URL of the store for its outputs and checkpoints; empty means Config.StoreURL.
	Store string `json:"store,omitempty"`
	// ReservedUSD is the money reserved of the job's budget or its queue's monthly budget. LeaseUntil is the time at
	// which it is used up.
	ReservedUSD float64   `json:"reservedUSD"`
	LeaseUntil  time.Time `json:"leaseUntil,omitzero"`
	Nodes       []Node    `json:"nodes"`
	Account     string    `json:"account,omitempty"` // account of its machines, if the cloud reports it
	Tries       int       `json:"tries,omitempty"`   // number of failed launches that may have made machines
	// Refused is the kind of the failure for which the launch was given up; see Reason.
	Refused  cloud.Kind `json:"refused,omitempty"`
	Made     int        `json:"made,omitempty"` // number of machines of a launch that failed late; 0 means all Nodes
	Intended time.Time  `json:"intended"`
	Launched time.Time  `json:"launched,omitzero"`
	Since    time.Time  `json:"since"` // in this state
	// Seq, Command and Until are the current command to the agents (wire.Work).
	Seq     int       `json:"seq"`
	Command string    `json:"command,omitempty"`
	Until   time.Time `json:"until,omitzero"`
	Reason  string    `json:"reason,omitempty"` // reason of the doom or release
	// MinPlan is the oldest plan under which its task may continue, or 0. It is set when a new plan is requested
	// while the cluster saves its work before an interruption.
	MinPlan int `json:"minPlan,omitempty"`
	// Leaving is the reason why the broker gives the cluster up, or empty.
	Leaving Leaving `json:"leaving,omitempty"`
	// For is the claim for which the cluster makes room, if any.
	For string `json:"for,omitempty"`
	// Outcome is the outcome of the attempt. It is decided before the release.
	Outcome apitypes.Outcome `json:"outcome,omitempty"`
	// KeptUntil is the time until which the machines of a failed task are kept for inspection.
	KeptUntil time.Time `json:"keptUntil,omitzero"`
	Started   bool      `json:"started,omitempty"`
	// Releaser is the ID of the event that repeats a release which has failed, and ReleaserSince the time of its first
	// failure. Other events leave the release to it (attempt.ReleasedByOther).
	Releaser      string    `json:"releaser,omitempty"`
	ReleaserSince time.Time `json:"releaserSince,omitzero"`
	// Quiet means that its task is so short that the agent reports only success. The task counts as running once the
	// cluster is up.
	Quiet bool `json:"quiet,omitempty"`
	// Chunk is the number of members after its task that the attempt runs (see Task.Chunk).
	Chunk int `json:"chunk,omitempty"`
	// Up is the time at which the last node called, and Running the time at which the last node started the task.
	Up      time.Time `json:"up,omitzero"`
	Running time.Time `json:"running,omitzero"`
	// Ended is the time at which the task succeeded.
	Ended time.Time `json:"ended,omitzero"`
	// PaidUSD is the cost of all machines until PricedAt, and RateUSD the price of one machine per hour since then.
	// Both are zero as long as the offer's price is valid (see charge.go).
	PaidUSD  float64   `json:"paidUSD,omitempty"`
	PricedAt time.Time `json:"pricedAt,omitzero"`
	RateUSD  float64   `json:"rateUSD,omitempty"`
	// For a spot cluster: its market, and the part of its price that is not the market's, in USD per hour and machine.
	Market       string  `json:"market,omitempty"`
	SurchargeUSD float64 `json:"surchargeUSD,omitempty"`
	// For a replica of a service: Ready is the time since which it is ready, zero if it is not. Address is its
	// address HOST:PORT while it is ready. Unready is the reason if it was ready before and is not now.
	Ready   time.Time `json:"ready,omitzero"`
	Reached string    `json:"reached,omitempty"`
	Unready string    `json:"unready,omitempty"`
	// Visits is the number of visits to its machines that were opened.
	Visits int `json:"visits,omitempty"`
}

// Node is one machine of a cluster.
type Node struct {
	Machine string `json:"machine,omitempty"`
	Address string `json:"address,omitempty"` // empty until the node has called
	// identifies the agent: a digest of a random value that the agent chose
	Hello   string    `json:"hello,omitempty"`
	Seen    time.Time `json:"seen,omitzero"`
	Started bool      `json:"started,omitempty"`
	Done    bool      `json:"done,omitempty"`    // succeeded
	Stopped bool      `json:"stopped,omitempty"` // the node has saved and stopped on command
	Keeps   bool      `json:"keeps,omitempty"`   // the node keeps the files of its failed task; see Cluster.KeptUntil
	// EgressUSD is the reported cost of moving the node's data.
	EgressUSD float64 `json:"egressUSD,omitempty"`
}

// NeverAnswered returns a text about the machines that have not called the broker since their launch: "ranks 1 and 3
// of 4 have never called the broker", or "its machine has never called the broker". It returns "" if all have called.
func (cl *Cluster) NeverAnswered() string {
	var ranks []string
	for rank, n := range cl.Nodes {
		if n.Address == "" && n.Hello == "" {
			ranks = append(ranks, strconv.Itoa(rank))
		}
	}
	switch {
	case len(ranks) == 0:
		return ""
	case len(cl.Nodes) == 1:
		return "its machine has never called the broker"
	case len(ranks) == len(cl.Nodes):
		return fmt.Sprintf("none of its %d machines has ever called the broker", len(ranks))
	case len(ranks) == 1:
		return fmt.Sprintf("rank %s of %d has never called the broker", ranks[0], len(cl.Nodes))
	case len(ranks) > maxRanks:
		return fmt.Sprintf("%d of %d machines have never called the broker", len(ranks), len(cl.Nodes))
	}
	last := len(ranks) - 1
	return fmt.Sprintf("ranks %s and %s of %d have never called the broker",
		strings.Join(ranks[:last], ", "), ranks[last],
		len(cl.Nodes))
}

// maxRanks is the maximum number of ranks that a message names.
const maxRanks = 8

// Released reports whether nothing runs on the cluster any more, so that it may be terminated: its release was
// decided, or its task has succeeded.
func (cl *Cluster) Released() bool {
	return cl.State == ClusterReleasing || cl.Outcome == apitypes.OutcomeSucceeded
}

// Kept reports whether the machines of a failed task are kept for inspection.
func (cl *Cluster) Kept(now time.Time) bool {
	return cl.Outcome == apitypes.OutcomeFailed && cl.State == ClusterUp && now.Before(cl.KeptUntil)
}

// FinalOutcome returns the outcome of an attempt whose cluster is gone.
func (cl *Cluster) FinalOutcome(attempt apitypes.Attempt) apitypes.Outcome {
	return cmp.Or(attempt.Outcome, cl.Outcome, apitypes.OutcomeCancelled)
}

// Accrued returns the cost of a cluster so far, in USD.
func (c Cluster) Accrued(now time.Time) float64 {
	if c.Launched.IsZero() {
		return 0
	}
	return c.Charged(now)
}

// Keeps converts a path of a cluster's job to its location in the cluster's store: unchanged for Config.StoreURL, and
// a URI otherwise.
func (cl *Cluster) Keeps(path string) string {
	if cl.Store == "" || path == "" {
		return path
	}
	uri, _ := grant.Below(cl.Store, path) // names were checked before
	return uri
}
