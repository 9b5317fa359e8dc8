package wire

import (
	"net/url"
	"time"

	"github.com/tradewind-broker/tradewind/pkg/apitypes"
)

// A machine of a pool is not bought: it comes. Its resident process joins with a token that the pool's owner was given,
// gets one of its own for it, and from then on syncs: it tells what it has and what runs on it, and is told what
// should. Both sides state what is, not what changed, so that a call that is lost, repeated or overtaken harms nothing.

// PathPool is where the paths begin that pool machines call. Like all paths of agents they need no user, but a token.
const PathPool = "/v1/agent/pools/"

// PathPoolJoin is the path at which a machine trades the pool's join token for its own: POST -> PoolToken.
func PathPoolJoin(pool, machine string) string { return poolPath(pool, machine) + "/join" }

// PathPoolSync is the path at which a machine syncs: POST PoolReport -> PoolOrders.
func PathPoolSync(pool, machine string) string { return poolPath(pool, machine) + "/sync" }

func poolPath(pool, machine string) string {
	return PathPool + url.PathEscape(pool) + "/machines/" + url.PathEscape(machine)
}

// Answers to a machine mean: 2xx accepted; 401 and 403 the token is not (or no longer) good; 404 and 410 the pool is
// gone, or the machine was removed from it: the machine ends its agents and goes; 409, to a join, the name is another
// machine's. Anything else is tried again.

// PoolClaims is what a machine's token proves: which machine of which pool it is, until it expires. Without a machine
// it proves nothing but that its bearer may join.
type PoolClaims struct {
	Pool    string
	Machine string // empty in a join token
	// Joined is when the machine joined; renewals keep it. A machine that was removed later is not let in again by it.
	Joined  time.Time
	Expires time.Time
}

// PoolTokenTick is to what a token's times are kept.
const PoolTokenTick = time.Second

// PoolCapacity is what a machine has, or what one agent holds of it.
type PoolCapacity struct {
	CPUs         float64 `json:"cpus" minimum:"0" doc:"vCPUs"`
	MemoryGiB    float64 `json:"memoryGiB" minimum:"0" doc:"Memory, GiB"`
	Accelerator  string  `json:"accelerator,omitempty" doc:"Name of the accelerators as the catalogue has it"`
	Accelerators float64 `json:"accelerators,omitempty" minimum:"0" doc:"How many of them"`
}

// PoolAgent names the agent of one rank of a cluster.
type PoolAgent struct {
	Cluster string `json:"cluster" maxLength:"256" doc:"ID of the cluster"`
	Rank    int    `json:"rank" minimum:"0" doc:"Rank of the machine in it"`
}

// PoolReport is what a machine says of itself, whole, each time.
type PoolReport struct {
	Type     string            `json:"type,omitempty" maxLength:"63" doc:"What a task may ask for as its instance type"`
	Labels   map[string]string `json:"labels,omitempty" doc:"What else is to be known of it"`
	Capacity PoolCapacity      `json:"capacity" doc:"What it has for tasks"`
	// Running are the agents whose processes live there; they need no token again.
	Running []PoolAgent `json:"running,omitempty" maxItems:"1000" doc:"Agents whose processes live there"`
	// Ended are those that have ended by themselves, or could not be started. Each is told of until it is no longer
	// ordered.
	Ended   []PoolEnd `json:"ended,omitempty" maxItems:"1000" doc:"Agents that ended by themselves, or could not be started"`
	Leaving bool      `json:"leaving,omitempty" doc:"The process is about to end: what runs saves its work and goes on elsewhere"`
}

// PoolEnd is how an agent ended.
type PoolEnd struct {
	PoolAgent
	Reason string `json:"reason,omitempty" maxLength:"4096" doc:"How, and its last words"`
}

// PoolOrders are the agents that should run on a machine. It ends those that are not among them, and then starts those
// that are missing.
type PoolOrders struct {
	Agents []PoolOrder `json:"agents" nullable:"false" doc:"The agents that should run, and no others"`
	// After is how soon to sync again, wall time.
	After    time.Duration `json:"after" doc:"How soon to sync again, nanoseconds"`
	Draining bool          `json:"draining,omitempty" doc:"Nothing new will come"`
	// Token is to be used from now on; nil leaves the one that was sent.
	Token *apitypes.PoolToken `json:"token,omitempty" doc:"A new token, when the one that was sent is getting old"`
}

// PoolOrder is one agent that should run, with all that it needs to dial home.
type PoolOrder struct {
	PoolAgent
	Job      string       `json:"job" doc:"ID of the job it works for"`
	Endpoint string       `json:"endpoint" doc:"URL of the API for the agent"`
	Token    string       `json:"token,omitempty" doc:"The agent's own, good for this cluster and rank; empty where it runs already"`
	Hold     PoolCapacity `json:"hold" doc:"What it may use of the machine"`
	Devices  []int        `json:"devices,omitempty" doc:"Indexes of the accelerators it may use"`
}
