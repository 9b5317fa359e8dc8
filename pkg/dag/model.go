package dag

import (
	"strings"
	"time"

	"github.com/tradewind-broker/tradewind/internal/base/fault"
	"github.com/tradewind-broker/tradewind/pkg/dag/internal/jobtext"
)

// GiB is an amount of data in binary gigabytes (2^30 bytes).
type GiB float64

// USD is an amount of money in United States dollars.
type USD float64

// Objective is what a plan minimises.
type Objective string

// The objectives of a job (intercloud-broker paper, equations 1 and 2).
const (
	MinimizeCost     Objective = "cost"
	MinimizeMakespan Objective = "makespan"
	// MinimizeWeighted is a weighted sum of both (section Optimizer: "any combination of cost and time").
	MinimizeWeighted Objective = "weights"
)

// Weights are those of MinimizeWeighted: a plan minimises Cost × its USD plus Time × its hours. So Time/Cost is the
// value of an hour in USD.
type Weights struct {
	Cost float64 `json:"cost"`
	Time float64 `json:"time"`
}

// Market is how capacity is bought.
type Market string

// The markets that a task may request. With auto the broker chooses.
const (
	MarketAuto     Market = "auto"
	MarketSpot     Market = "spot"
	MarketOnDemand Market = "on-demand"
)

// Infeasible states what happens to a job if no place is feasible.
type Infeasible string

// Fail ends the job. Wait tries again when a block expires or a price changes (paper, section Provisioner: "either an
// error is returned … or the provisioner can be configured to wait and retry"). Retry, the default, waits if only
// blocked places prevent a plan, and fails if no place is suitable: a block ends some day, but waiting does not help
// if the budget is too small.
const (
	Retry Infeasible = "retry"
	Fail  Infeasible = "fail"
	Wait  Infeasible = "wait"
)

// Format is the format of the file that a job was read from.
type Format string

// The formats of jobs.
const (
	Native   Format = "tradewind"
	SkyPilot Format = "skypilot"
	WfFormat Format = "wfformat"
	DAX      Format = "dax"
	TES      Format = "tes" // no file: a task of the GA4GH API
	// Kubernetes are the manifests of Jobs, JobSets, and Volcano's and Kubeflow's jobs.
	Kubernetes Format = "kubernetes"
	// Slurm is for batch scripts with #SBATCH lines.
	Slurm Format = "slurm"
)

// Job is a directed acyclic graph of batch tasks with its objective and limits.
// A Job that a reader returned is valid: its tasks have unique names, its edges
// are acyclic and every number is finite and within its limits.
type Job struct {
	Name string `json:"name"`
	// Description is for people; no code uses it.
	Description string `json:"description,omitempty"`

	Objective Objective     `json:"objective"`
	Weights   *Weights      `json:"weights,omitempty"`  // of MinimizeWeighted, else nil
	Deadline  time.Duration `json:"deadline,omitempty"` // from submission to the end of the last task; 0 is none
	Budget    USD           `json:"budget,omitempty"`   // 0 is none
	Queue     string        `json:"queue,omitempty"`
	Namespace string        `json:"namespace,omitempty"` // its users share the capacity of their queues
	Priority  int           `json:"priority,omitempty"`  // higher first
	// Announce is the topic, pubsub://PROJECT/TOPIC, that the end of the job is published to; empty is none.
	Announce string `json:"announce,omitempty"`
	// Notify lists the recipients that are notified when the job ends.
	Notify Notify `json:"notify,omitzero"`
	// KeepOnFailure is the time for which the machines of a failed attempt are kept for users to inspect, within the
	// budget; 0 means that they are not kept.
	KeepOnFailure time.Duration `json:"keepOnFailure,omitempty"`
	// Keep is the time for which the job's records, logs and outputs are kept after its end: KeepForever, or a time.
	// With 0, the queue decides.
	Keep time.Duration `json:"keep,omitempty"`
	// Infeasible states what to do if no place is feasible: Retry (the default), Fail or Wait.
	Infeasible Infeasible `json:"infeasible,omitempty"`
	// Patience is the maximum time that the job waits while no place is feasible and none of its tasks runs. 0 is a
	// day, or until the deadline if that is later; with Wait it is no limit.
	Patience time.Duration `json:"patience,omitempty"`
	// Regions limits every task to these places ("aws", "gcp:europe-west4"); empty allows all.
	Regions []string `json:"regions,omitempty"`
	// Placement has rules about the relative places of machines of several tasks; see Groups.
	Placement []Placement `json:"placement,omitempty"`
	// OnFailure is the reaction when a task has failed for good: StopJob (the default) or ContinueJob.
	OnFailure OnFailure `json:"onFailure,omitempty"`
	// Tasks are in the order of the file. Edges refer to them by index.
	Tasks []Task `json:"tasks"`
	// Arrays lists the arrays, sorted by First. Their members are in Tasks.
	Arrays []Array `json:"arrays,omitempty"`
	// Edges made by a reader are in the order of MergeEdges: by To, then by From.
	Edges  []Edge `json:"edges,omitempty"`
	Format Format `json:"format"`
	// Document is the request from which an API made the job, so that the API can return it; no other code uses it.
	Document string `json:"document,omitempty"`
	// Stated are the values of secrets in the file. They are not stored with the job.
	Stated SecretValues `json:"-"`
	// Warnings are about requests in the file that Tradewind reads but ignores.
	// There are at most MaxWarnings.
	Warnings []string `json:"warnings,omitempty"`

	origin *Origin      // the positions in the file; nil unless a reader made the job
	unset  fault.Faults // the variables that the file declares without a value
}

