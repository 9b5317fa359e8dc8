package host

import (
	"log/slog"
	"time"

	"github.com/tradewind-broker/tradewind/internal/broker/config"
	"github.com/tradewind-broker/tradewind/internal/catalog/hardware"
	"github.com/tradewind-broker/tradewind/internal/cloud/driver"
	"github.com/tradewind-broker/tradewind/internal/cloudkit"
	"github.com/tradewind-broker/tradewind/internal/localfiles"
	"github.com/tradewind-broker/tradewind/internal/secret"
	spark "github.com/tradewind-broker/tradewind/pkg/cloud/service"
	"github.com/tradewind-broker/tradewind/pkg/dag"
	"github.com/tradewind-broker/tradewind/pkg/grant"
)

// Options of a host on one machine. The zero value of each field is its default.
type Options struct {
	// State is the folder with all data: records, queues, machines, outputs, the token. Empty means DefaultState.
	State string
	// Catalog is a folder of CSV catalogues; empty is the catalogue in the binary.
	Catalog string
	// Addr is the address on which the API listens. Empty means a port on loopback, which is the same at each start.
	Addr string
	// Hosts are additional host names, without ports, for the API.
	Hosts []string
	// TimeScale is wall seconds per second of virtual time: 0.001 makes an hour pass in 3.6 seconds. 1 is real time. 0
	// is real time in which recorded tasks take no time.
	TimeScale float64
	// Scenario is a file that states which launches fail and which machines are preempted; empty means no failures.
	Scenario string
	// Boots are the boot times from which those of simulated machines are drawn; nil means that they boot at once.
	Boots *hardware.Boots
	// Anew makes the scenario start now if no machines of an earlier broker exist.
	Anew bool
	// Seed, if above 0 and without Scenario, makes launches fail and preempts spot machines at random.
	Seed uint64
	// MaxMachines limits the number of local machines at once; 0 is a default by the number of processors.
	MaxMachines int
	// Keep is the time for which finished jobs are kept if neither their file nor their queues state one, as in a job
	// file; empty means for ever.
	Keep string
	// Limit limits the bought machines that the broker may have at a time.
	Limit config.Limit
	// DAGs is the folder watched for DAG files; empty is none.
	DAGs string
	// Policy is the file with the policy of the broker's sessions (docs/scheduling.md), watched for changes; empty is
	// the default policy.
	Policy string
	// ReserveBytes is the space that must be free on the state folder's disk. With less, no task is admitted. 0 means
	// 2 % of the disk, at most 1 GiB.
	ReserveBytes int64
	// Passive serves the API for reading only and runs nothing.
	Passive bool
	// Stores are the clouds' stores, by scheme as in grant.Mux. Tasks read and write them by the broker's grants, with
	// the broker's permissions. Data of jobs is stored in the state folder, or in the buckets that the settings of
	// Clouds name.
	Stores grant.Mux
	// Clouds are the clouds on which machines are bought. If there are none, this computer simulates every cloud of the
	// catalogue. Otherwise it simulates the others if PlayOthers is set; if not, they are not used in plans.
	Clouds     []Bought
	PlayOthers bool
	// Services are the managed services that run Spark tasks, by name in the catalogue. ServiceStores are the buckets
	// for their outputs and logs, by place (aws:us-east-1), in addition to those of Clouds.
	Services      map[string]spark.Service
	ServiceStores map[string]string
	// Play are the clouds and regions that plans use if none is bought on; an empty list is every region, and nil is
	// every cloud.
	Play map[string][]string
	// PublicURL is the URL at which bought machines reach this broker (see the function PublicURL).
	// Without it they exchange messages with the broker through the first store of the settings of Clouds.
	PublicURL string
	// Away is the time for which bought machines keep working while this broker, without a public URL, is away; 0
	// means ten minutes.
	Away time.Duration
	// BootWithin is the maximum time from the launch of a bought machine to its agent's first call; 0 means the
	// broker's default.
	BootWithin time.Duration
	// Deployment is the name or tag of bought machines; empty is a name that the state folder keeps.
	Deployment string
	// Agents are the digests of the agent's programs for bought machines; Programs are the files that they download.
	Agents   driver.Agents
	Programs cloudkit.Programs
	// Notify is notified of the end of every job.
	Notify dag.Notify
	// Secrets fetches the secrets to which jobs refer, by scheme (internal/secret).
	Secrets map[string]secret.Source
	// Agent is the command that runs on each machine; empty is this program's agent command.
	Agent   []string
	Version string
	Log     *slog.Logger
}

// Running is a host that uses a state folder.
type Running = localfiles.Running
