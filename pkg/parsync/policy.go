package parsync

import (
	"fmt"
	"strings"
	"time"
)

// Policy determines which of the free slots in its view a scheduler takes.
type Policy string

// The policies of ATC '21, §4, and the baseline.
const (
	// LatencyFirst takes the best slot of the freshest partition with free slots. It causes hardly any conflicts.
	LatencyFirst Policy = "latency"
	// QualityFirst takes the best slot of all partitions. Among equally good slots it prefers the freshest partition.
	QualityFirst Policy = "quality"
	// Adaptive is quality first until tasks wait longer than a limit, then latency first until they wait less again.
	Adaptive Policy = "parsync"
	// StateSync is the baseline without partitions (Omega): each scheduler refreshes its whole view at once and takes
	// the best slot of it.
	StateSync Policy = "statesync"
)

// DefaultSwitch is the delay at which Adaptive changes from quality first to latency first (ATC '21, §5).
const DefaultSwitch = 1500 * time.Millisecond

// Policies returns all policies in display order.
func Policies() []Policy { return []Policy{Adaptive, LatencyFirst, QualityFirst, StateSync} }

// ParsePolicy parses the name of a policy. For an unknown name it returns ErrInvalid with a list of the policies.
func ParsePolicy(name string) (Policy, error) {
	names := make([]string, 0, len(Policies()))
	for _, p := range Policies() {
		if string(p) == name {
			return p, nil
		}
		names = append(names, string(p))
	}
	return "", fmt.Errorf("%w: unknown policy %q; the policies are %s", ErrInvalid, name, strings.Join(names, ", "))
}

// Prefer returns the current preference of a scheduler, LatencyFirst or QualityFirst. waited is the time for which
// its next task has waited. limit is the delay at which Adaptive changes; 0 means DefaultSwitch.
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
