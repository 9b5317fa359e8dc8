package parsync

import (
	"fmt"
	"strings"
	"time"
)

// Policy says which of the free slots in its view a scheduler takes.
type Policy string

// The policies of ATC '21, §4, and the baseline.
const (
	// LatencyFirst takes the best slot of the freshest partition that has one: hardly any conflicts.
	LatencyFirst Policy = "latency"
	// QualityFirst takes the best slot of all partitions; of equally good ones, that in the freshest partition.
	QualityFirst Policy = "quality"
	// Adaptive is quality first until tasks wait longer than a limit, then latency first until they no longer do.
	Adaptive Policy = "parsync"
	// StateSync is not a policy over partitions but the baseline without them (Omega): each scheduler refreshes its
	// whole view at once, and takes the best slot of it.
	StateSync Policy = "statesync"
)

// DefaultSwitch is the delay at which Adaptive changes from quality to latency (ATC '21, §5).
const DefaultSwitch = 1500 * time.Millisecond

// Policies are all there are, in the order that results are shown.
func Policies() []Policy { return []Policy{Adaptive, LatencyFirst, QualityFirst, StateSync} }

// ParsePolicy reads a policy's name. It fails with ErrInvalid, naming those there are.
func ParsePolicy(name string) (Policy, error) {
	names := make([]string, 0, len(Policies()))
	for _, p := range Policies() {
		if string(p) == name {
			return p, nil
		}
		names = append(names, string(p))
	}
	return "", fmt.Errorf("%w: policy %q; there are %s", ErrInvalid, name, strings.Join(names, ", "))
}

// Prefer returns the order a scheduler takes by at the moment, LatencyFirst or QualityFirst, when the task
// it would schedule next has waited so long. limit is the delay at which Adaptive changes, 0 DefaultSwitch.
func (p Policy) Prefer(waited, limit time.Duration) Policy {
	switch p {
	case Adaptive:
		if limit <= 0 {
			limit = DefaultSwitch
		}
		if waited >= limit {
			return LatencyFirst
		}
		return QualityFirst
	case StateSync:
		return QualityFirst
	default:
		return p
	}
}