// Edge is a dependency: To starts after From succeeded, and reads Data GiB of its outputs.
// There is at most one edge from one task to another.
type Edge struct {
	From int `json:"from"`
	To   int `json:"to"`
	Data GiB `json:"data,omitempty"`
	// Outputs names the outputs of From that To reads: nil is all of them, empty is none (the edge only orders the
	// two).
	Outputs []string `json:"outputs,omitzero"`
	// All means that To waits for the whole array of From: members that failed within AllowFailures do not hold it.
	// Each means that both are members of arrays, at the same position.
	All  bool `json:"all,omitempty"`
	Each bool `json:"each,omitempty"`
}

// Task is one unit of work: it runs on Nodes machines of one offer and ends with an exit code.
type Task struct {
	Name  string `json:"name"`
	Setup string `json:"setup,omitempty"` // shell script, once on each machine before Run
	Run   string `json:"run,omitempty"`   // shell script, on each machine; empty if it has Recorded or Spark instead
	// Spark is the Spark application that the task runs; see MakeSpark.
	Spark *SparkApp `json:"spark,omitempty"`
	// Executors is the number of executors of a Spark task: on machines, each is one of Nodes.
	Executors Range `json:"executors,omitzero"`
	// Services are the alternatives of a Spark task that are services, in addition to Resources.
	Services []Resources `json:"services,omitempty"`
	// Login runs the scripts in an interactive shell, after ~/.bashrc, as SkyPilot does.
	Login bool `json:"login,omitempty"`
	// Env may be shared between tasks, so it must not be changed.
	Env map[string]string `json:"env,omitempty"`
	// Labels identify the task in placement rules of other tasks.
	Labels map[string]string `json:"labels,omitempty"`
	// Placement has rules about the relative places of its machines, and of tasks with certain labels.
	Placement []Placement `json:"placement,omitempty"`
	// Secrets names variables whose values are passed separately and never printed, in byte order. They are not in
	// Env.
	Secrets []string `json:"secrets,omitempty"`
	Workdir string   `json:"workdir,omitempty"` // staged to each machine; a directory, a bucket URL, or a pack
	// Repository takes the place of Workdir until the job is submitted: then it is cloned and packed.
	Repository *Repository `json:"repository,omitempty"`
	// Nodes is the number of machines that run the task together: the least one if MaxNodes is set.
	Nodes int `json:"nodes"`
	// MaxNodes is the largest number of machines that a plan may choose; 0 is Nodes.
	MaxNodes int `json:"maxNodes,omitempty"`
	// Resources are the alternatives for the task's machines, at least one. An empty alternative matches any machine.
	Resources []Resources `json:"resources"`
	// Ordered tries the alternatives in the given order, not the cheapest first.
	Ordered bool `json:"ordered,omitempty"`
	// Inputs are data in buckets or on disk that exist before the job starts.
	Inputs []Input `json:"inputs,omitempty"`
	// Outputs are saved in the job's store, for the task's children or the user.
	Outputs    []Output     `json:"outputs,omitempty"`
	Checkpoint *Checkpoint  `json:"checkpoint,omitempty"`
	Time       TimeEstimate `json:"time"`
	// Reference is the machine type on which Time was measured; empty is m6i.xlarge.
	Reference string `json:"reference,omitempty"`
	// Learned is the run time in earlier jobs of the same name; nil until the job is submitted, or if
	// nothing is known.
	Learned *Learned `json:"learned,omitempty"`
	// Recorded is the measured run time of an imported task without a command: it runs as a timed stand-in. Its
	// inputs and outputs are only sizes for planning; nothing is staged.
	Recorded time.Duration `json:"recorded,omitempty"`
	// Retries is the number of times that the task is tried again after its own failures (its exit code). Failures of
	// the cloud do not count.
	Retries int `json:"retries,omitempty"`
	// Timeout ends an attempt whose setup and run together take longer; 0 means no limit. The task has then failed,
	// and is not tried again.
	Timeout time.Duration `json:"timeout,omitempty"`
	// Gang names a group of tasks of the job that start together or not at all, at most MaxGang; empty is none. All
	// of them wait for the same tasks.
	Gang string `json:"gang,omitempty"`
	// Joins names a running gang that the task's machines join, and can leave again without ending it: they are
	// additional machines for a role. A joining task is not itself a member of a gang. It starts when the gang runs,
	// and ends with the gang's task of the same role.
	Joins string `json:"joins,omitempty"`
	// Within is the maximum distance between the machines of its gang; empty is WithinRegion. It is the same for all
	// tasks of a gang, and for those that join it.
	Within Within `json:"within,omitempty"`
	// Role is the task's role in its gang; empty is the task's name. Each of its machines is a member
	// of the role. See RoleName.
	Role string `json:"role,omitempty"`
	// Framework decides which environment variables describe the machines of the task and its gang to its programs.
	Framework Framework `json:"framework,omitempty"`
	// On has the reactions to events of the task, for its gang or the task alone. The default reaction is to try
	// failed tasks again, together with their gang, up to Retries times.
	On []Reaction `json:"on,omitempty"`
	// Service is set if the task is a replica of a service; nil for a task that ends. It may be shared between tasks,
	// so it must not be changed.
	Service *Service `json:"service,omitempty"`
	// Share states with which other tasks the task may run on one machine at the same time.
	Share Share `json:"share,omitempty"`
	// ShareGroup is 1 plus the index of its share group; 0 if it has none. WithWorkers sets it.
	ShareGroup int `json:"shareGroup,omitempty"`
	// Worker is set if the task is a machine for tasks that share machines; see Job.WithWorkers.
	Worker *Worker `json:"worker,omitempty"`
}

