// Package wire is the protocol between a machine's agent and the broker's API.
// The agent dials out over HTTP with a token scoped to its cluster and rank;
// nothing dials in. The package has next to no dependencies, so
// that both sides, and the simulator, share the same types.
//
// Order of a node's life: hello, whose answer may be the work already, else it is polled until it says run; reports
// follow (started, checkpointed, succeeded or failed); work goes on being
// polled and may say checkpoint or stop.
package wire

import (
	"fmt"
	"net/url"
	"path"
	"time"
)

// Paths of the API, under the broker's endpoint. The cluster and rank are in the token.
const (
	// POST Hello -> 200 Work, where there is some already; 204, maybe with Retry-After, else
	PathHello  = "/v1/agent/hello"
	PathWork   = "/v1/agent/work"   // GET ?seen=N&wait=20s -> Work
	PathReport = "/v1/agent/report" // POST Report -> 204; 410 when the attempt is over
	PathLogs   = "/v1/agent/logs"   // POST ?attempt=A&offset=N, raw bytes -> 204; 409 with HeaderOffset
)

// PathProgram is where a new machine learns where to fetch the agent: GET PathProgram + SHA-256 -> 307.
const PathProgram = "/v1/agent/program/"

// Answers mean the same for every path: 2xx accepted; 401 and 403 the token is not (or no longer) good; 410 the
// attempt, or the whole cluster, is over. The agent stops its task and exits on these three. Anything else is tried
// again until it is accepted or the agent's patience ends.

// HeaderOffset is, in an answer of 409 to PathLogs, the offset from which the API wants the log: what lies
// before it was kept. An agent goes on from there, so neither side's restart tears the log.
const HeaderOffset = "Tradewind-Offset"

// MaxLogChunk is the most bytes of log in one request.
const MaxLogChunk = 256 << 10

// MaxReportLog is the most bytes of log that a report may carry.
const MaxReportLog = 64 << 10

// Claims is what a token proves: one node of one cluster, of one job, until it expires.
type Claims struct {
	Job     string    `json:"job"`
	Cluster string    `json:"cluster"`
	Rank    int       `json:"rank"`
	Expires time.Time `json:"expires"`
	Issued  time.Time `json:"issued,omitzero"`
	// Boot says that it is what a machine boots with, which others on it may read: it is good for one agent's hello,
	// whose answer brings another, and to fetch the agent.
	Boot bool `json:"boot,omitempty"`
	// Ranks, with Boot: it is for all of so many machines of a cluster, each of which says its rank in its hello, where
	// what they boot with has no room for a token each. 0 is the token of Rank alone.
	Ranks int `json:"ranks,omitempty"`
	// Machine is what was proved beside the token: which machine it is. No token says it.
	Machine *Machine `json:"-"`
}

// Hello registers a node; idempotent.
type Hello struct {
	Address string `json:"address"` // where the other nodes of the cluster reach it
	Version string `json:"version"` // of the agent
	// Nonce is made up by an agent when it starts. One that repeats its hello, as it had no answer, is known by it; any
	// other that comes with the same token is refused.
	Nonce string `json:"nonce,omitempty"`
	// Proof is of which machine this is, where its cloud gives one.
	Proof *Proof `json:"proof,omitempty"`
	// Rank is which machine of its cluster this is, where its token is for all of them.
	Rank int `json:"rank,omitempty"`
}

// Command is what the broker wants of a node.
type Command string

// The commands.
const (
	None       Command = "none"       // nothing new; poll again
	Run        Command = "run"        // start the assignment
	SaveNow    Command = "checkpoint" // the machine will be taken at Work.Until: save what there is, then stop the task
	Stop       Command = "stop"       // end the task without a result and exit
	Disconnect Command = "disconnect" // nothing more will come: exit
)

// Work is the newest command for a node. Seq grows with each; an agent passes the last one
// it saw, and the call waits until there is a newer one.
type Work struct {
	Seq        int         `json:"seq"`
	Command    Command     `json:"command"`
	Assignment *Assignment `json:"assignment,omitempty"` // with Run
	Until      time.Time   `json:"until,omitzero"`       // with SaveNow, in the agent's wall clock
	// Notice is how long the machine has left, with SaveNow.
	Notice time.Duration `json:"notice,omitempty"`
	// Now says, with SaveNow, that nobody takes the machine: a replica of a service, which else goes on for most of the
	// time that it has left, ends at once.
	Now bool `json:"now,omitempty"`
	// Pause is how long to wait before asking again, of a broker that does not hold calls; also after a command.
	Pause time.Duration `json:"pause,omitempty"`
	// Token is to be used from now on; empty leaves the one that was sent.
	Token string `json:"token,omitempty"`
	// Visits is how many have been opened on the attempt's machines so far: more than an agent has seen are asked for.
	Visits int `json:"visits,omitempty"`
}

