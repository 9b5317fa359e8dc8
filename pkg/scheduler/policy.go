package scheduler

import (
	"sync/atomic"

	"github.com/tradewind-broker/tradewind/pkg/scheduler/policy"
)

//nolint:revive // what a policy is made of: package policy describes them
type (
	Policy       = policy.Policy
	PluginConfig = policy.Plugin
	Args         = policy.Args
	Window       = policy.Window
	PolicyError  = policy.Error
)

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
		err = policy.InFile(file, h.Check(p))
	}
	if err != nil {
		return err
	}
	h.current.Store(p)
	return nil
}

// ReadPolicy reads a policy from YAML, as policy.Read does, with the actions and plugins of this package. It fails with
// a *PolicyError that names line and field. The name of the file is only told.
func ReadPolicy(file string, data []byte) (*Policy, error) {
	known := &policy.Vocabulary{Actions: append(ActionNames(), Moves), Functions: functionNames(),
		Plugins: PluginNames(), Settings: map[string]map[string]policy.Kind{}}
	for _, b := range builtins() {
		known.Settings[b.name] = b.args
	}
	return policy.Read(file, data, known)
}
