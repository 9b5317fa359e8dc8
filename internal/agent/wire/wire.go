// Package wire is the protocol between a machine's agent and the broker's API. The agent dials out over HTTP with a
// token that is scoped to its cluster and rank; nothing dials in. The package has almost no dependencies, so the
// broker, the agent and the simulator share the same types.
//
// A node first sends Hello; the answer may already contain work. Otherwise the node polls for work until the command
// is run. Then it sends reports (started, checkpointed, succeeded or failed) and continues to poll, because a later
// command may be checkpoint or stop.
package wire

import (
	"fmt"
	"maps"
	"net/url"
	"path"
	"slices"
	"time"

	"github.com/tradewind-broker/tradewind/pkg/apitypes"
)

// Paths of the API, relative to the broker's endpoint. The cluster and rank are in the token.
const (
	// POST Hello -> 200 Work if the broker already has work; otherwise 204, possibly with Retry-After
	PathHello  = "/v1/agent/hello"
	PathWork   = "/v1/agent/work"   // GET ?seen=N&wait=20s -> Work
	PathReport = "/v1/agent/report" // POST Report -> 204; 410 if the attempt has finished
	PathLogs   = "/v1/agent/logs"   // POST ?attempt=A&offset=N&times=T, raw bytes -> 204; 409 with HeaderOffset
)

// PathProgram returns where a new machine can download the agent: GET PathProgram + SHA-256 -> 307.
const PathProgram = "/v1/agent/program/"

// Status codes mean the same for every path: 2xx is accepted; 401 and 403 mean that the token is not valid (or no
// longer valid); 410 means that the attempt, or the whole cluster, has finished. On 401, 403 and 410 the agent stops
// its task and exits. It retries every other status until the call is accepted or the agent's patience ends.

// Patience is the wall time for which an agent keeps working after its last accepted call (pieces of log do not
// count), and for which the broker waits for a call before it gives an agent up. It is longer than an outage of half
// an hour. An agent whose other calls are accepted repeats a failing one for twice as long.
const Patience = 35 * time.Minute

// HeaderOffset is set in a 409 answer to PathLogs: the offset from which the broker wants the log, because it already
// stored everything before it. The agent continues from there, so that the log has no gap when either side restarts.
const HeaderOffset = "Tradewind-Offset"

// MaxLogChunk is the maximum size of the log in one request, in bytes.
const MaxLogChunk = 256 << 10

// MaxReportLog is the maximum size of the log in a report, in bytes.
const MaxReportLog = 64 << 10

// Claims is what a token proves: the caller is one node of one cluster of one job, until the token expires.
type Claims struct {
	Job     string    `json:"job"`
	Cluster string    `json:"cluster"`
	Rank    int       `json:"rank"`
	Expires time.Time `json:"expires"`
	Issued  time.Time `json:"issued,omitzero"`
	// Boot marks a token with which a machine boots, and which other processes on the machine may read. It is valid
	// for one hello (whose answer contains another token) and for downloading the agent.
	Boot bool `json:"boot,omitempty"`
	// Ranks, with Boot, is the number of machines that share this token, for clouds whose boot data has no room for one
	// token for each machine. Each machine sends its rank in its hello. If 0, the token is for Rank only.
	Ranks int `json:"ranks,omitempty"`
	// Member is the member of the cluster's chunk that a request is about; empty is the cluster's own attempt. It is
	// never part of a token.
	Member string `json:"-"`
	// Machine is the machine that was proved in addition to the token. It is never part of a token.
	Machine *Machine `json:"-"`
}

// Hello registers a node; idempotent.
type Hello struct {
	Address string `json:"address"` // address by which the other nodes of the cluster can reach this node
	Version string `json:"version"` // of the agent
	// Nonce is random and chosen when an agent starts. It identifies an agent that repeats its hello because it got no
	// answer. The broker refuses a hello with the same token and another nonce.
	Nonce string `json:"nonce,omitempty"`
	// Proof identifies the machine, if its cloud offers a proof.
	Proof *Proof `json:"proof,omitempty"`
	// Rank is the machine's rank in its cluster, if its token is for all machines of the cluster.
	Rank int `json:"rank,omitempty"`
}