// Pace is how often an agent calls while it works, for brokers to which each call costs. Zero leaves it to the agent.
// Wall time.
type Pace struct {
	Alive time.Duration `json:"alive,omitempty"` // between signs of life
	// between the first pieces of log; those of a long task come farther and farther apart
	Log time.Duration `json:"log,omitempty"`
	// Polls says that asking for work is a sign of life, and that no others are wanted.
	Polls bool `json:"polls,omitempty"`
	// Tail is up to how many bytes the end of a log travels with the last report, instead of in a call of its own; 0 is
	// never.
	Tail int64 `json:"tail,omitempty"`
}

// Assignment is one attempt of a task, as a node has to run it.
type Assignment struct {
	Job     string `json:"job"`
	JobName string `json:"jobName"`
	Task    string `json:"task"`
	Attempt string `json:"attempt"`
	// Nodes are the addresses of all nodes by rank, the first is the rendezvous.
	Nodes []string `json:"nodes"`
	// KeepOnFailure is how long the node keeps what a task that fails has left for people to look at; wall time.
	KeepOnFailure time.Duration `json:"keepOnFailure,omitempty"`
	// Gang is where the others of the task's gang are, and what framework they work in; nil where there is neither.
	Gang *Gang `json:"gang,omitempty"`
	// Exchange is a secret of the attempt's nodes, by which they know each other while they pass on what they read from
	// the store; empty where there is one node.
	Exchange []byte `json:"exchange,omitempty"`
	Setup    string `json:"setup,omitempty"`
	Run      string `json:"run,omitempty"`
	// Login has Setup and Run run in an interactive shell, after ~/.bashrc.
	Login bool              `json:"login,omitempty"`
	Env   map[string]string `json:"env,omitempty"`
	// Secrets are variables over Env that are kept by nobody but the task's own processes. What the task prints of them
	// is masked, and nothing prints the rest.
	Secrets Secrets `json:"secrets,omitempty"`
	// Refused says that the task's secrets cannot be had, and why: it fails before anything is staged.
	Refused string `json:"refused,omitempty"`
	// Image is the container image in which Setup and Run run; empty is the machine itself.
	Image string `json:"image,omitempty"`
	// Accelerators of each node, for CUDA-style variables and SKYPILOT_NUM_GPUS_PER_NODE.
	Accelerators float64 `json:"accelerators,omitempty"`
	// Workdir is staged first, then Inputs.
	Workdir string   `json:"workdir,omitempty"`
	Inputs  []Input  `json:"inputs,omitempty"`
	Outputs []Output `json:"outputs,omitempty"`
	// Store is the bucket URL under which this job keeps outputs and checkpoints
	// (file:///…, s3://…); Prefix the task's own place in it.
	Store  string `json:"store"`
	Prefix string `json:"prefix"`
	// Parents are, by task name, the prefixes of the parents' outputs: OutputPrefix of the parent's Prefix and of its
	// attempt that succeeded. They are staged to $TRADEWIND_INPUTS/<task>/ (and <task>/<rank>/ where the parent had
	// several nodes).
	Parents map[string]string `json:"parents,omitempty"`
	// Only are, by the name of a parent of which not all is read, the paths in its output that are, with all below
	// them.
	Only map[string][]string `json:"only,omitempty"`
	// Nothing are parents that left nothing, or of which nothing is read, for which there is an empty directory.
	Nothing []string `json:"nothing,omitempty"`
	// Checkpoint is nil when the task keeps none.
	Checkpoint *Checkpoint `json:"checkpoint,omitempty"`
	// StandIn is the wall time a task without a command takes from beginning to end; Progress the share of it done
	// before.
	StandIn  time.Duration `json:"standIn,omitempty"`
	Progress float64       `json:"progress,omitempty"`
	Pace     Pace          `json:"pace,omitzero"`
	// Service is what the node has to know of a task that is a replica of a service; nil of one that ends.
	Service *Service `json:"service,omitempty"`
}

// OutputPrefix is where one attempt of a task keeps its outputs: below the task's own Prefix, apart for each attempt,
// so that an attempt that was given up can never mix its files with those of the one that replaced it.
func OutputPrefix(prefix, attempt string) string {
	return path.Join(prefix, "out", url.PathEscape(attempt)) + "/"
}

// CheckpointPrefix is where one attempt keeps its checkpoint seq, for the same reason.
func CheckpointPrefix(prefix, attempt string, seq int) string {
	return path.Join(prefix, "ckpt", fmt.Sprintf("%06d-%s", seq, url.PathEscape(attempt))) + "/"
}

