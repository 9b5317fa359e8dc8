package apitypes

import (
	"fmt"
	"strings"
	"time"
)

// PoolCloud is the cloud name of machines that the user already owns. An attempt on them has it as Offer.Cloud, and the
// name of the pool as Offer.Region.
const PoolCloud = "pool"

// Assigned reports whether the attempt runs on machines of a pool. Such machines exist before the
// attempt, are assigned to it at admission, and stay when it ends. Other attempts run on machines
// that are bought for them.
func (a Attempt) Assigned() bool { return a.Offer.Cloud == PoolCloud }

// Shares reports whether an attempt runs on a worker, a machine that tasks of its job share, and names the worker. The
// cost of the worker is not part of the attempt's.
func (a Attempt) Shares() (worker string, ok bool) {
	if !a.Assigned() || len(a.Hosts) != 1 || !strings.HasPrefix(a.Offer.Region, JobPool) {
		return "", false
	}
	return a.Hosts[0], true
}

// JobPool precedes the ID of a job in the name of the pool of its workers.
const JobPool = "job."

// Attempt is the history of one try to run a task: its machines, their price, and its end. It is written when the
// attempt is admitted, when it fails and when its machines are released. The states in between are in the record of its
// cluster.
type Attempt struct {
	Job         string    `json:"job"`
	Task        int       `json:"task"`
	Number      int       `json:"number"`
	Plan        int       `json:"plan"`
	Offer       Offer     `json:"offer"`
	OfferID     string    `json:"offerID"`
	Nodes       int       `json:"nodes"`
	MaxUSD      float64   `json:"maxUSD,omitempty"` // bid, USD per hour and machine
	Admitted    time.Time `json:"admitted"`
	Launched    time.Time `json:"launched,omitzero"`
	Up          time.Time `json:"up,omitzero"`
	Started     time.Time `json:"started,omitzero"`
	Ended       time.Time `json:"ended,omitzero"`
	Outcome     Outcome   `json:"outcome,omitempty"`  // empty until it ends
	KeptUntil   time.Time `json:"keptUntil,omitzero"` // until when machines of a failed task are kept for inspection
	Reason      string    `json:"reason,omitempty"`
	VCPU        float64   `json:"vcpu"`                  // of all nodes
	Hold        Amounts   `json:"hold,omitempty"`        // of all nodes, in addition to vCPUs
	Bought      Bought    `json:"bought,omitzero"`       // counts towards the limit of the deployment
	ReservedUSD float64   `json:"reservedUSD,omitempty"` // reserved in the budget of the job or its queue
	// Monthly: ReservedUSD is also reserved in the monthly budget of its queue or of a parent queue.
	Monthly     bool    `json:"monthly,omitempty"`
	Resumed     float64 `json:"resumed,omitempty"`     // progress it started from
	ResumedFrom string  `json:"resumedFrom,omitempty"` // checkpoint it started from
	USD         float64 `json:"usd,omitempty"`
	EgressUSD   float64 `json:"egressUSD,omitempty"` // part of USD: the cost of moving its data
	// RateUSD is the latest price of one machine, USD per hour, if it differs from the planned one. SurchargeUSD is the
	// part of it that is not the spot price.
	RateUSD float64 `json:"rateUSD,omitempty"`
	// WaitSince is the time at which the task began to wait for a lower price than WaitUSD (USD per hour), if it
	// waited before its admission.
	WaitSince    time.Time `json:"waitSince,omitzero"`
	WaitUSD      float64   `json:"waitUSD,omitempty"`
	SurchargeUSD float64   `json:"surchargeUSD,omitempty"`
	// For an attempt on a pool: its machines by rank, the place of these machines (for the cost of
	// moving data), and the offer that it would have bought if the pool had had no room.
	Hosts   []string `json:"hosts,omitempty"`
	Place   string   `json:"place,omitempty"`
	Instead Instead  `json:"instead,omitzero"`
	// Doubt is the reason for which the broker first rejected a message from one of its machines.
	// DoubtedAt is the time.
	Doubt     string    `json:"doubt,omitempty"`
	DoubtedAt time.Time `json:"doubtedAt,omitzero"`
	// Failure describes the machine that failed first. It is zero unless the task failed.
	Failure Failure `json:"failure,omitzero"`
}

// Failure describes how the script of a task ended on one of its machines.
type Failure struct {
	Rank     int `json:"rank"`     // of the machine, counted from 0
	ExitCode int `json:"exitCode"` // 128 and the signal's number if a signal ended it, -1 if the script did not fail by itself; never 0
}

// describeFailure returns the exit code as text and, if the attempt has several machines, the rank that failed. It is
// empty for an attempt whose task did not fail.
func (a Attempt) describeFailure() string {
	f := a.Failure
	if f == (Failure{}) {
		return ""
	}
	var parts []string
	if f.ExitCode > 0 {
		parts = append(parts, fmt.Sprintf("exit code %d", f.ExitCode))
	}
	if a.Nodes > 1 {
		parts = append(parts, fmt.Sprintf("on rank %d of %d", f.Rank, a.Nodes))
	}
	return strings.Join(parts, " ")
}

// FailureText returns the reason why an attempt failed. It adds the exit code and the rank if the
// reason lacks them.
func (a Attempt) FailureText() string {
	what := a.describeFailure()
	switch {
	case what == "":
		return a.Reason
	case a.Reason == "" || strings.HasPrefix(what, a.Reason):
		return what
	case a.Nodes <= 1 && strings.Contains(a.Reason, what):
		return a.Reason
	}
	return what + ": " + a.Reason
}

// Outcome says how an attempt ended.
type Outcome string

// The outcomes of an attempt. An attempt with OutcomeBlocked made no call to its cloud.
const (
	OutcomeSucceeded Outcome = "succeeded"
	OutcomeFailed    Outcome = "failed"
	OutcomePreempted Outcome = "preempted"
	OutcomeMoved     Outcome = "moved" // left a spot machine that was no longer worth its price; Reason says why
	OutcomeLost      Outcome = "lost"
	OutcomeRefused   Outcome = "refused" // the cloud did not launch it; Reason is the cloud's message
	OutcomeBlocked   Outcome = "blocked"
	OutcomeCancelled Outcome = "cancelled"
	OutcomeBudget    Outcome = "budget" // stopped before it exceeded the budget
)

// Instead is the offer that the attempt would have bought if the pool had had no room.
type Instead struct {
	Offer string  `json:"offer"` // ID of the planned offer
	USD   float64 `json:"usd"`   // its expected cost, including moving the data there
}