// Command is an order to a node.
type Command string

// The commands.
const (
	None        Command = "none"       // nothing new; poll again
	Run         Command = "run"        // start the assignment
	SaveAndStop Command = "checkpoint" // the machine will be taken at Work.Until: save a checkpoint, then stop the task
	Stop        Command = "stop"       // end the task without a result and exit
	Disconnect  Command = "disconnect" // there is no more work: exit
)

// Work is the newest command for a node. Seq grows with each command. An agent passes the last Seq that it saw, and the
// call waits until there is a newer one.
type Work struct {
	Seq        int         `json:"seq"`
	Command    Command     `json:"command"`
	Assignment *Assignment `json:"assignment,omitempty"` // with Run
	Until      time.Time   `json:"until,omitzero"`       // with SaveNow, on the agent's wall clock
	// Notice is the time until the machine is preempted, with SaveNow.
	Notice time.Duration `json:"notice,omitempty"`
	// Now means, with SaveNow, that the machine is not about to be taken: a replica of a service should end at once
	// instead of serving for most of its remaining time.
	Now bool `json:"now,omitempty"`
	// Pause is the time to wait before the next poll, also after a command. It is for brokers that do not hold calls.
	Pause time.Duration `json:"pause,omitempty"`
	// Token replaces the agent's token; if empty, the agent keeps its token.
	Token string `json:"token,omitempty"`
	// Visits is the number of visits to the attempt's machines that were opened so far. If the agent knows fewer, it
	// requests the others.
	Visits int `json:"visits,omitempty"`
}

// Pace states how often an agent calls while it works, for brokers that pay for each call. Zero values leave it to
// the agent. Times are wall time.
type Pace struct {
	Alive time.Duration `json:"alive,omitempty"` // between heartbeats
	// between the first pieces of log; the interval grows for long tasks
	Log time.Duration `json:"log,omitempty"`
	// Polls means that a poll for work counts as a heartbeat, and that the agent should send no others.
	Polls bool `json:"polls,omitempty"`
	// Tail is the maximum number of bytes at the end of a log that are sent in the last report, instead of in a call of
	// their own; 0 is never.
	Tail int64 `json:"tail,omitempty"`
	// Quiet is the time that a task may run before its start and its log are reported. If it succeeds before, its end
	// is its only report.
	Quiet time.Duration `json:"quiet,omitempty"`
}

