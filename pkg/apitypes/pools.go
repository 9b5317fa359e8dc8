package apitypes

import "time"

// PoolToken is a token with the time until which it is good, on the broker's clock.
type PoolToken struct {
	Token   string    `json:"token" doc:"The secret"`
	Expires time.Time `json:"expires" doc:"Until when it is good, on the broker's clock"`
}

// PoolList is a list of pools.
type PoolList struct {
	Now   time.Time  `json:"now" doc:"The broker's clock"`
	Pools []PoolView `json:"pools" nullable:"false" doc:"Pools by name, with their machines"`
}

// PoolSettings is what can be set of a pool.
type PoolSettings struct {
	_           struct{} `additionalProperties:"false"`
	Place       string   `json:"place,omitempty" maxLength:"128" pattern:"^([^:]+:.+)?$" doc:"Where its machines are, cloud:region: for the cost of moving data; empty is nowhere in particular"`
	USDPerHour  float64  `json:"usdPerHour,omitempty" minimum:"0" maximum:"100000" doc:"What an hour of a whole machine counts as, USD; 0 is paid already"`
	Partitions  int      `json:"partitions,omitempty" minimum:"0" maximum:"256" doc:"Into how many records its machines are divided; 0 is 8. It can change only while the pool has no machines"`
	Description string   `json:"description,omitempty" maxLength:"1024" doc:"For people"`
}

// Draining is how to drain.
type Draining struct {
	_   struct{} `additionalProperties:"false"`
	How Drain    `json:"how,omitempty" enum:"drain,now,undo" default:"drain" doc:"drain: nothing new, what runs ends; now: what runs saves its work and goes on elsewhere; undo: back to work"`
}

// Drain is how a machine is emptied.
type Drain string

// The ways to drain.
const (
	DrainSoon Drain = "drain" // it gets nothing new; what runs there ends
	DrainNow  Drain = "now"   // and what runs there saves its work, stops, and goes on elsewhere
	DrainUndo Drain = "undo"  // it may get something again
)

// Capacity is what a machine has, or what a task holds of one.
type Capacity struct {
	CPUs         float64 `json:"cpus" doc:"vCPUs"`
	MemoryGiB    float64 `json:"memoryGiB" doc:"Memory, GiB"`
	Accelerator  string  `json:"accelerator,omitempty" doc:"Name of the accelerators as the catalogue has it"`
	Accelerators float64 `json:"accelerators,omitempty" doc:"How many of them"`
}

// Add adds up; what has no name takes that of what is added.
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
	USDPerHour  float64       `json:"usdPerHour" doc:"What an hour of a whole machine counts as, USD"`
	Partitions  int           `json:"partitions" doc:"Into how many records its machines are divided"`
	Description string        `json:"description,omitempty" doc:"What it is for"`
	Draining    bool          `json:"draining,omitempty" doc:"It gets nothing new"`
	Created     time.Time     `json:"created" doc:"When it was made"`
	Capacity    Capacity      `json:"capacity" doc:"What its machines have in all; accelerators of all names together"`
	Used        Capacity      `json:"used" doc:"What is in use of it"`
	Machines    []MachineView `json:"machines" nullable:"false" doc:"Its machines, by ID"`
}

// MachineView is a machine of a pool as users see it.
type MachineView struct {
	ID       string            `json:"id" doc:"Name of the machine"`
	Type     string            `json:"type" doc:"Its type, which a task may ask for"`
	State    string            `json:"state" doc:"ready, busy, draining, drained, leaving, blocked, stale or lost"`
	Labels   map[string]string `json:"labels,omitempty" doc:"What it says of itself"`
	Capacity Capacity          `json:"capacity" doc:"What it has"`
	Used     Capacity          `json:"used" doc:"What is in use of it"`
	Joined   time.Time         `json:"joined" doc:"When it joined"`
	Seen     time.Time         `json:"seen" doc:"When it was last heard of, to about a minute"`
	Until    time.Time         `json:"blockedUntil,omitzero" doc:"Until when it gets nothing new, as it failed"`
	Reason   string            `json:"reason,omitempty" doc:"How it failed"`
	Tasks    []MachineTask     `json:"tasks" nullable:"false" doc:"What runs on it"`
}

// MachineTask is what one task has of a machine.
type MachineTask struct {
	Job     string    `json:"job" doc:"ID of the job"`
	JobName string    `json:"jobName,omitempty" doc:"Name of the job"`
	Task    string    `json:"task" doc:"Name of the task"`
	Cluster string    `json:"cluster" doc:"ID of its cluster"`
	Rank    int       `json:"rank" doc:"Rank of the machine in it"`
	Hold    Capacity  `json:"hold" doc:"What it holds"`
	Since   time.Time `json:"since" doc:"Since when"`
}
