package apitypes

import "time"

// PoolToken is a token of a pool and when it expires.
type PoolToken struct {
	Token   string    `json:"token" doc:"The secret"`
	Expires time.Time `json:"expires" doc:"When the token expires, on the broker's clock"`
}

// PoolList is a list of pools.
type PoolList struct {
	Now   time.Time  `json:"now" doc:"The broker's clock"`
	Pools []PoolView `json:"pools" nullable:"false" doc:"Pools by name, with their machines"`
}

// PoolSettings are the settings of a pool.
type PoolSettings struct {
	_           struct{} `additionalProperties:"false"`
	Place       string   `json:"place,omitempty" maxLength:"128" pattern:"^([^:]+:.+)?$" doc:"Where its machines are, cloud:region, for the cost of moving data; empty if unspecified"`
	USDPerHour  float64  `json:"usdPerHour,omitempty" minimum:"0" maximum:"100000" doc:"Cost that one hour of a whole machine counts as, USD; 0 if it is already paid for"`
	Partitions  int      `json:"partitions,omitempty" minimum:"0" maximum:"256" doc:"Number of records over which its machines are distributed; 0 is 8. It can change only while the pool has no machines"`
	Description string   `json:"description,omitempty" maxLength:"1024" doc:"Free text"`
}

// Draining is how to drain.
type Draining struct {
	_   struct{} `additionalProperties:"false"`
	How Drain    `json:"how,omitempty" enum:"drain,now,undo" default:"drain" doc:"drain: nothing new starts, running work finishes; now: running work is saved and continues elsewhere; undo: end draining"`
}

// Drain is a way to drain a machine.
type Drain string

// The ways to drain.
const (
	DrainSoon Drain = "drain" // nothing new starts there; running work finishes
	DrainNow  Drain = "now"   // nothing new starts there; running work is saved, stops, and continues elsewhere
	DrainUndo Drain = "undo"  // new work may start there again
)

// Capacity is the capacity of a machine, or the part of it that a task holds.
type Capacity struct {
	CPUs         float64 `json:"cpus" doc:"vCPUs"`
	MemoryGiB    float64 `json:"memoryGiB" doc:"Memory, GiB"`
	Accelerator  string  `json:"accelerator,omitempty" doc:"Name of the accelerators, as in the catalogue"`
	Accelerators float64 `json:"accelerators,omitempty" doc:"How many of them"`
}

// Add adds x to c. If c has no accelerator name, it takes that of x.
func (c *Capacity) Add(x Capacity) {
	c.CPUs += x.CPUs
	c.MemoryGiB += x.MemoryGiB
	c.Accelerators += x.Accelerators
	if x.Accelerators > 0 && c.Accelerator == "" {
		c.Accelerator = x.Accelerator
	}
}

// PoolView is a pool as users see it: the API's and the command line's JSON.
type PoolView struct {
	Name        string        `json:"name" doc:"Name of the pool"`
	Place       string        `json:"place,omitempty" doc:"Where its machines are, cloud:region"`
	USDPerHour  float64       `json:"usdPerHour" doc:"Cost that one hour of a whole machine counts as, USD"`
	Partitions  int           `json:"partitions" doc:"Number of records over which its machines are distributed"`
	Description string        `json:"description,omitempty" doc:"What it is for"`
	Draining    bool          `json:"draining,omitempty" doc:"It accepts no new work"`
	Created     time.Time     `json:"created" doc:"When it was created"`
	Capacity    Capacity      `json:"capacity" doc:"Total of its machines; accelerators of all names together"`
	Used        Capacity      `json:"used" doc:"How much of it is in use"`
	Machines    []MachineView `json:"machines" nullable:"false" doc:"Its machines, by ID"`
}

// MachineView is a machine of a pool as users see it.
type MachineView struct {
	ID       string            `json:"id" doc:"Name of the machine"`
	Type     string            `json:"type" doc:"Its type, which a task may request"`
	State    string            `json:"state" doc:"ready, busy, draining, drained, leaving, blocked, stale or lost"`
	Labels   map[string]string `json:"labels,omitempty" doc:"Labels that the machine reports"`
	Capacity Capacity          `json:"capacity" doc:"Its capacity"`
	Used     Capacity          `json:"used" doc:"How much of it is in use"`
	Joined   time.Time         `json:"joined" doc:"When it joined"`
	Seen     time.Time         `json:"seen" doc:"When it last reported, to about a minute"`
	Until    time.Time         `json:"blockedUntil,omitzero" doc:"Until when it gets no new work after a failure"`
	Reason   string            `json:"reason,omitempty" doc:"How it failed"`
	Tasks    []MachineTask     `json:"tasks" nullable:"false" doc:"Tasks that run on it"`
}

// MachineTask is a task that runs on a machine.
type MachineTask struct {
	Job     string    `json:"job" doc:"ID of the job"`
	JobName string    `json:"jobName,omitempty" doc:"Name of the job"`
	Task    string    `json:"task" doc:"Name of the task"`
	Cluster string    `json:"cluster" doc:"ID of its cluster"`
	Rank    int       `json:"rank" doc:"Rank of the machine in the cluster"`
	Hold    Capacity  `json:"hold" doc:"Capacity that it holds"`
	Since   time.Time `json:"since" doc:"Since when it holds it"`
}
