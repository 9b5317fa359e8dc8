package wire

import (
	"net/url"
	"time"

	"github.com/tradewind-broker/tradewind/pkg/apitypes"
)

// The broker does not buy the machines of a pool: they join by themselves. A machine's resident process joins with a
// token from the pool's owner and gets its own token in return. From then on it syncs: it reports its capacity and the
// agents that run on it, and the broker answers with the agents that should run. Both sides send the whole state, not
// changes, so that lost, repeated or reordered calls do no harm.

// PathPool is the prefix of the paths that pool machines call. Like all agent paths they need a token, but no user.
const PathPool = "/v1/agent/pools/"

// PathPoolJoin is the path at which a machine exchanges the pool's join token for its own: POST -> PoolToken.
func PathPoolJoin(pool, machine string) string { return poolPath(pool, machine) + "/join" }

// PathPoolSync is the path at which a machine syncs: POST PoolReport -> PoolOrders.
func PathPoolSync(pool, machine string) string { return poolPath(pool, machine) + "/sync" }

func poolPath(pool, machine string) string {
	return PathPool + url.PathEscape(pool) + "/machines/" + url.PathEscape(machine)
}

// Status codes for a pool machine mean: 2xx is accepted; 401 and 403 mean that the token is not valid (or no longer
// valid); 404 and 410 mean that the pool is missing or that the machine was removed from it: the machine ends its
// agents and exits; 409 to a join means that another machine has the name. Every other status is retried.

// PoolClaims is what a machine's token proves: the caller is this machine of this pool, until the token expires.
// Without a machine, it proves only that the caller may join.
type PoolClaims struct {
	Pool    string
	Machine string // empty in a join token
	// Joined is the time at which the machine joined. Renewed tokens keep it. A machine that was removed after this
	// time cannot use the token any more.
	Joined  time.Time
	Expires time.Time
}

// PoolTokenTick is the resolution of the times in a token.
const PoolTokenTick = time.Second

// PoolCapacity is the capacity of a machine, or the part of it that one agent uses.
type PoolCapacity struct {
	CPUs         float64 `json:"cpus" minimum:"0" doc:"vCPUs"`
	MemoryGiB    float64 `json:"memoryGiB" minimum:"0" doc:"Memory, GiB"`
	Accelerator  string  `json:"accelerator,omitempty" doc:"Name of the accelerators, as in the catalogue"`
	Accelerators float64 `json:"accelerators,omitempty" minimum:"0" doc:"Number of accelerators"`
}

// PoolAgent names the agent of one rank of a cluster.
type PoolAgent struct {
	Cluster string `json:"cluster" maxLength:"256" doc:"ID of the cluster"`
	Rank    int    `json:"rank" minimum:"0" doc:"Rank of the machine in the cluster"`
}

// PoolReport is the whole state of a machine; it is sent in full each time.
type PoolReport struct {
	Type     string            `json:"type,omitempty" maxLength:"63" doc:"Instance type that tasks can ask for"`
	Labels   map[string]string `json:"labels,omitempty" doc:"Labels of the machine"`
	Capacity PoolCapacity      `json:"capacity" doc:"Capacity for tasks"`
	// Running are the agents whose processes run on the machine. They already have their tokens.
	Running []PoolAgent `json:"running,omitempty" maxItems:"1000" doc:"Agents whose processes run on the machine"`
	// Ended are the agents that ended by themselves or could not be started. Each is reported until the broker no
	// longer orders it.
	Ended   []PoolEnd `json:"ended,omitempty" maxItems:"1000" doc:"Agents that ended by themselves or could not be started"`
	Leaving bool      `json:"leaving,omitempty" doc:"The process is about to end: its tasks save their work and resume elsewhere"`
}

// PoolEnd is how an agent ended.
type PoolEnd struct {
	PoolAgent
	Reason string `json:"reason,omitempty" maxLength:"4096" doc:"How the agent ended, and the end of its log"`
}

// PoolOrders are the agents that should run on a machine. The machine ends agents that are not in the list, and then
// starts those that are missing.
type PoolOrders struct {
	Agents []PoolOrder `json:"agents" nullable:"false" doc:"The agents that should run, and no others"`
	// After is the wall time until the next sync.
	After    time.Duration `json:"after" doc:"Time until the next sync, in nanoseconds"`
	Draining bool          `json:"draining,omitempty" doc:"The broker will send no new agents"`
	// Gather is the time that the machine waits after the end of an agent before it syncs, so that one sync is enough
	// for all agents that end in that time and for the next tasks. 0 means no wait.
	Gather time.Duration `json:"gather,omitempty" doc:"How long the machine waits after the end of an agent before it syncs, in nanoseconds"`
	// Leave means that the machine, a worker, is not needed any more: it ends.
	Leave bool `json:"leave,omitempty" doc:"The machine is a worker that is not needed any more: it ends"`
	// Token replaces the machine's token; if nil, the machine keeps its token.
	Token *apitypes.PoolToken `json:"token,omitempty" doc:"A new token, if the current one is getting old"`
}

// PoolOrder is one agent that should run, with everything that it needs to call the broker.
type PoolOrder struct {
	PoolAgent
	Job      string       `json:"job" doc:"ID of the agent's job"`
	Endpoint string       `json:"endpoint" doc:"URL of the API for the agent"`
	Token    string       `json:"token,omitempty" doc:"The agent's token, valid for this cluster and rank; empty if the agent already runs"`
	Hold     PoolCapacity `json:"hold" doc:"The part of the machine that the agent may use"`
	Devices  []int        `json:"devices,omitempty" doc:"Indexes of the accelerators it may use"`
}
