package scheduler

import (
	"fmt"
	"sync/atomic"
	"time"
)

// Policy says which actions a session runs, in their order, and which plugins tell them how. In a question of order the first tier and plugin that
// sees a difference decides; in one of victims all of a tier have to agree, and the first tier with an opinion decides.
type Policy struct {
	Actions []string
	Tiers   [][]PluginConfig
}

// PluginConfig is a plugin in a tier.
type PluginConfig struct {
	Name string
	// Disable names functions that it is not to register: jobOrder, preemptable.
	Disable []string
	Args    Args
}

// DefaultPolicy suits most: urgency, gangs and waiting times first, then fair shares.
func DefaultPolicy() *Policy {
	p := &Policy{Actions: ActionNames()}
	for _, tier := range [][]string{{"sla", "priority", "gang"}, {"namespace", "drf", "proportion", "predicates", "binpack", "topology"}} {
		var t []PluginConfig
		for _, name := range tier {
			t = append(t, PluginConfig{Name: name})
		}
		p.Tiers = append(p.Tiers, t)
	}
	return p
}

// Holder holds the policy in force for any number of goroutines, and exchanges it while they work. The zero value holds the default.
type Holder struct{ current atomic.Pointer[Policy] }

// Policy returns the policy in force. It must not be changed.
func (h *Holder) Policy() *Policy {
	if p := h.current.Load(); p != nil {
		return p
	}
	return DefaultPolicy()
}

// Reload puts another policy in force for sessions opened from now on. If it can not be read, with a PolicyError, the one in force stays.
func (h *Holder) Reload(file string, data []byte) error {
	p, err := ReadPolicy(file, data)
	if err != nil {
		return err
	}
	h.current.Store(p)
	return nil
}

// Args are the settings of a plugin.
type Args map[string]any

// argKind is what a setting is.
type argKind uint8

const (
	argNumber   argKind = iota // float64
	argDuration                // time.Duration
	argNumbers                 // map[string]float64
	argWindows                 // map[string]Window
)

// Number returns a setting, or what it is without one.
func (a Args) Number(name string, otherwise float64) float64 { return arg(a, name, otherwise) }

// Duration returns a setting, or what it is without one.
func (a Args) Duration(name string, otherwise time.Duration) time.Duration {
	return arg(a, name, otherwise)
}

// Numbers returns a setting of named numbers, nil without one.
func (a Args) Numbers(name string) map[string]float64 { return arg(a, name, map[string]float64(nil)) }

// Windows returns a setting of named time windows, nil without one.
func (a Args) Windows(name string) map[string]Window { return arg(a, name, map[string]Window(nil)) }

func arg[T any](a Args, name string, otherwise T) T {
	if v, ok := a[name].(T); ok {
		return v
	}
	return otherwise
}

// PolicyError says what is wrong with a policy file, and where. It is ErrInvalid.
type PolicyError struct {
	File         string // may be empty
	Line, Column int    // from 1; 0 is unknown
	Field        string // tiers[0][2].args.weight
	Reason, Hint string
}

// Error prints file:line:column: field: reason (hint).
func (e *PolicyError) Error() string {
	out := e.File
	if e.Line > 0 {
		out += fmt.Sprintf(":%d:%d", e.Line, e.Column)
	}
	if out != "" {
		out += ": "
	}
	if e.Field != "" {
		out += e.Field + ": "
	}
	out += e.Reason
	if e.Hint != "" {
		out += " (" + e.Hint + ")"
	}
	return out
}

// Unwrap returns ErrInvalid.
func (e *PolicyError) Unwrap() error { return ErrInvalid }
