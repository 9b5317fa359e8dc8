package record

import (
	"cmp"
	"slices"
	"time"

	"github.com/tradewind-broker/tradewind/pkg/agent/wire"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
)

// Run tells the agents of a cluster to start.
func (cl *Cluster) Run() {
	cl.Seq++
	cl.Command = string(wire.Run)
}

// LeaveGang is why a machine is left whose gang can not go on, LeaveSuspended why one is whose job, or queue, somebody
// has suspended.
const (
	LeaveGang      Leaving = "gang"
	LeaveSuspended Leaving = "suspended"
)

// LeaveReplaced is why a replica of a service is left that another one has taken the place of, LeaveUnready why one is
// that is not ready any more where there is no money for two.
const (
	LeaveReplaced Leaving = "replaced"
	LeaveUnready  Leaving = "unready"
)

// Serves says of the cluster of a replica that it is ready, and not about to go.
func (cl *Cluster) Serves() bool {
	return !cl.Ready.IsZero() && cl.State == ClusterUp && cl.Outcome == ""
}

// Saving says that the cluster will be taken, saves its work, and that it is planned where that goes on.
func (cl *Cluster) Saving() bool {
	return cl.State == ClusterDoomed && cl.MinPlan > 0 && cl.Outcome == ""
}

// Stopped says that every node has saved its work and stopped.
func (cl *Cluster) Stopped() bool {
	return len(cl.Nodes) > 0 && !slices.ContainsFunc(cl.Nodes, func(n Node) bool { return !n.Stopped })
}

// Leaving is why the broker leaves a machine that nobody takes.
type Leaving string

// The reasons to leave.
const (
	LeaveForPrice    Leaving = "price"    // on-demand is expected to cost less to the end
	LeaveForDeadline Leaving = "deadline" // were it taken now, not even on-demand would be in time after the next look
	LeaveForOthers   Leaving = "others"   // what it holds of a quota is another's
)

// Taken is how an attempt ends on a doomed cluster.
func (cl *Cluster) Taken() apitypes.Outcome {
	if cl.Leaving != "" {
		return apitypes.OutcomeMoved
	}
	return apitypes.OutcomePreempted
}

// LeaveMachine is the reason to leave a machine that its owner wants back, LeaveForRoom that to leave one of a pool so
// that another task has room there.
const (
	LeaveMachine Leaving = "machine"
	LeaveForRoom Leaving = "room"
)

// ClusterState is where a cluster is in its life. A cluster without a record is gone.
type ClusterState string

// The states of a cluster.
const (
	ClusterLaunching ClusterState = "launching" // intended; the cloud may or may not have it
	ClusterBooting   ClusterState = "booting"   // bought; not every node has dialled home
	ClusterUp        ClusterState = "up"
	ClusterDoomed    ClusterState = "doomed"    // will be taken; saving its work
	ClusterReleasing ClusterState = "releasing" // nothing needs it; being terminated
)

