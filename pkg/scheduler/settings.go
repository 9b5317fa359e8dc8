package scheduler

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
	Tiers   [][]PluginConfig
	where   map[string]fault.Position // positions of fields in the file
}

// Wrong returns a PolicyError for a field (such as actions or tiers[0][2]) of a policy that is readable but not
// acceptable to the caller. The PolicyError has the line if the policy was read from a file.
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
	// Disable names functions that the plugin must not register, such as jobOrder or preemptable.
	Disable []string
	Args    Args
}

// vocabulary lists the names that a policy may use.
type vocabulary struct {
	Actions   []string
	Functions []string // of plugins, which a policy may disable
	Plugins   []string
	// Settings lists the settings of each plugin.
	Settings map[string]map[string]settingKind
}

// PolicyError describes an error in a policy and its place: File, Line, Column, Field (for example
// tiers[0][2].args.weight), Reason and Hint, as far as known. It wraps ErrInvalid.
type PolicyError = fault.Error

// ErrInvalid is wrapped by every error about an invalid snapshot or policy.
var ErrInvalid = errors.New("invalid")

// PolicyInFile adds the file name to err if err is a PolicyError.
func PolicyInFile(file string, err error) error {
	var e *PolicyError
	if errors.As(err, &e) {
		e.File, e.Cause = file, ErrInvalid
	}
	return err
}

// Args are the settings of a plugin.
type Args map[string]any

// settingKind is the type of a setting.
type settingKind uint8

// The types of settings.
const (
	numberSetting   settingKind = iota // float64
	durationSetting                    // time.Duration
	numbersSetting                     // map[string]float64
	windowsSetting                     // map[string]Window
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
