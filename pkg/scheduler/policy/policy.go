package policy

import (
	"errors"
	"time"

	"github.com/tradewind-broker/tradewind/internal/fault"
)

// Policy says which actions a session runs, in their order, and which plugins tell them how. In a question of order
// the first tier and plugin that sees a difference decides; in one of victims all of a tier have to agree, and the
// first tier with an opinion decides.
type Policy struct {
	Actions []string
	Tiers   [][]Plugin
	where   map[string]fault.Position // of fields, in the file it was read from
}

// Wrong is the Error for what is wrong with a field of a policy for whoever is to follow it, though it can be
// read: actions, tiers[0][2]. It knows the line if the policy was read from a file.
func (p *Policy) Wrong(field, reason, hint string) *Error {
	at := p.where[field]
	return &Error{
		Line:   int(at.Line),
		Column: int(at.Column),
		Field:  field,
		Reason: reason,
		Hint:   hint,
		Cause:  ErrInvalid,
	}
}

// Plugin is a plugin in a tier.
type Plugin struct {
	Name string
	// Disable names functions that it is not to register: jobOrder, preemptable.
	Disable []string
	Args    Args
}

// Vocabulary is what a policy may name.
type Vocabulary struct {
	Actions   []string
	Functions []string // of plugins, that one may disable
	Plugins   []string
	// Settings are those that a plugin has.
	Settings map[string]map[string]Kind
}

// Error says what is wrong with a policy, and where: File, Line, Column, Field (tiers[0][2].args.weight), Reason and
// Hint, as far as they are known. It is ErrInvalid.
type Error = fault.Error

// ErrInvalid is in the chain of every Error.
var ErrInvalid = errors.New("invalid")

// InFile has an error that is an Error say in which file it is.
func InFile(file string, err error) error {
	var e *Error
	if errors.As(err, &e) {
		e.File, e.Cause = file, ErrInvalid
	}
	return err
}

// Args are the settings of a plugin.
type Args map[string]any

// Kind is what a setting is.
type Kind uint8

// The kinds of settings.
const (
	Number   Kind = iota // float64
	Duration             // time.Duration
	Numbers              // map[string]float64
	Windows              // map[string]Window
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