// Assignment is one attempt of a task, for one node.
type Assignment struct {
	Job     string `json:"job"`
	JobName string `json:"jobName"`
	Task    string `json:"task"`
	Attempt string `json:"attempt"`
	// Nodes are the addresses of all nodes by rank. The first is the rendezvous.
	Nodes []string `json:"nodes"`
	// KeepOnFailure is the wall time for which the node keeps the files of a failed task for users to inspect.
	KeepOnFailure time.Duration `json:"keepOnFailure,omitempty"`
	// Gang describes the other members of the task's gang and their framework. It is nil if the task has neither.
	Gang *Gang `json:"gang,omitempty"`
	// Exchange is a secret that the attempt's nodes share. With it they authenticate when they send each other data
	// that they have read from the store. It is empty if there is only one node.
	Exchange []byte `json:"exchange,omitempty"`
	Setup    string `json:"setup,omitempty"`
	Run      string `json:"run,omitempty"`
	// Timeout ends the attempt when Setup and Run together have taken so long; wall time, 0 is no limit.
	Timeout time.Duration `json:"timeout,omitempty"`
	// Login runs Setup and Run in an interactive shell, after ~/.bashrc.
	Login bool              `json:"login,omitempty"`
	Env   map[string]string `json:"env,omitempty"`
	// Secrets are variables that override Env. Only the task's own processes get them. They are masked in the task's
	// output, and no other program prints them.
	Secrets Secrets `json:"secrets,omitempty"`
	// Refused is the reason why the task's secrets are not available, or empty. With a reason, the task fails before
	// staging.
	Refused string `json:"refused,omitempty"`
	// Image is the container image in which Setup and Run run; if empty, they run on the machine itself.
	Image string `json:"image,omitempty"`
	// MemoryBytes limits the memory of Setup and Run, on a machine that is shared with other work; 0 is no limit. VCPUs
	// is then the task's share of a busy CPU; 0 is no share.
	MemoryBytes int64   `json:"memoryBytes,omitempty"`
	VCPUs       float64 `json:"vcpus,omitempty"`
	// Accelerators of each node, for CUDA-style variables and SKYPILOT_NUM_GPUS_PER_NODE.
	Accelerators float64 `json:"accelerators,omitempty"`
	// Workdir is staged first, then Inputs.
	Workdir string   `json:"workdir,omitempty"`
	Inputs  []Input  `json:"inputs,omitempty"`
	Outputs []Output `json:"outputs,omitempty"`
	// FirstHasOutputs means that the task collects the outputs of all nodes on the first one. The others have none.
	FirstHasOutputs bool `json:"firstHasOutputs,omitempty"`
	// Store is the URL of the bucket in which this job keeps outputs and checkpoints (file:///…, s3://…). Prefix is the
	// task's own prefix in it.
	Store  string `json:"store"`
	Prefix string `json:"prefix"`
	// Packs is the URL of the bucket with the packs of code and files, if it is not Store.
	Packs string `json:"packs,omitempty"`
	// Parents maps parent task names to the prefixes of their outputs: OutputPrefix of the parent's Prefix and of its
	// attempt that succeeded. They are staged to $TRADEWIND_INPUTS/<task>/, or to <task>/<rank>/ if the parent had
	// several nodes.
	Parents map[string]string `json:"parents,omitempty"`
	// Only lists, for a parent whose output is read in part, the paths that are read, each with everything below it.
	PartialParents map[string][]string `json:"only,omitempty"`
	// Nothing lists parents that have no outputs, or whose outputs are not read. The task gets an empty directory for
	// each.
	EmptyParents []string `json:"nothing,omitempty"`
	// ListedParents are the URIs of the outputs of parents that a managed service ran. They have no manifest.
	ListedParents map[string]string `json:"listed,omitempty"`
	// Checkpoint is nil if the task has no checkpoints.
	Checkpoint *Checkpoint `json:"checkpoint,omitempty"`
	// StandIn is the total wall time that a task without a command takes. Progress is the share of it that earlier
	// attempts have done.
	StandIn  time.Duration `json:"standIn,omitempty"`
	Progress float64       `json:"progress,omitempty"`
	Pace     Pace          `json:"pace,omitzero"`
	// Service describes the service if the task is a replica of one; otherwise nil.
	Service *Service `json:"service,omitempty"`
	// Chunk lists the members of the task's array that run after it, one after the other. Their assignment is this
	// one, with their own names, addresses and variables.
	Chunk []ChunkMember `json:"chunk,omitempty"`
	// Worker is set if the machine is a worker: it runs no task itself but becomes a machine of a pool.
	Worker *Worker `json:"worker,omitempty"`
}

// ChunkMember has the fields of an assignment that differ for another member of its chunk.
type ChunkMember struct {
	Task    string            `json:"task"`
	Attempt string            `json:"attempt"` // names its log and its outputs; its calls use the token of the chunk
	Prefix  string            `json:"prefix"`
	Env     map[string]string `json:"env,omitempty"`
	Inputs  []Input           `json:"inputs,omitempty"`
	Outputs []Output          `json:"outputs,omitempty"`
}

// Member returns the assignment of another member of a task's chunk.
func (a *Assignment) Member(m ChunkMember) *Assignment {
	of := *a
	of.Task, of.Attempt, of.Prefix, of.Chunk = m.Task, m.Attempt, m.Prefix, nil
	of.Inputs, of.Outputs = m.Inputs, m.Outputs
	of.Env = maps.Clone(a.Env)
	maps.Copy(of.Env, m.Env)
	return &of
}

