package apitypes

import (
	"maps"
	"slices"
	"time"
)

// QueueList is a list of queues.
type QueueList struct {
	Queues    []Queue        `json:"queues"            nullable:"false" doc:"Queues that were configured or used"`
	Waiting   map[string]int `json:"waiting,omitempty"                  doc:"If requested: the number of waiting tasks of each queue, counted up to 1000; queues without any are left out"`
	Simulated bool           `json:"simulated,omitempty" doc:"The broker's machines are simulated: nothing is bought, and amounts of money are estimates"`
}

// QueueQuota are the settings of a queue.
type QueueQuota struct {
	_           struct{} `additionalProperties:"false"`
	MaxRunning  int      `                             json:"maxRunning,omitempty"  minimum:"0" maximum:"1000000"    doc:"Tasks that may hold capacity at once; 0 is no limit"`
	MaxVCPU     float64  `                             json:"maxVCPU,omitempty"     minimum:"0" maximum:"1000000000" doc:"vCPUs that its tasks may hold at once; 0 is no limit"`
	Description string   `                             json:"description,omitempty"                                  doc:"Free text"                                            maxLength:"1024"`

	Parent         string  `json:"parent,omitempty"         pattern:"^([A-Za-z0-9][A-Za-z0-9._-]*)?$" maxLength:"128" doc:"Queue whose quota it shares with its siblings; empty for none"`
	Weight         int     `json:"weight,omitempty"                                                                   doc:"Its share relative to its siblings; 0 is 1"                                            minimum:"0" maximum:"1000000"`
	DeservedVCPU   float64 `json:"deservedVCPU,omitempty"                                                             doc:"vCPUs up to which it may reclaim capacity from its siblings; 0 is its share by weight" minimum:"0" maximum:"1000000000"`
	GuaranteedVCPU float64 `json:"guaranteedVCPU,omitempty"                                                           doc:"vCPUs reserved for it even while it does not use them"                                 minimum:"0" maximum:"1000000000"`

	Max        Amounts `json:"max,omitempty"        doc:"The maximum that it may hold, by resource: memoryGiB, usdPerHour, the name of an accelerator, or vcpus, which is maxVCPU; and usdPerMonth, what its jobs may cost in a calendar month (UTC); 0 is no limit"`
	Deserved   Amounts `json:"deserved,omitempty"   doc:"How much it may reclaim from its siblings, by resource"`
	Guaranteed Amounts `json:"guaranteed,omitempty" doc:"What is reserved for it even while it does not use it, by resource"`

	Keep string `json:"keep,omitempty" maxLength:"64" doc:"How long its finished jobs are kept, such as 90d, or forever; empty for as long as the queue above or the broker says"`

	Preempt bool `json:"preempt,omitempty" doc:"Whether jobs of higher priority preempt running ones of lower priority, whose work is saved first"`
	Closed  bool `json:"closed,omitempty"  doc:"If true, the queue admits no tasks; running ones continue"`
}

// Limits returns the queue's limit for each limited resource, including vCPUs. The monthly budget is not included,
// because it is not held and released.
func (q *Queue) Limits() Amounts {
	if _, monthly := q.Max[USDPerMonth]; !monthly {
		return withVCPU(q.Max, q.MaxVCPU)
	}
	most := maps.Clone(q.Max)
	delete(most, USDPerMonth)
	return withVCPU(most, q.MaxVCPU)
}

// withVCPU adds vCPUs to amounts if vcpu is positive.
func withVCPU(a Amounts, vcpu float64) Amounts {
	if vcpu <= 0 {
		return a
	}
	return a.Plus(Amounts{VCPUs: vcpu})
}

// GuaranteedAmounts returns the amounts that are guaranteed to the queue, including vCPUs.
func (q *Queue) GuaranteedAmounts() Amounts { return withVCPU(q.Guaranteed, q.GuaranteedVCPU) }

// Used returns the resources that the queue holds, including vCPUs.
func (q *Queue) Used() Amounts { return withVCPU(q.Use, q.VCPU) }

// Month is the cost of the jobs of a queue (not of its child queues) in a month, and the amount that is reserved for
// their running attempts. The cost of an attempt is booked in the month in which the attempt is settled.
type Month struct {
	Of       string  `json:"of,omitempty"            doc:"The month, YYYY-MM, in UTC"`
	SpentUSD float64 `json:"spentUSD,omitempty"      doc:"Cost of the attempts that were settled in it, USD"`
	// ReservedUSD is for attempts that were admitted while a monthly budget was in force (Attempt.Monthly).
	ReservedUSD float64 `json:"reservedUSD,omitempty"   doc:"Reserved in the monthly budget for running attempts, USD"`
	// BelowUSD and AsideBelowUSD are not stored, but computed for responses.
	BelowUSD      float64 `json:"belowUSD,omitempty"      doc:"Spent and reserved by the child queues in this month, USD"`
	AsideBelowUSD float64 `json:"asideBelowUSD,omitempty" doc:"The reserved part of belowUSD, USD"`
}

// monthLayout is the format of a month. Such strings sort like the months.
const monthLayout = "2006-01"

// At returns the month at the given time. A new month starts with the reservations of the previous
// one. At never returns an earlier month than m, because a decision may be committed minutes after
// the time for which it was made.
func (m Month) At(now time.Time) Month {
	if of := now.UTC().Format(monthLayout); of > m.Of {
		m.Of, m.SpentUSD = of, 0
	}
	return m
}

