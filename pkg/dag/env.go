package dag

import (
	"maps"

	"github.com/tradewind-broker/tradewind/internal/base/fault"
)

// NeedsValue records that the file declares a variable, at a position, without a value. Such a job
// can be planned, but not submitted.
func (j *Job) NeedsValue(name string, pos fault.Position, field string) {
	err := fault.At(pos, fault.Within(field, fault.New("has no value", "give it with --env "+name+"=VALUE")))
	if j.origin != nil {
		err = fault.InFile(j.origin.File, err)
	}
	j.unset.Add(err)
}

// CheckValues returns an error for the variables that the file declares without a value.
func (j *Job) CheckValues() error { return j.unset.Err() }

// AddEnv adds variables to every task that has a script; they override those of the file. It returns an *Error for a
// name that is a secret of the job or is not a valid variable.
func (j *Job) AddEnv(env map[string]string) error {
	for i := range j.Tasks {
		t := &j.Tasks[i]
		for _, name := range t.Secrets {
			if _, both := env[name]; both {
				return j.ErrorAt(i, FilesOfTask, SecretField(name), "is a secret, not a variable",
					"give it with --secret "+name)
			}
		}
		if !t.StandIn() {
			t.Env = MergeEnv(t.Env, env)
		}
	}
	return j.Validate()
}

// MergeEnv returns the variables of under and over; those of over win. The result may be one of the two, so the
// caller must not change it.
func MergeEnv(under, over map[string]string) map[string]string {
	if len(over) == 0 {
		return under
	}
	if len(under) == 0 {
		return over
	}
	both := maps.Clone(under)
	maps.Copy(both, over)
	return both
}
