package dag

import "time"

// Limits of a file or a job. A file beyond them is rejected with an error that wraps ErrLimit or states the limits.
// They are far above practical use, and low enough that a hostile file cannot do harm.
const (
	MaxFileBytes = 64 << 20  // of a file, decompressed
	MaxTasks     = 100_000   // of a job
	MaxEdges     = 1_000_000 // of a job
	// MaxScriptBytes limits the setup and run scripts of a task together, and MaxEnvBytes its environment, so that a
	// task fits into one record of every store.
	MaxScriptBytes  = 256 << 10
	MaxEnvBytes     = 64 << 10
	MaxAlternatives = 100    // of a task's resources
	MaxFiles        = 10_000 // inputs of a task, and outputs
	MaxNodes        = 1_000  // machines of a task: one record of the store has the state of all of them
	MaxRetries      = 1_000
	MaxGang         = 16        // tasks of a gang: they are admitted in one transaction of the store
	MaxJoining      = 64        // tasks that join a gang
	MaxPriority     = 1_000_000 // the minimum is -MaxPriority
	MaxWarnings     = 100

	MaxDuration = 10 * 365 * 24 * time.Hour // of a task, and to a deadline
	maxKeep     = 24 * time.Hour            // of a machine whose task failed
	MaxSize     = GiB(1 << 30)              // of one input, output or edge: 1 EiB
	MaxBudget   = USD(1e9)

	MaxCPUs         = 100_000.0   // of a machine
	MaxMemoryGiB    = 1_000_000.0 // of a machine
	MaxAccelerators = 100_000.0   // of a machine or slice

	MaxTextBytes = 4096 // of a URI, path, image, or description
)

// Regular expressions for the names in a file.
const (
	// NamePattern is for jobs, tasks, outputs and queues.
	NamePattern = `^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$`
	// TaskPattern is for the names of tasks that other tasks refer to: also the members of an array.
	TaskPattern = `^[A-Za-z0-9][A-Za-z0-9._-]{0,127}(\[[0-9]+\])?$`
	// EnvPattern is for environment variables. Those that begin with TRADEWIND_ are reserved for the agent.
	EnvPattern = `^[A-Za-z_][A-Za-z0-9_]{0,127}$`
)

const (
	maxNameBytes = 128
	reservedEnv  = "TRADEWIND_"
)
