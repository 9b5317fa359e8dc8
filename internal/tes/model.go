package tes

// Version is the version of the specification.
const Version = "1.1.0"

// State of a task.
type State string

// The states of a task. A task whose machine was preempted continues elsewhere, and is queued until then. It is never
// PREEMPTED, which clients take for a final state.
const (
	Unknown       State = "UNKNOWN"
	Queued        State = "QUEUED"
	Initializing  State = "INITIALIZING"
	Running       State = "RUNNING"
	Complete      State = "COMPLETE"
	ExecutorError State = "EXECUTOR_ERROR"
	SystemError   State = "SYSTEM_ERROR"
	Canceling     State = "CANCELING"
	Canceled      State = "CANCELED"
)

// View selects how much of a task is returned.
type View string

// The views.
const (
	Minimal View = "MINIMAL"
	Basic   View = "BASIC"
	Full    View = "FULL"
)

// Task is one unit of work (tesTask).
type Task struct {
	ID           string            `json:"id,omitempty" doc:"Set by the server"`
	State        State             `json:"state,omitempty" doc:"Set by the server"`
	Name         string            `json:"name,omitempty" doc:"For people and for filters"`
	Description  string            `json:"description,omitempty"`
	Inputs       []Input           `json:"inputs,omitempty" nullable:"false"`
	Outputs      []Output          `json:"outputs,omitempty" nullable:"false"`
	Resources    *Resources        `json:"resources,omitempty"`
	Executors    []Executor        `json:"executors,omitempty" required:"true" minItems:"1" nullable:"false"`
	Volumes      []string          `json:"volumes,omitempty" nullable:"false" doc:"Directories that executors share"`
	Tags         map[string]string `json:"tags,omitempty"`
	Logs         []TaskLog         `json:"logs,omitempty" nullable:"false" doc:"One for each attempt"`
	CreationTime string            `json:"creation_time,omitempty" doc:"RFC 3339"`
}

// FileType is FILE or DIRECTORY.
type FileType string

// The types of inputs and outputs.
const (
	File      FileType = "FILE"
	Directory FileType = "DIRECTORY"
)

// Input is a file or directory that a task starts from.
type Input struct {
	Name        string   `json:"name,omitempty"`
	Description string   `json:"description,omitempty"`
	URL         string   `json:"url,omitempty" doc:"s3://, gs://, azblob://, file:// or an absolute path"`
	Path        string   `json:"path" doc:"Absolute, in the container"`
	Type        FileType `json:"type,omitempty" enum:"FILE,DIRECTORY"`
	Content     string   `json:"content,omitempty" doc:"Content of the file, instead of a URL"`
	Streamable  bool     `json:"streamable,omitempty" doc:"Accepted, but the file is copied anyway"`
}

// Output is an output of a task.
type Output struct {
	Name        string   `json:"name,omitempty"`
	Description string   `json:"description,omitempty"`
	URL         string   `json:"url" doc:"Where it is copied to"`
	Path        string   `json:"path" doc:"Absolute, in the container; may have wildcards, with a path_prefix"`
	PathPrefix  string   `json:"path_prefix,omitempty" doc:"Removed from paths that match wildcards"`
	Type        FileType `json:"type,omitempty" enum:"FILE,DIRECTORY"`
}

// Resources are the requirements of a task on its machine.
type Resources struct {
	CPUCores    int      `json:"cpu_cores,omitempty" minimum:"0" maximum:"100000"`
	Preemptible *bool    `json:"preemptible,omitempty" doc:"false requires on-demand machines; otherwise the broker chooses"`
	RAMGB       float64  `json:"ram_gb,omitempty" minimum:"0" maximum:"1000000" doc:"10^9 bytes"`
	DiskGB      float64  `json:"disk_gb,omitempty" minimum:"0" maximum:"1000000000" doc:"10^9 bytes"`
	Zones       []string `json:"zones,omitempty" nullable:"false" doc:"Zones or regions, or CLOUD:REGION; any of them"`
	// BackendParameters: see [Parameters].
	BackendParameters       map[string]string `json:"backend_parameters,omitempty"`
	BackendParametersStrict bool              `json:"backend_parameters_strict,omitempty"`
}

// Executor is a command in a container.
type Executor struct {
	Image       string            `json:"image" doc:"The container's image; all executors of a task have the same one"`
	Command     []string          `json:"command" minItems:"1" nullable:"false"`
	Workdir     string            `json:"workdir,omitempty"`
	Stdin       string            `json:"stdin,omitempty"`
	Stdout      string            `json:"stdout,omitempty"`
	Stderr      string            `json:"stderr,omitempty"`
	Env         map[string]string `json:"env,omitempty"`
	IgnoreError bool              `json:"ignore_error,omitempty"`
}

// TaskLog describes one attempt.
type TaskLog struct {
	Logs       []ExecutorLog     `json:"logs" nullable:"false"`
	Metadata   map[string]string `json:"metadata,omitempty"`
	StartTime  string            `json:"start_time,omitempty"`
	EndTime    string            `json:"end_time,omitempty"`
	Outputs    []OutputFileLog   `json:"outputs" nullable:"false"`
	SystemLogs []string          `json:"system_logs,omitempty" nullable:"false"`
}

// ExecutorLog describes how an executor ended.
type ExecutorLog struct {
	StartTime string `json:"start_time,omitempty"`
	EndTime   string `json:"end_time,omitempty"`
	Stdout    string `json:"stdout,omitempty" doc:"The last 16 KiB"`
	Stderr    string `json:"stderr,omitempty" doc:"The last 16 KiB"`
	ExitCode  int    `json:"exit_code"`
}

// OutputFileLog describes a file that was copied to the URL of an output.
type OutputFileLog struct {
	URL       string `json:"url"`
	Path      string `json:"path"`
	SizeBytes string `json:"size_bytes" doc:"A number, as text"`
}