// Ends returns when the next month begins.
func (m Month) Ends() time.Time {
	begins, err := time.Parse(monthLayout, m.Of)
	if err != nil {
		return time.Time{}
	}
	return begins.AddDate(0, 1, 0)
}

// Queue is the record of a queue: its quota and its use. A zero quota means no limit.
type Queue struct {
	Name       string  `json:"name"`
	MaxRunning int     `json:"maxRunning,omitempty"`
	MaxVCPU    float64 `json:"maxVCPU,omitempty"`
	Running    int     `json:"running"`
	VCPU       float64 `json:"vcpu"`
	// Workers is the number of running attempts that are machines shared by tasks of a job.
	Workers     int    `json:"workers,omitempty"`
	Description string `json:"description,omitempty"`
	// Parent is the queue whose quota this queue shares with its siblings. Inner means that this queue
	// has child queues.
	Parent string `json:"parent,omitempty"`
	Inner  bool   `json:"inner,omitempty"`
	// Weight, DeservedVCPU, GuaranteedVCPU, Preempt and Closed: see QueueQuota.
	Weight         int     `json:"weight,omitempty"`
	DeservedVCPU   float64 `json:"deservedVCPU,omitempty"`
	GuaranteedVCPU float64 `json:"guaranteedVCPU,omitempty"`
	Preempt        bool    `json:"preempt,omitempty"`
	Closed         bool    `json:"closed,omitempty"`
	// Keep is the time for which the queue's finished jobs are kept, as in a job file. If it is empty,
	// that of the parent queue applies.
	Keep string `json:"keep,omitempty"`
	// Configured means that a user has configured the queue. Otherwise its first job created it with
	// the default settings.
	Configured bool `json:"configured,omitempty"`
	// Max, Deserved and Guaranteed are for resources other than vCPUs (see QueueQuota). Use is the held
	// amount of each.
	Max        Amounts `json:"max,omitempty"`
	Deserved   Amounts `json:"deserved,omitempty"`
	Guaranteed Amounts `json:"guaranteed,omitempty"`
	Use        Amounts `json:"use,omitempty"`
	// Bought counts the machines that the running attempts of this queue, without its child queues,
	// have bought.
	Bought Bought `json:"bought,omitzero"`
	// Spaces is the use of the queue by the jobs of each namespace, by name; Past is the usage over time, if the policy
	// needs it.
	Spaces []Space `json:"spaces,omitempty"`
	Past   Past    `json:"past,omitzero"`
	// Month is the cost of its jobs in this month. Max[USDPerMonth] is the limit.
	Month Month `json:"month,omitzero"`
	// Suspended has the user who suspended the queue, and the time.
	Suspended Suspension      `json:"suspended,omitzero"`
	Heard     IdempotencyKeys `json:"heard,omitempty"`
	// Claims has a claim for each waiting task or gang of the queue for which the scheduler has stopped
	// other tasks.
	Claims []Claim `json:"claims,omitempty"`
}

// Claim means that the scheduler stopped tasks to make room for another task or gang. The freed
// capacity is reserved for that task or gang until it is admitted or the claim expires.
type Claim struct {
	For   string    `json:"for"` // see claimOf
	Until time.Time `json:"until"`
	// Pool is set if running tasks are moved within a pool for the claim. Machines of that pool are
	// then reserved too.
	Pool string `json:"pool,omitempty"`
}

// ClaimedIn returns the pool in which machines are reserved for a claim, or "".
func (q *Queue) ClaimedIn(name string, now time.Time) string {
	for _, c := range q.Claims {
		if c.For == name && now.Before(c.Until) {
			return c.Pool
		}
	}
	return ""
}

// Claimed reports whether a claim with the given name is in force.
func (q *Queue) Claimed(name string, now time.Time) bool {
	return slices.ContainsFunc(q.Claims, func(c Claim) bool { return c.For == name && now.Before(c.Until) })
}

// Full reports whether the queue's own quota is used up.
func (q *Queue) Full() bool {
	if q.MaxRunning > 0 && q.Running >= q.MaxRunning || q.MaxVCPU > 0 && q.VCPU >= q.MaxVCPU {
		return true
	}
	for name, most := range q.Max {
		if q.Use[name] >= most && name == USDPerHour { // every task costs something
			return true
		}
	}
	return false
}

// IdempotencyKeys are the idempotency keys of the latest suspend and resume requests. A client that gets no response
// repeats the request with the same key. The first one may still arrive, after a later request has taken effect.
type IdempotencyKeys []string

// Held is the part of a queue's quota that is held.
type Held struct {
	Tasks float64 `json:"tasks,omitempty"`
	VCPU  float64 `json:"vcpu,omitempty"`
	Use   Amounts `json:"use,omitempty"` // without vCPUs
}

// Past is an exponentially decaying mean of the use: after each half-life, earlier use counts half.
type Past struct {
	At time.Time `json:"at"`
	Held
}

// Space is the use of a queue by the jobs of a namespace, now and over time.
type Space struct {
	Name string `json:"name"`
	Held
	Past Past `json:"past,omitzero"`
}

// Plus returns h + by.
func (h Held) Plus(by Held) Held {
	return Held{Tasks: h.Tasks + by.Tasks, VCPU: h.VCPU + by.VCPU, Use: h.Use.Plus(by.Use)}
}

// Negative returns -h.
func (h Held) Negative() Held {
	out := Held{Tasks: -h.Tasks, VCPU: -h.VCPU}
	for name, v := range h.Use {
		out.Use = out.Use.Plus(Amounts{name: -v})
	}
	return out
}
