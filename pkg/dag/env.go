package dag

import (
	"maps"
	"slices"
)

// GiveEnv has every task with a script have variables, over those of the file. It fails with an *Error for one that is
// a secret of the job or cannot be a variable.
func (j *Job) GiveEnv(env map[string]string) error {
	for i := range j.Tasks {
		t := &j.Tasks[i]
		for _, name := range t.Secrets {
			if _, both := env[name]; both {
				return j.ErrorAt(i, OfFiles, SecretField(name), "is a secret, not a variable",
					"give it with --secret "+name)
			}
		}
		if !t.StandIn() {
			t.Env = MergeEnv(t.Env, env)
		}
	}
	return j.Validate()
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

// MergeEnv is the environment under with that of over on top. The result may be one of the two: neither is to be
// changed.
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