// Worker is the place of a worker in the pool of its job.
type Worker struct {
	Pool     string             `json:"pool"`
	Machine  string             `json:"machine"`
	Token    apitypes.PoolToken `json:"token"` // with which it syncs
	Type     string             `json:"type"`
	Capacity PoolCapacity       `json:"capacity"`
}

// OutputPrefix returns the prefix of the outputs of one attempt of a task, below the task's Prefix. Attempts have
// separate prefixes, so that an abandoned attempt never mixes its files with those of its replacement.
func OutputPrefix(prefix, attempt string) string {
	return path.Join(prefix, "out", url.PathEscape(attempt)) + "/"
}

// CheckpointPrefix returns the prefix of checkpoint seq of one attempt. It contains the attempt for the same reason.
func CheckpointPrefix(prefix, attempt string, seq int) string {
	return path.Join(prefix, "ckpt", fmt.Sprintf("%06d-%s", seq, url.PathEscape(attempt))) + "/"
}

// Input is data to stage, or to mount, before the task starts.
type Input struct {
	URI  string `json:"uri"`
	Path string `json:"path"`
	// Mount is the mode in which the input is mounted: read, write or cached. If it is empty, the input is copied.
	Mount string `json:"mount,omitempty"`
	// Source is a pack that is uploaded to the URI first.
	Source string `json:"source,omitempty"`
}

// Output is data to keep after the task succeeded: Path below $TRADEWIND_OUTPUT (all of it if empty), also copied to
// URI.
type Output struct {
	Name string `json:"name"`
	Path string `json:"path,omitempty"`
	URI  string `json:"uri,omitempty"`
	// OnFailure copies the output to URI also if the command fails, provided that the output exists.
	OnFailure bool `json:"onFailure,omitempty"`
}

// Checkpoint states how to save progress. In a task of several nodes, only the directory of rank 0 is saved, and
// every node gets it back. Frameworks that save from their first rank expect this.
type Checkpoint struct {
	Every time.Duration `json:"every,omitempty"` // wall time; 0 means only on notice
	Path  string        `json:"path"`
	// Restore is the prefix in the store of the checkpoint to start from; if empty, the task starts from the beginning.
	Restore string `json:"restore,omitempty"`
	// Next is the sequence number of the first checkpoint this attempt writes.
	Next int `json:"next"`
}

// The phases of an attempt, in order. Report.Phase is the phase in which it failed.
const (
	PhaseStage   = "stage"   // work directory, inputs, parents' outputs, checkpoint
	PhaseSetup   = "setup"   // the setup script
	PhaseRun     = "run"     // the task's command
	PhaseOutputs = "outputs" // uploading its outputs
	PhaseTimeout = "timeout" // setup or run, ended because the task's timeout had passed
)

// Values of Report.Fault: the part that failed instead of the task.
const (
	FaultDisk  = "disk"  // the machine's disk is full
	FaultStore = "store" // the disk of a store is full: of the job's data, or of an output
)

// Event is a change of an attempt on one node.
type Event string

// The events of a node.
const (
	Started      Event = "started"      // staging and setup are done, the task's process runs
	Checkpointed Event = "checkpointed" // a checkpoint is complete in the store
	Succeeded    Event = "succeeded"    // exit code 0 and outputs kept
	Failed       Event = "failed"       // the task's own failure
	Stopped      Event = "stopped"      // ended on command; not a result
	Alive        Event = "alive"        // heartbeat
	NoticeSeen   Event = "notice"       // the machine learnt that it will be taken
	// Ready and Unready are sent by rank 0 when a replica of a service becomes ready or stops being ready.
	Ready   Event = "ready"
	Unready Event = "unready"
)

