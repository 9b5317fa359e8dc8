package apitypes

import (
	"maps"
	"slices"
	"time"
)

// QueueList is a list of queues.
type QueueList struct {
	Queues  []Queue        `json:"queues" nullable:"false" doc:"Queues that were configured or used"`
	Waiting map[string]int `json:"waiting,omitempty" doc:"Where it was asked for: how many tasks wait in each queue, counted to 1000; queues without any are left out"`
}

// QueueQuota is what can be set of a queue.
type QueueQuota struct {
	_           struct{} `additionalProperties:"false"`
	MaxRunning  int      `json:"maxRunning,omitempty" minimum:"0" maximum:"1000000" doc:"Tasks that may hold capacity at once; 0 is no limit"`
	MaxVCPU     float64  `json:"maxVCPU,omitempty" minimum:"0" maximum:"1000000000" doc:"vCPUs they may hold; 0 is no limit"`
	Description string   `json:"description,omitempty" maxLength:"1024" doc:"For people"`

	Parent         string  `json:"parent,omitempty" pattern:"^([A-Za-z0-9][A-Za-z0-9._-]*)?$" maxLength:"128" doc:"Queue whose quota it shares with its siblings; empty is none"`
	Weight         int     `json:"weight,omitempty" minimum:"0" maximum:"1000000" doc:"Its part among its siblings; 0 is 1"`
	DeservedVCPU   float64 `json:"deservedVCPU,omitempty" minimum:"0" maximum:"1000000000" doc:"vCPUs it may take back from its siblings; 0 is what its weight gives it"`
	GuaranteedVCPU float64 `json:"guaranteedVCPU,omitempty" minimum:"0" maximum:"1000000000" doc:"vCPUs kept for it even while it has no use for them"`

	Max        Amounts `json:"max,omitempty" doc:"The most that it may hold, by resource: memoryGiB, usdPerHour, the name of a kind of accelerator, or vcpus, which is maxVCPU; and usdPerMonth, what its jobs may cost in a calendar month (UTC); 0 is no limit"`
	Deserved   Amounts `json:"deserved,omitempty" doc:"What it may take back from its siblings, by resource"`
	Guaranteed Amounts `json:"guaranteed,omitempty" doc:"What is kept for it even while it has no use for it, by resource"`

	Preempt bool `json:"preempt,omitempty" doc:"Whether its jobs of higher priority take the machines of those of lower, whose work is saved first"`
	Closed  bool `json:"closed,omitempty" doc:"Whether it admits nothing"`
}

// Most is what the queue may have of each resource that it bounds, Kept what is guaranteed to it, and Used what it
// holds: each with vCPUs. A month's budget is none that is held.
func (q *Queue) Most() Amounts {
	if _, monthly := q.Max[USDPerMonth]; !monthly {
		return withVCPU(q.Max, q.MaxVCPU)
	}
	most := maps.Clone(q.Max)
	delete(most, USDPerMonth)
	return withVCPU(most, q.MaxVCPU)
}

// withVCPU are amounts with vCPUs, if there are any.
func withVCPU(a Amounts, vcpu float64) Amounts {
	if vcpu <= 0 {
		return a
	}
	return a.Plus(Amounts{VCPUs: vcpu})
}

// Kept is what is guaranteed to the queue.
func (q *Queue) Kept() Amounts { return withVCPU(q.Guaranteed, q.GuaranteedVCPU) }

// Used is what the queue holds.
func (q *Queue) Used() Amounts { return withVCPU(q.Use, q.VCPU) }

// Month is what the jobs of a queue, without those of queues below it, have cost in a month, and what is set aside for
// those of their attempts that run. An attempt is booked in the month in which it is settled.
type Month struct {
	Of       string  `json:"of,omitempty" doc:"The month, YYYY-MM, in UTC"`
	SpentUSD float64 `json:"spentUSD,omitempty" doc:"What attempts have cost that were settled in it, USD"`
	// ReservedUSD is of attempts that were admitted while a month's budget was in force (Attempt.Monthly).
	ReservedUSD float64 `json:"reservedUSD,omitempty" doc:"What is set aside of a month's budget for attempts that run, USD"`
	// BelowUSD and AsideBelowUSD are computed where queues are shown.
	BelowUSD      float64 `json:"belowUSD,omitempty" doc:"Spent and set aside in it by the queues below, USD"`
	AsideBelowUSD float64 `json:"asideBelowUSD,omitempty" doc:"Of that, what is set aside, USD"`
}

// monthLayout is how a month is written. Texts of it compare as the months do.
const monthLayout = "2006-01"

