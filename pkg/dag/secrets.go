package dag

import (
	"cmp"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strconv"

	"github.com/tradewind-broker/tradewind/internal/fault"
)

// SecretValues are the values of secrets by name, or where they are kept (see pkg/secret). They print as how many there
// are, whichever way they are printed; only JSON has them, which is written where they are sealed or handed out.
type SecretValues map[string]string

// String implements fmt.Stringer.
func (v SecretValues) String() string { return strconv.Itoa(len(v)) + " secrets" }

// Format implements fmt.Formatter, also for the verbs that would look into a map.
func (v SecretValues) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(v.String())) }

// LogValue implements slog.LogValuer.
func (v SecretValues) LogValue() slog.Value { return slog.StringValue(v.String()) }

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

// TakeSecrets returns the values of all secrets of the job: those that are given, and of the others those that its file
// states. What is given and no task names, all tasks with a script then have, and changed says so; a variable of that
// name it hides. It fails with an *Error for a name without a value, and for a value that cannot be one.
func (j *Job) TakeSecrets(given SecretValues) (values SecretValues, changed bool, err error) {
	for name, value := range given {
		if err := cmp.Or(CheckEnvName(name), CheckSecret(value)); err != nil {
			return nil, false, j.SecretError(name, err.Error(), "")
		}
	}
	changed = j.giveSecrets(slices.Collect(maps.Keys(given)))
	values = SecretValues{}
	for _, name := range j.SecretNames() {
		if values[name] = cmp.Or(given[name], j.Stated[name]); values[name] == "" {
			return nil, false, j.SecretError(name, "has no value",
				"give it with --secret "+name+", which takes it from the variable of that name")
		}
	}
	return values, changed, nil
}

// giveSecrets has every task with a script have the secrets that no task of the job names.
func (j *Job) giveSecrets(names []string) (changed bool) {
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

// AddSecrets gives the task more secrets, which hide variables of their names.
func (t *Task) AddSecrets(names ...string) {
	t.Secrets = append(slices.Clone(t.Secrets), names...)
	slices.Sort(t.Secrets)
	t.Secrets = slices.Compact(t.Secrets)
	t.Env = WithoutEnv(t.Env, names)
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