// Input is data to stage, or to mount, before the task starts.
type Input struct {
	URI  string `json:"uri"`
	Path string `json:"path"`
	// Mount is how it is mounted: read, write or cached; empty is that it is copied.
	Mount string `json:"mount,omitempty"`
	// Source is what is uploaded to the URI first: a pack.
	Source string `json:"source,omitempty"`
}

// Output is data to keep after the task succeeded: Path below $TRADEWIND_OUTPUT (all of it when empty), also copied to
// URI.
type Output struct {
	Name string `json:"name"`
	Path string `json:"path,omitempty"`
	URI  string `json:"uri,omitempty"`
	// OnFailure has it copied to URI also when the command fails, where it is there then.
	OnFailure bool `json:"onFailure,omitempty"`
}

// Checkpoint says how to save progress. In a task of several nodes it is the directory of rank 0 that is saved, and
// every node gets it back: what frameworks that save from their first rank expect.
type Checkpoint struct {
	Every time.Duration `json:"every,omitempty"` // wall time; 0 is only on notice
	Path  string        `json:"path"`
	// Restore is the checkpoint to start from: a prefix in the store; empty starts anew.
	Restore string `json:"restore,omitempty"`
	// Next is the sequence number of the first checkpoint this attempt writes.
	Next int `json:"next"`
}

// The phases of an attempt, in their order; Report.Phase is the one in which it failed.
const (
	PhaseStage   = "stage"   // work directory, inputs, parents' outputs, checkpoint
	PhaseSetup   = "setup"   // the set-up script
	PhaseRun     = "run"     // the task's command
	PhaseOutputs = "outputs" // keeping what it left
)

// Event is what happened to an attempt on one node.
type Event string

// The events of a node.
const (
	Started      Event = "started"      // set-up and staging done, the task's process runs
	Checkpointed Event = "checkpointed" // a checkpoint is complete in the store
	Succeeded    Event = "succeeded"    // exit code 0 and outputs kept
	Failed       Event = "failed"       // the task's own failure
	Stopped      Event = "stopped"      // ended on command; not a result
	Alive        Event = "alive"        // heartbeat
	NoticeSeen   Event = "notice"       // the machine learnt that it will be taken
	// Ready and Unready are told of a replica of a service when that changes, by rank 0.
	Ready   Event = "ready"
	Unready Event = "unready"
)

// Report tells the broker of an Event. Sending it twice changes nothing: ID is its idempotency token.
type Report struct {
	ID      string `json:"id"` // unique per node and attempt
	Attempt string `json:"attempt"`
	Event   Event  `json:"event"`
	// Checkpoint, with Checkpointed: its sequence number and prefix in the store.
	Seq    int    `json:"seq,omitempty"`
	Prefix string `json:"prefix,omitempty"`
	// Progress of a stand-in, 0 to 1, with Checkpointed and Alive.
	Progress float64 `json:"progress,omitempty"`
	ExitCode int     `json:"exitCode,omitempty"`
	Phase    string  `json:"phase,omitempty"`   // with Failed
	Message  string  `json:"message,omitempty"` // the last lines of its log, or what could not be staged
	// Keep is for how long the node keeps what the task has left for people to look at, with Failed; wall time.
	Keep time.Duration `json:"keep,omitempty"`
	// Empty says, with Succeeded, that the only node of an attempt left nothing: there is no manifest of its outputs.
	Empty bool `json:"empty,omitempty"`
	// Notice is how long the machine has left, with NoticeSeen.
	Notice time.Duration `json:"notice,omitempty"`
	// Port is where the replica listens, with Ready; 0 is nowhere. Why it is not, with Unready, says Message.
	Port int `json:"port,omitempty"`
	// Log is the end of the node's log, from byte LogFrom on, where Pace.Tail allows it; at most MaxReportLog. It is
	// kept before the report counts. 409 with HeaderOffset says that what lies before it is missing.
	Log     []byte `json:"log,omitempty"`
	LogFrom int64  `json:"logFrom,omitempty"`
	// Moved is what the node has exchanged with stores since the attempt began, all in all; at most MaxMoved stores.
	Moved []Moved `json:"moved,omitempty"`
}

// MaxMoved is of how many stores a report tells.
const MaxMoved = 50

// Moved is what a node has exchanged with one store, bytes of the bodies of requests and answers.
type Moved struct {
	Store    string `json:"store"` // SCHEME://BUCKET
	Sent     int64  `json:"sent,omitempty"`
	Received int64  `json:"received,omitempty"`
}