// StandIn reports whether the task has a recorded run time but no command.
func (t *Task) StandIn() bool { return t.Run == "" && t.Recorded > 0 }

// Resumes reports whether an attempt of the task continues from the state that the previous attempt saved: it keeps
// checkpoints, or is a stand-in, which behaves as if it did.
func (t *Task) Resumes() bool { return t.Checkpoint != nil || t.StandIn() }

// DiskGiB returns the largest root disk of its alternatives, or 0 if none needs one.
func (t *Task) DiskGiB() float64 {
	most := GiB(0)
	for i := range t.Resources {
		most = max(most, t.Resources[i].DiskGiB)
	}
	return float64(most)
}

// Resources is one alternative: an offer must match every field that is set.
type Resources struct {
	CPUs             Range   `json:"cpus,omitzero"`
	Memory           Range   `json:"memory,omitzero"`       // GiB
	Accelerator      string  `json:"accelerator,omitempty"` // canonical name, as internal/catalog/accel normalises it
	AcceleratorCount float64 `json:"acceleratorCount,omitempty"`
	Cloud            string  `json:"cloud,omitempty"`
	Region           string  `json:"region,omitempty"`
	Zone             string  `json:"zone,omitempty"`
	InstanceType     string  `json:"instanceType,omitempty"`
	// Family is a family of machine types, such as c7a, and CPU a processor, such as genoa; see package hardware.
	Family string `json:"family,omitempty"`
	CPU    string `json:"cpu,omitempty"`
	// Arch is amd64, arm64 or AnyArch. If it is empty, a machine that is chosen only by its size is amd64.
	Arch string `json:"arch,omitempty"`
	// Burstable allows machine types whose vCPUs may be busy only for a part of the time.
	Burstable bool   `json:"burstable,omitempty"`
	Market    Market `json:"market,omitempty"`
	// Service and Release are set for the Services of a task only: emr, and 7.5+.
	Service string `json:"service,omitempty"`
	Release string `json:"release,omitempty"`
	DiskGiB GiB    `json:"disk,omitempty"`
	// MaxUSDPerHour is the maximum price of one machine per hour, with its disk and address; 0 is no limit. A spot
	// machine is left when its price rises above it.
	MaxUSDPerHour USD `json:"maxUSDPerHour,omitempty"`
	// Image is a machine image, named as its cloud does, or docker:REF, a container image in which the scripts run.
	Image string `json:"image,omitempty"`
}

