package jobtext

import (
	"bytes"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/tradewind-broker/tradewind/internal/base/fault"
)

// WithoutEnv returns the environment without the names. The result may be env itself, so the caller must not change
// it.
func WithoutEnv(env map[string]string, names []string) map[string]string {
	if !slices.ContainsFunc(names, func(name string) bool { _, ok := env[name]; return ok }) {
		return env
	}
	env = maps.Clone(env)
	for _, name := range names {
		delete(env, name)
	}
	if len(env) == 0 {
		return nil
	}
	return env
}

// Fields of an estimate, in addition to the names of accelerators and machine types.
const (
	// DefaultTimeKey is the key of the estimate for all other machines.
	DefaultTimeKey = "default"
	NoDefaultTime  = "none" // the value of default that makes an estimate Only
	FLOPsKey       = "flops"
	EfficiencyKey  = "efficiency"
	SerialKey      = "serial"
	NodesKey       = "nodes"
)

// TaskPath is the path of a task in the native format.
func TaskPath(name string) string { return fault.Join("tasks", fault.KeyElement(name)) }

// LabelsText returns labels as in a file.
func LabelsText(labels map[string]string) string {
	var parts []string
	for _, k := range slices.Sorted(maps.Keys(labels)) {
		parts = append(parts, k+": "+labels[k])
	}
	return strings.Join(parts, ", ")
}

// Namer gives imported tasks and outputs valid and unique names that are as close as possible to those in the file.
type Namer struct {
	taken map[string]bool
	next  map[string]int // by name: the next number to append if it is taken
}

// NewNamer returns a Namer for about size names.
func NewNamer(size int) *Namer {
	return &Namer{taken: make(map[string]bool, size), next: map[string]int{}}
}

// Name returns a unique name like s, or like otherwise if s has no valid characters.
func (n *Namer) Name(s, otherwise string) string {
	base := ToName(s, otherwise)
	if !n.taken[base] {
		n.taken[base] = true
		return base
	}
	for k := max(2, n.next[base]); ; k++ {
		suffix := "-" + strconv.Itoa(k)
		name := base[:min(len(base), MaxNameBytes-len(suffix))] + suffix
		if !n.taken[name] {
			n.taken[name] = true
			n.next[base] = k + 1
			return name
		}
	}
}

// NameFromFile makes the name of a job from the name of its file.
func NameFromFile(file string) string {
	base := strings.TrimSuffix(filepath.Base(file), ".gz")
	if ext := filepath.Ext(base); ext != base {
		base = strings.TrimSuffix(base, ext)
	}
	return ToName(base, "job")
}

// ToName makes a name from any text: it replaces invalid characters with '-'. If no character is left it returns
// otherwise.
func ToName(s, otherwise string) string {
	b := []byte(strings.TrimSpace(s))
	for i, c := range b {
		if !fault.IsAlnum(c) && c != '.' && c != '_' && c != '-' {
			b[i] = '-'
		}
	}
	b = bytes.TrimLeft(b, "-._")
	if len(b) > MaxNameBytes {
		b = b[:MaxNameBytes]
	}
	if len(b) == 0 {
		return otherwise
	}
	return string(b)
}
