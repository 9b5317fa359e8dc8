package dag

import (
	"strconv"
	"strings"
	"time"
)

// GiB is an amount of data in binary gigabytes (2^30 bytes).
type GiB float64

// USD is an amount of money in United States dollars.
type USD float64

// Objective says what a plan minimises.
type Objective string

// The objectives of a job (intercloud-broker paper, equations 1 and 2).
const (
	MinimizeCost     Objective = "cost"
	MinimizeMakespan Objective = "makespan"
)

// Market says how capacity is bought.
type Market string

// The markets a task may ask for. Auto leaves the choice to the broker.
const (
	MarketAuto     Market = "auto"
	MarketSpot     Market = "spot"
	MarketOnDemand Market = "on-demand"
)

// Infeasible says what becomes of a job for which no place is left.
type Infeasible string

// Fail ends the job; Wait tries again when a block expires or a price changes
// (paper, section Provisioner: "either an error is returned … or the provisioner
// can be configured to wait and retry"). Retry, the default, waits where blocked places are all that
// stands in the way, and fails where no place would do: for a block that ends one can wait, for a
// budget that is too small in vain.
const (
	Retry Infeasible = "retry"
	Fail  Infeasible = "fail"
	Wait  Infeasible = "wait"
)

// Format names the form a job was read from.
type Format string

// The forms that Read understands.
const (
	Native   Format = "tradewind"
	SkyPilot Format = "skypilot"
	WfFormat Format = "wfformat"
	DAX      Format = "dax"
	TES      Format = "tes" // not of a file: a task of the GA4GH API
	// Kubernetes are the manifests of Jobs, JobSets, and Volcano's and Kubeflow's jobs.
	Kubernetes Format = "kubernetes"
	// Slurm are batch scripts with #SBATCH.
	Slurm Format = "slurm"
)

// Job is a directed acyclic graph of batch tasks with its objective and limits.
// A Job that a reader returned is valid: its tasks have unique names, its edges
// are acyclic and every number is finite and within its limits.
type Job struct {
	Name string `json:"name"`
	// Description is for people; nothing reads it.
	Description string `json:"description,omitempty"`

	Objective Objective     `json:"objective"`
	Deadline  time.Duration `json:"deadline,omitempty"` // from submission to the last task's end; 0 is none
	Budget    USD           `json:"budget,omitempty"`   // 0 is none
	Queue     string        `json:"queue,omitempty"`
	Namespace string        `json:"namespace,omitempty"` // of users, who share whatever their queues
	Priority  int           `json:"priority,omitempty"`  // higher first
	// KeepOnFailure is how long the machines of an attempt whose task failed are kept for people to look at, within the
	// budget; 0 is not at all.
	KeepOnFailure time.Duration `json:"keepOnFailure,omitempty"`
	// Infeasible is what to do when no place is left: Retry (the default), Fail or Wait.
	Infeasible Infeasible `json:"infeasible,omitempty"`
	// Patience is how long it waits at most while no place is left and nothing of it goes on; 0 is a day, or until the
	// deadline where that is later, and with Wait without end.
	Patience time.Duration `json:"patience,omitempty"`
	// Regions limits every task to these places ("aws", "gcp:europe-west4"); empty is everywhere.
	Regions []string `json:"regions,omitempty"`
	// Placement are rules about where machines of several tasks stand to each other; see Groups.
	Placement []Placement `json:"placement,omitempty"`
	// Tasks are in the order of the file; edges refer to them by index.
	Tasks []Task `json:"tasks"`
	// Edges are in the order of MergeEdges when a reader made them: by To, then by From.
	Edges  []Edge `json:"edges,omitempty"`
	Format Format `json:"format"`
	// Document is what an API made the job of, as it tells of it again; nothing else reads it.
	Document string `json:"document,omitempty"`
	// Stated are values of secrets that the file states. They are not part of what is kept of the job.
	Stated SecretValues `json:"-"`
	// Warnings are things the file asks for that Tradewind reads but does not act on.
	// There are at most MaxWarnings.
	Warnings []string `json:"warnings,omitempty"`

	origin *Origin // where the file said what; nil unless a reader made the job
}

// Edge is a dependency: To starts after From succeeded, and reads Data GiB of its outputs.
// There is at most one edge from one task to another.
type Edge struct {
	From int `json:"from"`
	To   int `json:"to"`
	Data GiB `json:"data,omitempty"`
	// Outputs names the outputs of From that To reads: nil is all of them, empty is none
	// (the edge only orders the two).
	Outputs []string `json:"outputs,omitzero"`
}

