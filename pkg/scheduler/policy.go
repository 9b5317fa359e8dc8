package scheduler

import (
	"sync/atomic"
)

// DefaultPolicy returns a policy that suits most clusters: overdue jobs, priorities and gangs first, then fair shares.
func DefaultPolicy() *Policy {
	p := &Policy{Actions: actionNames()}
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

// Holder holds the current policy for concurrent use and allows to replace it at any time. The zero value holds the
// default policy.
type Holder struct {
	// Check validates a policy further, with errors from Policy.Wrong; nil checks nothing.
	Check   func(*Policy) error
	current atomic.Pointer[Policy]
}

// Policy returns the current policy. The caller must not change it.
func (h *Holder) Policy() *Policy {
	if p := h.current.Load(); p != nil {
		return p
	}
	return DefaultPolicy()
}

// Reload replaces the policy for sessions opened from now on. If the file is invalid, Reload returns a PolicyError and
// the current policy stays.
func (h *Holder) Reload(file string, data []byte) error {
	p, err := ReadPolicy(file, data)
	if err == nil && h.Check != nil {
		err = PolicyInFile(file, h.Check(p))
	}
	if err != nil {
		return err
	}
	h.current.Store(p)
	return nil
}

// ReadPolicy reads a policy from YAML, as readPolicy does, with the actions and plugins of this package. Errors are a
// *PolicyError with line and field. The file name is used only in errors.
func ReadPolicy(file string, data []byte) (*Policy, error) {
	known := &vocabulary{Actions: append(actionNames(), Moves), Functions: functionNames(),
		Plugins: PluginNames(), Settings: map[string]map[string]settingKind{}}
	for _, b := range builtins() {
		known.Settings[b.name] = b.args
	}
	return readPolicy(file, data, known)
}
