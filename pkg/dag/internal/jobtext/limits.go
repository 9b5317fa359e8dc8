// Package jobtext has what single fields of a job file may contain: their limits, the patterns of names, and the checks
// and parsers of values. The readers call them at the line of a value, and package dag calls them for a whole job. The
// errors have no position yet.
package jobtext

// Limits of a job. They are far above practical use, and low enough that a hostile file cannot do harm.
const (
	MaxTasks = 100_000   // of a job
	MaxEdges = 1_000_000 // of a job
	// MaxScriptBytes limits the setup and run scripts of a task together, and MaxEnvBytes its environment, so that a
	// task fits into one record of every store.
	MaxScriptBytes  = 256 << 10
	MaxEnvBytes     = 64 << 10
	MaxAlternatives = 100    // of a task's resources
	MaxFiles        = 10_000 // inputs of a task, and outputs
	MaxNodes        = 1_000  // machines of a task: one record of the store has the state of all of them
	MaxRetries      = 1_000
	MaxReactions    = 64            // of a task, and exit codes of a reaction
	MaxJoining      = 64            // tasks that join a gang
	MaxReplicas     = 100           // of a service
	MaxArrayIndex   = 1_000_000_000 // of a member
	MaxAddresses    = 10            // e-mail addresses that a job notifies

	MaxCPUs         = 100_000.0   // of a machine
	MaxMemoryGiB    = 1_000_000.0 // of a machine
	MaxAccelerators = 100_000.0   // of a machine or slice

	MaxTextBytes = 4096 // of a URI, path, image, or description
	MaxNameBytes = 128
)

// Limits of labels and placement rules.
const (
	MaxLabels     = 8    // of a task, and of a rule with apart
	MaxPlacements = 8    // rules of a task, and of a job
	MaxPlaced     = 1000 // tasks of one rule
	MaxLabelBytes = 63   // the limit of Kubernetes
)

// Limits of a Spark application.
const (
	MaxSparkArgs  = 1_000
	MaxSparkFiles = 100 // of each kind
	MaxSparkConf  = 200
)

// Patterns, as in the schema of job files.
const (
	// NamePattern is for jobs, tasks, outputs and queues.
	NamePattern = `^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$`
	// TaskPattern is for the names of tasks that other tasks refer to: also the members of an array.
	TaskPattern = `^[A-Za-z0-9][A-Za-z0-9._-]{0,127}(\[[0-9]+\])?$`
	// EnvPattern is for environment variables. Those that begin with TRADEWIND_ are reserved for the agent.
	EnvPattern = `^[A-Za-z_][A-Za-z0-9_]{0,127}$`
	// LabelPattern is for the names and the values of labels.
	LabelPattern = `^[A-Za-z0-9]([A-Za-z0-9._/-]{0,61}[A-Za-z0-9])?$`
	// TopicPattern is for the topics that a job's end can be published to, pubsub://PROJECT/TOPIC. Its groups are the
	// project and the topic (Pub/Sub, "Topic", field name; Resource Manager, "Project", field projectId).
	TopicPattern = `^pubsub://([a-z](?:[a-z0-9.:-]{0,98}[a-z0-9]))/([A-Za-z][A-Za-z0-9._~%+-]{2,254})$`
	// AddressPattern is for e-mail addresses without a name: people@example.org.
	AddressPattern = `^[^\s@<>,;:"]+@[^\s@<>,;:"]+\.[^\s@<>,;:"]+$`
)

const reservedEnv = "TRADEWIND_"