// Task is one unit of work: it runs on Nodes machines of one offer and ends with an exit code.
type Task struct {
	Name  string `json:"name"`
	Setup string `json:"setup,omitempty"` // shell script, once on each machine before Run
	Run   string `json:"run,omitempty"`   // shell script, on each machine; empty where Recorded stands in
	// Login has the scripts run in an interactive shell, after ~/.bashrc, as SkyPilot does.
	Login bool `json:"login,omitempty"`
	// Env may be shared between tasks: it is not to be changed.
	Env map[string]string `json:"env,omitempty"`
	// Labels are what rules of placement of other tasks know the task by.
	Labels map[string]string `json:"labels,omitempty"`
	// Placement are rules about where its machines stand to each other, and to those of tasks with labels.
	Placement []Placement `json:"placement,omitempty"`
	// Secrets names variables whose values are given apart, and never printed, in byte order. Env has none of them.
	Secrets []string `json:"secrets,omitempty"`
	Workdir string   `json:"workdir,omitempty"` // staged to each machine; a directory, a bucket URL, or a pack
	// Repository is the work directory instead, until the job is handed in: it is then cloned and packed.
	Repository *Repository `json:"repository,omitempty"`
	Nodes      int         `json:"nodes"`
	// Resources are the alternatives the task can run on, at least one. An alternative in which
	// nothing is set is any machine.
	Resources []Resources `json:"resources"`
	// Ordered takes the alternatives in the order given instead of the cheapest first.
	Ordered bool `json:"ordered,omitempty"`
	// Inputs that lie in buckets or on disk before the job starts.
	Inputs []Input `json:"inputs,omitempty"`
	// Outputs the task leaves in the job's store, for its children or the user.
	Outputs    []Output     `json:"outputs,omitempty"`
	Checkpoint *Checkpoint  `json:"checkpoint,omitempty"`
	Time       TimeEstimate `json:"time"`
	// Learned is what earlier jobs have shown of the run time; nil until the job is handed in, or if nothing is known.
	Learned *Learned `json:"learned,omitempty"`
	// Recorded is the measured run time of an imported task without a command:
	// it runs as a timed stand-in. Its inputs and outputs are sizes to plan with; there is nothing to stage.
	Recorded time.Duration `json:"recorded,omitempty"`
	// Retries is how often the task's own failure (its exit code) is tried again.
	// Failures of the cloud do not count.
	Retries int `json:"retries,omitempty"`
	// Gang names a group of tasks of the job that start together or not at all, at most MaxGang; empty is none. All
	// of them wait for the same tasks.
	Gang string `json:"gang,omitempty"`
	// Joins names a gang whose machines these join while it runs, and leave again without it: machines of a role beyond
	// those that it begins with. A task that joins is in no gang itself. It begins when the gang runs, and is done
	// with the task of the gang that has its role.
	Joins string `json:"joins,omitempty"`
	// Within is how close to each other the machines of its gang have to be; empty is WithinRegion. It is the same for
	// all of a gang, and for those that join it.
	Within Within `json:"within,omitempty"`
	// Role is what the task is in its gang, each of its Nodes a member; empty is its name. See RoleOf.
	Role string `json:"role,omitempty"`
	// Framework is what its nodes, and those of its gang, are told of each other in the words of.
	Framework Framework `json:"framework,omitempty"`
	// On says what becomes of the gang, or of the task that is in none, when something happens to the task. What is
	// not said is as it is without: what fails is tried again as often as Retries says, and the gang with it.
	On []Reaction `json:"on,omitempty"`
	// Service says that the task is a replica of a service; nil of one that ends. It may be shared between tasks: it is
	// not to be changed.
	Service *Service `json:"service,omitempty"`
}

// StandIn says whether the task has a recorded run time but no command.
func (t *Task) StandIn() bool { return t.Run == "" && t.Recorded > 0 }

// Resumes says that an attempt of the task goes on from what the one before has saved: it keeps checkpoints, or stands
// in for one that would.
func (t *Task) Resumes() bool { return t.Checkpoint != nil || t.StandIn() }

// DiskGiB is the largest root disk that any of its alternatives asks for; 0 asks for none.
func (t *Task) DiskGiB() float64 {
	most := GiB(0)
	for i := range t.Resources {
		most = max(most, t.Resources[i].DiskGiB)
	}
	return float64(most)
}

