package dag

import (
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strconv"

	"github.com/tradewind-broker/tradewind/internal/fault"
)

// SecretValues are the values of secrets by name, or where they are kept (see pkg/secret). It prints as how many there
// are, whichever way it is printed, and has no JSON.
type SecretValues map[string]string

// String implements fmt.Stringer.
func (s SecretValues) String() string { return strconv.Itoa(len(s)) + " secrets" }

// Format implements fmt.Formatter, also for the verbs that would look into a map.
func (s SecretValues) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(s.String())) }

// LogValue implements slog.LogValuer.
func (s SecretValues) LogValue() slog.Value { return slog.StringValue(s.String()) }

// MarshalJSON fails: what is sealed or handed out is converted first.
func (s SecretValues) MarshalJSON() ([]byte, error) {
	return nil, fault.New("secrets are not written", "")
}

// SecretField is the field that names a secret of a task.
func SecretField(name string) string { return fault.Join("secrets", fault.KeyElement(name)) }

// CheckSecret says what is wrong with the value of a secret, without showing it.
func CheckSecret(value string) error {
	if value == "" {
		return fault.New("is empty", "")
	}
	if len(value) > MaxEnvBytes {
		return fault.OverLimit(fmt.Sprintf("has %d bytes, more than %d", len(value), MaxEnvBytes), "")
	}
	return fault.CheckString(value)
}

// StateSecret notes the value of a secret that the job's file states. A job has one value for each name.
func (j *Job) StateSecret(name, value string) error {
	if err := CheckSecret(value); err != nil {
		return err
	}
	if before, ok := j.Stated[name]; ok && before != value {
		return fault.New("has another value elsewhere in the file", "a job has one secret of a name")
	}
	if j.Stated == nil {
		j.Stated = SecretValues{}
	}
	j.Stated[name] = value
	return nil
}

// SecretNames are the names of all secrets that tasks of the job have, in byte order.
func (j *Job) SecretNames() []string {
	names := map[string]bool{}
	for i := range j.Tasks {
		for _, name := range j.Tasks[i].Secrets {
			names[name] = true
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// GiveSecrets has every task with a script have the secrets that no task of the job names. A variable of that name it
// hides. It says whether that changed the job.
func (j *Job) GiveSecrets(names []string) (changed bool) {
	named := j.SecretNames()
	names = slices.DeleteFunc(slices.Clone(names), func(name string) bool { return slices.Contains(named, name) })
	if len(names) == 0 {
		return false
	}
	for i := range j.Tasks {
		if t := &j.Tasks[i]; !t.StandIn() {
			t.addSecrets(names)
			changed = true
		}
	}
	return changed
}

// addSecrets gives the task more secrets, which hide variables of their names.
func (t *Task) addSecrets(names []string) {
	t.Secrets = slices.Compact(slices.Sorted(slices.Values(slices.Concat(t.Secrets, names))))
	t.Env = WithoutEnv(t.Env, names)
}

// WithoutEnv is an environment without some names. The result may be env, which is not to be changed.
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

// MissingSecret is the error about the first secret that has no value in given; nil where all have one.
func (j *Job) MissingSecret(given SecretValues) error {
	for i := range j.Tasks {
		for _, name := range j.Tasks[i].Secrets {
			if given[name] == "" {
				return j.SecretError(name, "has no value",
					"give it with --secret "+name+", which takes it from the variable of that name")
			}
		}
	}
	return nil
}

// SecretError is an error about a secret, at the first place that names it.
func (j *Job) SecretError(name, reason, hint string) *Error {
	for i := range j.Tasks {
		if slices.Contains(j.Tasks[i].Secrets, name) {
			return j.ErrorAt(i, OfFiles, SecretField(name), reason, hint)
		}
	}
	return &Error{Field: SecretField(name), Reason: reason, Hint: hint}
}

// validateSecrets checks that names are valid, in byte order, and not those of variables.
func (t *Task) validateSecrets() error {
	for i, name := range t.Secrets {
		err := CheckEnvName(name)
		if _, both := t.Env[name]; err == nil && both {
			err = fault.New("is in both env and secrets", "remove one")
		}
		if err == nil && i > 0 && t.Secrets[i-1] >= name {
			err = fault.New("is not in order", "")
		}
		if err != nil {
			return fault.Within("secrets", fault.WithinKey(name, err))
		}
	}
	return nil
}
