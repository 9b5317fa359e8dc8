package record

import (
	"time"

	"github.com/tradewind-broker/tradewind/pkg/store"
)

// PartHistory is the partition of what was learned of earlier jobs.
const PartHistory = "history"

// HistoryKey is the key of the History of the jobs of a name.
func HistoryKey(job string) store.Key { return store.Key{Partition: PartHistory, Sort: ShortHash(job)} }

// History is what earlier jobs of one name have shown of their tasks.
type History struct {
	Job string    `json:"job" doc:"Name of the jobs"`
	At  time.Time `json:"at,omitzero" doc:"When the last of them ended"`
	// Tasks are the run times of each task by its name, as history.Names has it, and by the machine it ran on:
	// "V100:4", or an instance type.
	Tasks map[string]map[string]RunTimes `json:"tasks"`
}

// RunTimes are how long a task took on one kind of machine, as a lognormal distribution: times of programs are never
// below zero, and spread by factors.
type RunTimes struct {
	Runs int     `json:"runs" doc:"How many runs there were; later ones count for more"`
	Log  float64 `json:"log" doc:"Mean of the natural logarithms of their hours"`
	Var  float64 `json:"var,omitempty" doc:"Variance of the same"`
	At   int64   `json:"at" doc:"When the last one ended, seconds since 1970"`
}