// Resources is one alternative: every field that is set must hold of an offer.
type Resources struct {
	CPUs             Range   `json:"cpus,omitzero"`
	Memory           Range   `json:"memory,omitzero"`       // GiB
	Accelerator      string  `json:"accelerator,omitempty"` // canonical name, as pkg/catalog/accel normalises it
	AcceleratorCount float64 `json:"acceleratorCount,omitempty"`
	Cloud            string  `json:"cloud,omitempty"`
	Region           string  `json:"region,omitempty"`
	Zone             string  `json:"zone,omitempty"`
	InstanceType     string  `json:"instanceType,omitempty"`
	Arch             string  `json:"arch,omitempty"` // amd64 or arm64; empty is either
	Market           Market  `json:"market,omitempty"`
	Service          string  `json:"service,omitempty"` // emr or dataproc: a managed service instead of bare machines
	DiskGiB          GiB     `json:"disk,omitempty"`
	// Image is that of the machine, in its cloud's words, or docker:REF: a container's, in which the scripts run.
	Image string `json:"image,omitempty"`
}

// containerScheme is how an image that is run in, not booted from, is written.
const containerScheme = "docker:"

// Container is the container image that the task's scripts run in; empty is none.
func (r *Resources) Container() string {
	image, _ := strings.CutPrefix(r.Image, containerScheme)
	if image == r.Image {
		return ""
	}
	return image
}

// Machine is the image that a machine boots from; empty is the cloud's own.
func (r *Resources) Machine() string {
	if strings.HasPrefix(r.Image, containerScheme) {
		return ""
	}
	return r.Image
}

// Range is an amount with bounds: exactly (Min == Max, written "4"), at least (Max 0, "4+") or
// between two ("4-16"). The zero value asks for nothing.
type Range struct {
	Min float64 `json:"min"`
	Max float64 `json:"max,omitempty"` // 0 is no upper bound
}

// Holds says whether v satisfies r.
func (r Range) Holds(v float64) bool {
	return v >= r.Min && (r.Max == 0 || v <= r.Max)
}

// IsZero says whether r asks for nothing.
func (r Range) IsZero() bool { return r == Range{} }

// Repository is a git repository at one of its commits.
type Repository struct {
	URL string `json:"url"`           // as git takes it: https://…, ssh://…, git@host:path, or a path
	Ref string `json:"ref,omitempty"` // branch, tag or commit; empty is the default branch
}

// Input is data that exists before the job starts.
type Input struct {
	URI  string `json:"uri"`            // s3://, gs://, azblob://, file:// or a local path
	Path string `json:"path,omitempty"` // where the task sees it: relative to its directory, absolute, or under ~/
	Size GiB    `json:"size,omitempty"`
	// Mount has the task read it, or read and write it, where it lies, instead of copying it first.
	Mount Mount `json:"mount,omitempty"`
	// Bucket has the input's bucket made where there is none.
	Bucket Bucket `json:"bucket,omitempty"`
	// Source is a local path, or a pack of it, that is uploaded to the URI first.
	Source string `json:"source,omitempty"`
}

// Output is data the task leaves behind.
type Output struct {
	Name string `json:"name"`
	Path string `json:"path,omitempty"` // what to keep, relative to $TRADEWIND_OUTPUT; empty is all of it
	URI  string `json:"uri,omitempty"`  // copied there as well when set
	Size GiB    `json:"size,omitempty"`
	// OnFailure has it copied to URI also when the command fails, where it is there then: what an engine reads of a
	// task that failed. No file says so.
	OnFailure bool `json:"onFailure,omitempty"`
}

// Checkpoint says how a task saves its progress.
type Checkpoint struct {
	Every time.Duration `json:"every,omitempty"` // 0 is only on notice
	Path  string        `json:"path"`            // relative to the task's directory
	Size  GiB           `json:"size,omitempty"`
}

// TimeEstimate is how long the task runs on what: by accelerator name, by instance type, or
// Default for everything else. Default 0 is unknown, which planning takes as one hour
// (paper, section Optimizer).
type TimeEstimate struct {
	Default time.Duration            `json:"default,omitempty"`
	On      map[string]time.Duration `json:"on,omitempty"` // canonical accelerator ("V100", "V100:4") or instance type
}

// DefaultTime is the run time assumed of a task whose author gave none.
const DefaultTime = time.Hour

// For returns the estimate on an offer: the most specific of instance type,
// accelerator with count, accelerator, default.
func (e TimeEstimate) For(instanceType, accelerator string, count float64) time.Duration {
	if d, ok := e.On[instanceType]; ok && instanceType != "" {
		return d
	}
	if accelerator != "" {
		if d, ok := e.On[AcceleratorKey(accelerator, count)]; ok {
			return d
		}
		if d, ok := e.On[accelerator]; ok {
			return d
		}
	}
	if e.Default > 0 {
		return e.Default
	}
	return DefaultTime
}

// AcceleratorKey is the spelling of an accelerator with its count: "V100:4", or "A10:0.5".
func AcceleratorKey(name string, count float64) string {
	return name + ":" + strconv.FormatFloat(count, 'f', -1, 64)
}
