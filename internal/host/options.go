package host

import (
	"log/slog"
	"time"

	"github.com/tradewind-broker/tradewind/internal/cloudkit"
	"github.com/tradewind-broker/tradewind/internal/host/running"
	"github.com/tradewind-broker/tradewind/internal/secret"
	"github.com/tradewind-broker/tradewind/pkg/cloud/driver"
	"github.com/tradewind-broker/tradewind/pkg/grant"
)

// Options of a host on one machine. The zero value of each field is its default.
type Options struct {
	// State is the folder that holds everything: records, queues, machines, outputs, the token.
	// Empty is DefaultState.
	State string
	// Catalog is a folder of CSV catalogues; empty is the one in the binary.
	Catalog string
	// Addr is where the API listens. Empty is a loopback port, the same one at each start.
	Addr string
	// Hosts are further names, without ports, under which the API is asked for.
	Hosts []string
	// TimeScale is wall seconds per second of virtual time: 0.001 makes an hour pass in 3.6 seconds. 1 is real time. 0
	// is real time in which recorded tasks take none.
	TimeScale float64
	// Scenario is a file that says which launches fail and which machines are taken; empty is a calm world.
	Scenario string
	// Anew has the scenario begin with this broker, where none of the machines of an earlier one is there any more.
	Anew bool
	// Seed, with Scenario empty and above 0, makes launches fail and spot machines be taken at random.
	Seed uint64
	// MaxMachines bounds the local machines at once; 0 is a default by the number of processors.
	MaxMachines int
	// DAGs is the folder watched for DAG files; empty is none.
	DAGs string
	// Policy is the file with the policy of the broker's sessions (docs/scheduling.md), watched for changes; empty is
	// the broker's own.
	Policy string
	// Passive serves the API for reading and runs nothing.
	Passive bool
	// Stores are those of the clouds, by scheme as in grant.Mux, from which tasks read and to which they write as the
	// broker grants it, with the broker's rights. What jobs keep lies in the state folder, or in the buckets that the
	// settings of Clouds name.
	Stores grant.Mux
	// Clouds are those that machines are bought on. With none, this computer plays every cloud of the catalogue; with
	// some, it plays the others where PlayOthers says so, and else they are not planned on.
	Clouds     []Bought
	PlayOthers bool
	// Play are the clouds that are planned on where none is bought on, with their regions; none is every region, and
	// nil every cloud.
	Play map[string][]string
	// PublicURL is where bought machines reach this broker (see the function PublicURL).
	PublicURL string
	// BootWithin is how long a bought machine may take from its launch to its agent's first call; 0 is the broker's
	// own.
	BootWithin time.Duration
	// Deployment is what bought machines are named or tagged after; empty is a name that the state folder keeps.
	Deployment string
	// Agents are the digests of the agent's programs for bought machines, Programs what these fetch.
	Agents   driver.Agents
	Programs cloudkit.Programs
	// Secrets fetch the secrets that jobs refer to, by scheme (internal/secret).
	Secrets map[string]secret.Source
	// Agent is the command that runs on each machine; empty is this program's own agent command.
	Agent   []string
	Version string
	Log     *slog.Logger
}

// Running is a host that works on a state folder.
type Running = running.Broker