// Cluster is the record of machines that are bought or may have been, for one attempt. It exists
// from the intent to buy until they are gone for certain.
type Cluster struct {
	ID      string         `json:"id"`
	Job     string         `json:"job"`
	Task    int            `json:"task"`
	Attempt int            `json:"attempt"`
	Queue   string         `json:"queue"`
	State   ClusterState   `json:"state"`
	Offer   apitypes.Offer `json:"offer"`
	MaxUSD  float64        `json:"maxUSD,omitempty"`
	// Spec is the version of the job's spec that it runs, of a replica of a service.
	Spec  int      `json:"spec,omitempty"`
	VCPU  float64  `json:"vcpu"`            // of all nodes
	Hosts []string `json:"hosts,omitempty"` // of a pool, by rank
	// Store is the URL of the store that it keeps outputs and checkpoints in; empty is Config.StoreURL.
	Store string `json:"store,omitempty"`
	// ReservedUSD was set aside of the job's budget, or of the month's of its queue; LeaseUntil is when it is used up.
	ReservedUSD float64   `json:"reservedUSD"`
	LeaseUntil  time.Time `json:"leaseUntil,omitzero"`
	Nodes       []Node    `json:"nodes"`
	Account     string    `json:"account,omitempty"` // of its machines, where their cloud has said it
	Tries       int       `json:"tries,omitempty"`   // launches that failed and may have made machines
	// Refused is the kind of the failure for which its launch is given up, as soon as that is known; see Reason.
	Refused  cloud.Kind `json:"refused,omitempty"`
	Made     int        `json:"made,omitempty"` // machines of a launch that failed late; 0 is all Nodes
	Intended time.Time  `json:"intended"`
	Launched time.Time  `json:"launched,omitzero"`
	Since    time.Time  `json:"since"` // in this state
	// Seq, Command and Until are what the agents are told (wire.Work).
	Seq     int       `json:"seq"`
	Command string    `json:"command,omitempty"`
	Until   time.Time `json:"until,omitzero"`
	Reason  string    `json:"reason,omitempty"` // of doom or release
	// MinPlan is the oldest plan that its task may go on under: asked for while it saves its work, as it will be taken.
	// 0 is none.
	MinPlan int `json:"minPlan,omitempty"`
	// Leaving says that it is doomed because the broker leaves it, and why.
	Leaving Leaving `json:"leaving,omitempty"`
	// For is the claim that it is left for, where that is for others.
	For string `json:"for,omitempty"`
	// Outcome of the attempt, decided before the release.
	Outcome apitypes.Outcome `json:"outcome,omitempty"`
	// KeptUntil is until when it is kept though its task has failed, for people to look at.
	KeptUntil time.Time `json:"keptUntil,omitzero"`
	Started   bool      `json:"started,omitempty"`
	// Up and Running are when every node had dialled home, and when every node ran the task.
	Up      time.Time `json:"up,omitzero"`
	Running time.Time `json:"running,omitzero"`
	// Ended is when it had succeeded.
	Ended time.Time `json:"ended,omitzero"`
	// PaidUSD is what all machines had cost by PricedAt, and RateUSD what an hour of one costs since; zero while nobody
	// has said otherwise than the offer, see charge.go.
	PaidUSD  float64   `json:"paidUSD,omitempty"`
	PricedAt time.Time `json:"pricedAt,omitzero"`
	RateUSD  float64   `json:"rateUSD,omitempty"`
	// Of a spot cluster: its market, and what of its price is not the market's, USD per hour of one machine.
	Market       string  `json:"market,omitempty"`
	SurchargeUSD float64 `json:"surchargeUSD,omitempty"`
	// Of a replica of a service: since when it is ready, zero while it is not; where it can be reached then, HOST:PORT;
	// and why it is not, where it was before.
	Ready   time.Time `json:"ready,omitzero"`
	Reached string    `json:"reached,omitempty"`
	Unready string    `json:"unready,omitempty"`
	// Visits is how many have been opened on its machines.
	Visits int `json:"visits,omitempty"`
}

// Node is one machine of a cluster.
type Node struct {
	Machine string    `json:"machine,omitempty"`
	Address string    `json:"address,omitempty"` // empty until it dialled home
	Hello   string    `json:"hello,omitempty"`   // which agent did: a digest of what that made up
	Seen    time.Time `json:"seen,omitzero"`
	Started bool      `json:"started,omitempty"`
	Done    bool      `json:"done,omitempty"`    // succeeded
	Stopped bool      `json:"stopped,omitempty"` // saved and stopped on command
	Keeps   bool      `json:"keeps,omitempty"`   // what its task has left that failed; see Cluster.KeptUntil
	// EgressUSD is what moving its data has cost, as far as it has told.
	EgressUSD float64 `json:"egressUSD,omitempty"`
}

// Released says that nothing goes on with the cluster, so that it may be terminated: it is decided, or its work is
// done.
func (cl *Cluster) Released() bool {
	return cl.State == ClusterReleasing || cl.Outcome == apitypes.OutcomeSucceeded
}

// Kept says that the cluster is kept for people to look at, though its task has failed.
func (cl *Cluster) Kept(now time.Time) bool {
	return cl.Outcome == apitypes.OutcomeFailed && cl.State == ClusterUp && now.Before(cl.KeptUntil)
}

// Over is how the attempt of a cluster that is gone has ended.
func (cl *Cluster) Over(attempt apitypes.Attempt) apitypes.Outcome {
	return cmp.Or(attempt.Outcome, cl.Outcome, apitypes.OutcomeCancelled)
}

// Accrued is what a cluster has cost so far, USD.
func (c Cluster) Accrued(now time.Time) float64 {
	if c.Launched.IsZero() {
		return 0
	}
	return c.Charged(now)
}
