package apitypes

import "time"

// PoolCloud is the name under which machines that the user already has stand beside the clouds: the Cloud of an
// attempt's offer there, whose Region is the pool.
const PoolCloud = "pool"

// Assigned says that the machines of an attempt are its user's own: they were there before, are its with the admission,
// and stay when it gives them back. Else they are bought for it.
func (a Attempt) Assigned() bool { return a.Offer.Cloud == PoolCloud }

// Attempt is the history of one try to run a task: what was bought, for how much, how it ended. It is written when it
// is admitted, when it fails and when its machines are gone; what happens between, its cluster's record has
// (Cluster.tell).
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
	Outcome     Outcome   `json:"outcome,omitempty"`  // empty while it lasts
	KeptUntil   time.Time `json:"keptUntil,omitzero"` // its machines, though its task has failed, for people to look at
	Reason      string    `json:"reason,omitempty"`
	VCPU        float64   `json:"vcpu"`                  // of all nodes
	Hold        Amounts   `json:"hold,omitempty"`        // of all nodes, beside vCPUs: what it holds of its queue's
	ReservedUSD float64   `json:"reservedUSD,omitempty"` // set aside of the job's budget, or of its queue's
	// Monthly says that it is set aside of the month's budget of its queue, or of one above it, as well.
	Monthly     bool    `json:"monthly,omitempty"`
	Resumed     float64 `json:"resumed,omitempty"`     // progress it started from
	ResumedFrom string  `json:"resumedFrom,omitempty"` // checkpoint it started from
	USD         float64 `json:"usd,omitempty"`
	EgressUSD   float64 `json:"egressUSD,omitempty"` // of USD, what moving its data cost
	// RateUSD is what an hour of one machine cost last, where that is not what it was planned with; SurchargeUSD what
	// of it is not the spot market's.
	RateUSD float64 `json:"rateUSD,omitempty"`
	// WaitSince is since when it had waited for a better price than WaitUSD, USD per hour, when it was admitted.
	WaitSince    time.Time `json:"waitSince,omitzero"`
	WaitUSD      float64   `json:"waitUSD,omitempty"`
	SurchargeUSD float64   `json:"surchargeUSD,omitempty"`
	// Of an attempt on machines of a pool: which ones, by rank; where they are, for its data; and what it would have
	// bought otherwise.
	Hosts   []string `json:"hosts,omitempty"`
	Place   string   `json:"place,omitempty"`
	Instead Instead  `json:"instead,omitzero"`
	// Doubt is why a machine that spoke for the attempt was not believed, the first time; DoubtedAt is when.
	Doubt     string    `json:"doubt,omitempty"`
	DoubtedAt time.Time `json:"doubtedAt,omitzero"`
}

// Outcome says how an attempt ended.
type Outcome string

// The outcomes of an attempt. Blocked ones never asked the cloud.
const (
	OutcomeSucceeded Outcome = "succeeded"
	OutcomeFailed    Outcome = "failed"
	OutcomePreempted Outcome = "preempted"
	OutcomeMoved     Outcome = "moved" // left a spot machine that was no longer worth it; Reason says why
	OutcomeLost      Outcome = "lost"
	OutcomeRefused   Outcome = "refused" // the cloud did not launch it; Reason has its words
	OutcomeBlocked   Outcome = "blocked"
	OutcomeCancelled Outcome = "cancelled"
	OutcomeBudget    Outcome = "budget" // stopped before it would overspend
)

// Instead is what an attempt would have bought, had there been no room in a pool.
type Instead struct {
	Offer string  `json:"offer"` // ID of the offer planned
	USD   float64 `json:"usd"`   // expected of it, with what it costs to move the data there
}
