package scheduler

import (
	"errors"
	"sync/atomic"
	"time"

	"github.com/tradewind-broker/tradewind/internal/fault"
)

// Policy says which actions a session runs, in their order, and which plugins tell them how. In a question of order
// the first tier and plugin that sees a difference decides; in one of victims all of a tier have to agree, and the
// first tier with an opinion decides.
type Policy struct {
	Actions []string
	Tiers   [][]PluginConfig
	where   map[string]fault.Position // of fields, in the file it was read from
}

// Wrong is the PolicyError for what is wrong with a field of a policy for whoever is to follow it, though it can be
// read: actions, tiers[0][2]. It knows the line if the policy was read from a file.
func (p *Policy) Wrong(field, reason, hint string) *PolicyError {
	at := p.where[field]
	return &PolicyError{
		Line:   int(at.Line),
		Column: int(at.Column),
		Field:  field,
		Reason: reason,
		Hint:   hint,
		Cause:  ErrInvalid,
	}
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
	for _, tier := range [][]string{{"sla", "priority", "gang"},
		{"namespace", "drf", "proportion", "predicates", "binpack", "topology"}} {
		var t []PluginConfig
		for _, name := range tier {
			t = append(t, PluginConfig{Name: name})
		}
		p.Tiers = append(p.Tiers, t)
	}
	return p
}

// Holder holds the policy in force for any number of goroutines, and exchanges it while they work. The zero value
// holds the default.
type Holder struct {
	// Check says what is wrong with a policy for those who are to follow it, with Policy.Wrong; nil is nothing.
	Check   func(*Policy) error
	current atomic.Pointer[Policy]
}

// Policy returns the policy in force. It must not be changed.
func (h *Holder) Policy() *Policy {
	if p := h.current.Load(); p != nil {
		return p
	}
	return DefaultPolicy()
}

// Reload puts another policy in force for sessions opened from now on. If it can not be read, with a PolicyError, the
// one in force stays.
func (h *Holder) Reload(file string, data []byte) error {
	p, err := ReadPolicy(file, data)
	if err == nil && h.Check != nil {
		err = InFile(file, h.Check(p))
	}
	if err != nil {
		return err
	}
	h.current.Store(p)
	return nil
}

// InFile has an error that is a PolicyError say in which file it is.
func InFile(file string, err error) error {
	var e *PolicyError
	if errors.As(err, &e) {
		e.File, e.Cause = file, ErrInvalid
	}
	return err
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

// PolicyError says what is wrong with a policy, and where: File, Line, Column, Field (tiers[0][2].args.weight),
// Reason and Hint, as far as they are known. It is ErrInvalid.
type PolicyError = fault.Error