// Report sends an Event to the broker. Sending it twice changes nothing: ID is its idempotency token.
type Report struct {
	ID      string `json:"id"` // unique per node and attempt
	Attempt string `json:"attempt"`
	Event   Event  `json:"event"`
	// Seq and Prefix are the checkpoint's sequence number and its prefix in the store, with Checkpointed.
	Seq    int    `json:"seq,omitempty"`
	Prefix string `json:"prefix,omitempty"`
	// Progress of a stand-in, 0 to 1, with Checkpointed and Alive.
	Progress float64 `json:"progress,omitempty"`
	ExitCode int     `json:"exitCode,omitempty"`
	Phase    string  `json:"phase,omitempty"`   // with Failed
	Message  string  `json:"message,omitempty"` // the last lines of its log, or which file could not be staged
	// Fault is set with Failed if the machine or a store failed, not the task: the task is to run elsewhere.
	Fault string `json:"fault,omitempty"`
	// Keep is the wall time for which the node keeps the task's files for users to inspect, with Failed.
	Keep time.Duration `json:"keep,omitempty"`
	// Empty means, with Succeeded, that the attempt has one node and no outputs: there is no manifest of its outputs.
	Empty bool `json:"empty,omitempty"`
	// Ran is for how long the task had run, with Succeeded, if its start was not reported, and with Started; wall time.
	Ran time.Duration `json:"ran,omitempty"`
	// Notice is the time until the machine is preempted, with NoticeSeen.
	Notice time.Duration `json:"notice,omitempty"`
	// Port is the port on which the replica listens, with Ready; 0 if it does not listen. With Unready, Message is
	// the reason why it is not ready.
	Port int `json:"port,omitempty"`
	// Log is the end of the node's log, starting at byte LogFrom, if Pace.Tail allows it; at most MaxReportLog bytes.
	// The broker stores it before the report counts. 409 with HeaderOffset means that earlier parts of the log are
	// missing.
	Log     []byte `json:"log,omitempty"`
	LogFrom int64  `json:"logFrom,omitempty"`
	// LogTimes has the times at which Log was written; see FormatMarks.
	LogTimes string `json:"logTimes,omitempty"`
	// Chunk has the ends of the other members of the attempt's chunk, with Succeeded. Members that are missing did
	// not run, or not to their end.
	Chunk []ChunkEnd `json:"chunk,omitempty"`
	// Moved is the node's total traffic with each store since the attempt began; at most MaxMoved stores.
	Moved []Moved `json:"moved,omitempty"`
}

// HasLog reports whether a report carries the end of a log.
func (r *Report) HasLog() bool {
	return len(r.Log) > 0 || slices.ContainsFunc(r.Chunk, func(e ChunkEnd) bool { return len(e.Log) > 0 })
}

// WithoutLog returns the report without the ends of logs.
func (r Report) WithoutLog() Report {
	r.Log, r.LogFrom, r.LogTimes = nil, 0, ""
	r.Chunk = slices.Clone(r.Chunk)
	for i := range r.Chunk {
		e := &r.Chunk[i]
		e.Log, e.LogFrom, e.LogTimes = nil, 0, ""
	}
	return r
}

// ChunkEnd is the end of another member of a chunk. The fields are those of Report.
type ChunkEnd struct {
	Attempt  string        `json:"attempt"`
	Ran      time.Duration `json:"ran"`
	Failed   bool          `json:"failed,omitempty"`
	ExitCode int           `json:"exitCode,omitempty"`
	Phase    string        `json:"phase,omitempty"`
	Message  string        `json:"message,omitempty"`
	Empty    bool          `json:"empty,omitempty"`
	Log      []byte        `json:"log,omitempty"`
	LogFrom  int64         `json:"logFrom,omitempty"`
	LogTimes string        `json:"logTimes,omitempty"`
}

// MaxMoved is the maximum number of stores in a report.
const MaxMoved = 50

// Moved is a node's traffic with one store, in bytes of request and response bodies.
type Moved struct {
	Store    string `json:"store"` // SCHEME://BUCKET
	Sent     int64  `json:"sent,omitempty"`
	Received int64  `json:"received,omitempty"`
}
