package dag

import (
	"cmp"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strconv"

	"github.com/tradewind-broker/tradewind/internal/base/fault"
	"github.com/tradewind-broker/tradewind/pkg/dag/internal/jobtext"
)

// SecretValues has the values of secrets by name, or references to where the values are stored (see
// internal/secret). Printed or logged, it shows only the number of secrets. Only its JSON has the
// values. The JSON is written only to encrypt the values, or to pass them to the user's tasks.
type SecretValues map[string]string

// String implements fmt.Stringer.
func (v SecretValues) String() string { return strconv.Itoa(len(v)) + " secrets" }

// Format implements fmt.Formatter, also for the verbs that would look into a map.
func (v SecretValues) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(v.String())) }

// LogValue implements slog.LogValuer.
func (v SecretValues) LogValue() slog.Value { return slog.StringValue(v.String()) }

// SecretField returns the field name of a secret of a task.
func SecretField(name string) string { return fault.Join("secrets", fault.KeyElement(name)) }

// CheckSecret returns an error if the value of a secret is invalid. The error does not contain the value.
func CheckSecret(value string) error {
	if value == "" {
		return fault.New("is empty", "")
	}
	if len(value) > MaxEnvBytes {
		return fault.OverLimit(fmt.Sprintf("has %d bytes, more than %d", len(value), MaxEnvBytes), "")
	}
	return fault.CheckString(value)
}

// AddSecretValue records the value of a secret in the job's file. A secret has the same value in the whole job.
func (j *Job) AddSecretValue(name, value string) error {
	if err := CheckSecret(value); err != nil {
		return err
	}
	if before, ok := j.Stated[name]; ok && before != value {
		return fault.New("has another value elsewhere in the file", "a secret has one value in a job")
	}
	if j.Stated == nil {
		j.Stated = SecretValues{}
	}
	j.Stated[name] = value
	return nil
}

// SecretNames returns the names of all secrets of the job's tasks, in byte order.
func (j *Job) SecretNames() []string {
	names := map[string]bool{}
	for i := range j.Tasks {
		for _, name := range j.Tasks[i].Secrets {
			names[name] = true
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// ResolveSecrets returns the values of all secrets of the job. A given value takes precedence over
// one in the job's file. If no task names a given secret, all tasks with a script get it in place
// of a variable of the same name, and changed is true. ResolveSecrets returns an *Error for a
// secret without a value or with an invalid one.
func (j *Job) ResolveSecrets(given SecretValues) (values SecretValues, changed bool, err error) {
	for name, value := range given {
		if err := cmp.Or(jobtext.CheckEnvName(name), CheckSecret(value)); err != nil {
			return nil, false, j.SecretError(name, err.Error(), "")
		}
	}
	changed = j.addUnnamedSecrets(slices.Collect(maps.Keys(given)))
	values = SecretValues{}
	var all fault.Faults
	for _, name := range j.SecretNames() {
		if values[name] = cmp.Or(given[name], j.Stated[name]); values[name] == "" {
			all.Add(j.SecretError(name, "has no value",
				"give it with --secret "+name+", which takes it from the variable of that name"))
		}
	}
	if !all.None() {
		return nil, false, all.Err()
	}
	return values, changed, nil
}

// addUnnamedSecrets adds those of the secrets that no task of the job names to every task with a script.
func (j *Job) addUnnamedSecrets(names []string) (changed bool) {
	named := j.SecretNames()
	names = slices.DeleteFunc(names, func(name string) bool { return slices.Contains(named, name) })
	for i := range j.Tasks {
		if t := &j.Tasks[i]; len(names) > 0 && !t.StandIn() {
			t.AddSecrets(names...)
			changed = true
		}
	}
	return changed
}

// AddSecrets adds secrets to the task. They hide variables of the same name.
func (t *Task) AddSecrets(names ...string) {
	t.Secrets = append(slices.Clone(t.Secrets), names...)
	slices.Sort(t.Secrets)
	t.Secrets = slices.Compact(t.Secrets)
	t.Env = jobtext.WithoutEnv(t.Env, names)
}

// SecretError returns an error about a secret, at the first place that names it.
func (j *Job) SecretError(name, reason, hint string) *Error {
	for i := range j.Tasks {
		if slices.Contains(j.Tasks[i].Secrets, name) {
			return j.ErrorAt(i, FilesOfTask, SecretField(name), reason, hint)
		}
	}
	return &Error{Field: SecretField(name), Reason: reason, Hint: hint}
}

// validateSecrets checks that the names are valid, in byte order, and different from those of variables.
func (t *Task) validateSecrets() error {
	for i, name := range t.Secrets {
		err := jobtext.CheckEnvName(name)
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