// AnyArch is the architecture of a task that runs on every architecture.
const AnyArch = "any"

// FixedArch returns the architecture if only one is suitable, or "" if several are.
func (r *Resources) FixedArch() string {
	if r.Arch == AnyArch {
		return ""
	}
	return r.Arch
}

// Container returns the container image in which the task's scripts run, or "" if there is none.
func (r *Resources) Container() string {
	image, _ := strings.CutPrefix(r.Image, jobtext.ContainerScheme)
	if image == r.Image {
		return ""
	}
	return image
}

// Machine returns the image that a machine boots from, or "" for the cloud's default.
func (r *Resources) Machine() string {
	if strings.HasPrefix(r.Image, jobtext.ContainerScheme) {
		return ""
	}
	return r.Image
}

// Range is an amount with bounds: exactly (Min == Max, written "4"), at least (Max 0, "4+") or between two ("4-16").
// The zero value sets no bound.
type Range struct {
	Min float64 `json:"min"`
	Max float64 `json:"max,omitempty"` // 0 is no upper bound
}

// Contains reports whether v satisfies r.
func (r Range) Contains(v float64) bool {
	return v >= r.Min && (r.Max == 0 || v <= r.Max)
}

// IsZero reports whether r sets no bound.
func (r Range) IsZero() bool { return r == Range{} }

// Repository is a git repository at one of its commits.
type Repository struct {
	URL string `json:"url"`           // as git accepts it: https://…, ssh://…, git@host:path, or a path
	Ref string `json:"ref,omitempty"` // branch, tag or commit; empty is the default branch
}

// Input is data that exists before the job starts.
type Input struct {
	URI  string `json:"uri"`            // s3://, gs://, azblob://, file:// or a local path
	Path string `json:"path,omitempty"` // where the task sees it: relative to its directory, absolute, or under ~/
	Size GiB    `json:"size,omitempty"`
	// Mount mounts the input, for reading or for reading and writing, instead of copying it to the machine.
	Mount Mount `json:"mount,omitempty"`
	// Bucket creates the input's bucket if it does not exist.
	Bucket Bucket `json:"bucket,omitempty"`
	// Source is a local path, or a pack of it, that is uploaded to the URI first.
	Source string `json:"source,omitempty"`
}

// Output is data that the task saves.
type Output struct {
	Name string `json:"name"`
	Path string `json:"path,omitempty"` // the path to save, relative to $TRADEWIND_OUTPUT; empty is the whole folder
	URI  string `json:"uri,omitempty"`  // also copied there, if set
	Size GiB    `json:"size,omitempty"`
	// OnFailure copies the output to URI also if the command fails, provided that it exists: workflow engines read it
	// after a failure. Files cannot set it.
	OnFailure bool `json:"onFailure,omitempty"`
}

// Checkpoint states how a task saves its progress.
type Checkpoint struct {
	Every time.Duration `json:"every,omitempty"` // 0 is only on notice of an interruption
	Path  string        `json:"path"`            // relative to the task's directory
	Size  GiB           `json:"size,omitempty"`
}
