package policy

import (
	"errors"
	"time"

	"github.com/tradewind-broker/tradewind/internal/base/fault"
)

// Policy lists the actions of a session, in order, and the plugins that guide them. For orders, the first plugin that
// sees a difference decides, tier by tier. For victims, all plugins of a tier must agree, and the first tier with an
// opinion decides.
type Policy struct {
	Actions []string
	Tiers   [][]Plugin
	where   map[string]fault.Position // positions of fields in the file
}

// Wrong returns an Error for a field (such as actions or tiers[0][2]) of a policy that is readable but not acceptable
// to the caller. The Error has the line if the policy was read from a file.
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
	// Disable names functions that the plugin must not register, such as jobOrder or preemptable.
	Disable []string
	Args    Args
}

// Vocabulary lists the names that a policy may use.
type Vocabulary struct {
	Actions   []string
	Functions []string // of plugins, which a policy may disable
	Plugins   []string
	// Settings lists the settings of each plugin.
	Settings map[string]map[string]Kind
}

// Error describes an error in a policy and its place: File, Line, Column, Field (for example tiers[0][2].args.weight),
// Reason and Hint, as far as known. It wraps ErrInvalid.
type Error = fault.Error

// ErrInvalid is wrapped by every Error.
var ErrInvalid = errors.New("invalid")

// InFile adds the file name to err if err is an Error.
func InFile(file string, err error) error {
	var e *Error
	if errors.As(err, &e) {
		e.File, e.Cause = file, ErrInvalid
	}
	return err
}

// Args are the settings of a plugin.
type Args map[string]any

// Kind is the type of a setting.
type Kind uint8

// The types of settings.
const (
	Number   Kind = iota // float64
	Duration             // time.Duration
	Numbers              // map[string]float64
	Windows              // map[string]Window
)

// Number returns a setting, or otherwise if it is missing.
func (a Args) Number(name string, otherwise float64) float64 { return arg(a, name, otherwise) }

// Duration returns a setting, or otherwise if it is missing.
func (a Args) Duration(name string, otherwise time.Duration) time.Duration {
	return arg(a, name, otherwise)
}

// Numbers returns a setting of named numbers, or nil.
func (a Args) Numbers(name string) map[string]float64 { return arg(a, name, map[string]float64(nil)) }

// Windows returns a setting of named time windows, or nil.
func (a Args) Windows(name string) map[string]Window { return arg(a, name, map[string]Window(nil)) }

func arg[T any](a Args, name string, otherwise T) T {
	if v, ok := a[name].(T); ok {
		return v
	}
	return otherwise
}
