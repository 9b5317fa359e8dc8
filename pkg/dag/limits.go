package dag

import (
	"time"

	"github.com/tradewind-broker/tradewind/pkg/dag/internal/jobtext"
)

// Limits of a file or a job. A file beyond them is rejected with an error that wraps ErrLimit or states the limits.
// They are far above practical use, and low enough that a hostile file cannot do harm.
const (
	MaxFileBytes   = 64 << 20 // of a file, decompressed
	MaxEnvBytes    = jobtext.MaxEnvBytes
	MaxScriptBytes = jobtext.MaxScriptBytes // of a task: its setup and run scripts together
	MaxNodes       = jobtext.MaxNodes       // machines of a task
	MaxGang        = 16                     // tasks of a gang: they are admitted in one transaction of the store
	MaxPriority    = 1_000_000              // the minimum is -MaxPriority
	MaxWarnings    = 100

	MaxDuration = 10 * 365 * 24 * time.Hour // of a task, and to a deadline
	maxKeep     = 24 * time.Hour            // of a machine whose task failed
	MaxSize     = GiB(1 << 30)              // of one input, output or edge: 1 EiB
	MaxBudget   = USD(1e9)
)