// At is the month at a time: a new one begins with what is set aside in the one before. It never goes back, as a
// decision may be committed minutes after the moment it was made for.
func (m Month) At(now time.Time) Month {
	if of := now.UTC().Format(monthLayout); of > m.Of {
		m.Of, m.SpentUSD = of, 0
	}
	return m
}

// Ends is when the next month begins.
func (m Month) Ends() time.Time {
	begins, err := time.Parse(monthLayout, m.Of)
	if err != nil {
		return time.Time{}
	}
	return begins.AddDate(0, 1, 0)
}

// Queue is the record of a queue: its quota and what is in use. Zero quotas are without limit.
type Queue struct {
	Name        string  `json:"name"`
	MaxRunning  int     `json:"maxRunning,omitempty"`
	MaxVCPU     float64 `json:"maxVCPU,omitempty"`
	Running     int     `json:"running"`
	VCPU        float64 `json:"vcpu"`
	Description string  `json:"description,omitempty"`
	// Parent is the queue whose quota it shares with its siblings; Inner says that this one is another's.
	Parent string `json:"parent,omitempty"`
	Inner  bool   `json:"inner,omitempty"`
	// Weight, DeservedVCPU, GuaranteedVCPU, Preempt and Closed: see QueueSettings.
	Weight         int     `json:"weight,omitempty"`
	DeservedVCPU   float64 `json:"deservedVCPU,omitempty"`
	GuaranteedVCPU float64 `json:"guaranteedVCPU,omitempty"`
	Preempt        bool    `json:"preempt,omitempty"`
	Closed         bool    `json:"closed,omitempty"`
	// Max, Deserved and Guaranteed are of resources beside vCPUs: see QueueSettings. Use is what is held of them.
	Max        Amounts `json:"max,omitempty"`
	Deserved   Amounts `json:"deserved,omitempty"`
	Guaranteed Amounts `json:"guaranteed,omitempty"`
	Use        Amounts `json:"use,omitempty"`
	// Spaces is what jobs of each namespace hold of it, by name; Past is what was held over time, where the policy
	// asks.
	Spaces []Space `json:"spaces,omitempty"`
	Past   Past    `json:"past,omitzero"`
	// Month is what its jobs cost in this month; Max[USDPerMonth] is the most of it.
	Month Month `json:"month,omitzero"`
	// Suspended says who has closed it, and since when, where somebody has suspended it.
	Suspended Suspension `json:"suspended,omitzero"`
	Heard     Heard      `json:"heard,omitempty"`
	// Claims are those of its tasks and gangs that others were stopped for and that have not been admitted yet.
	Claims []Claim `json:"claims,omitempty"`
}

// Claim says that others were stopped to make room for a task, or a gang: what comes free is kept for it, and for
// nobody else, until it is admitted or the claim lapses.
type Claim struct {
	For   string    `json:"for"` // see claimOf
	Until time.Time `json:"until"`
	// Pool is where machines are kept for it as well, as some of what runs there is moved: for it, or itself.
	Pool string `json:"pool,omitempty"`
}

// ClaimedIn is the pool where machines are kept for a claim; empty where none are.
func (q *Queue) ClaimedIn(name string, now time.Time) string {
	for _, c := range q.Claims {
		if c.For == name && now.Before(c.Until) {
			return c.Pool
		}
	}
	return ""
}

// Claimed says whether room has been made for a claim.
func (q *Queue) Claimed(name string, now time.Time) bool {
	return slices.ContainsFunc(q.Claims, func(c Claim) bool { return c.For == name && now.Before(c.Until) })
}

// Full says that the queue's own quota is used up.
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

// Heard are the keys of the last requests that had something wait or go on. A request whose answer does not come is
// made again under the same key; the first may arrive all the same, when what was asked for later is long in force.
type Heard []string

// Held is what is held of a queue's quota.
type Held struct {
	Tasks float64 `json:"tasks,omitempty"`
	VCPU  float64 `json:"vcpu,omitempty"`
	Use   Amounts `json:"use,omitempty"` // beside vCPUs
}

// Past is what was held over time: a mean in which what was counts half after each half-life.
type Past struct {
	At time.Time `json:"at"`
	Held
}

// Space is what the jobs of a namespace hold of a queue, and have held.
type Space struct {
	Name string `json:"name"`
	Held
	Past Past `json:"past,omitzero"`
}

// Plus is the sum of two amounts.
func (h Held) Plus(by Held) Held {
	return Held{Tasks: h.Tasks + by.Tasks, VCPU: h.VCPU + by.VCPU, Use: h.Use.Plus(by.Use)}
}

// Negative is an amount with the opposite sign.
func (h Held) Negative() Held {
	out := Held{Tasks: -h.Tasks, VCPU: -h.VCPU}
	for name, v := range h.Use {
		out.Use = out.Use.Plus(Amounts{name: -v})
	}
	return out
}
