package jobfile

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/tradewind-broker/tradewind/internal/base/fault"
	"github.com/tradewind-broker/tradewind/internal/cli/command"
	"github.com/tradewind-broker/tradewind/pkg/dag"
)

// Variables are the flags that set variables of a job, overriding its file.
type Variables struct {
	given []string
	files []string
}

// Flags adds the flags to a command.
func (v *Variables) Flags(c *cobra.Command) {
	c.Flags().StringArrayVar(&v.given, "env", nil,
		"variable of the job's tasks: NAME=VALUE, or NAME to copy it from your environment")
	c.Flags().StringArrayVar(&v.files, "env-file", nil, "file of variables, one NAME=value per line")
	_ = c.RegisterFlagCompletionFunc("env", cobra.NoFileCompletions) // the flag exists
}

// Read returns the variables of the flags: --env overrides files, and later values override earlier ones.
func (v *Variables) Read(a *command.App) (map[string]string, error) {
	env := map[string]string{}
	for _, path := range v.files {
		if err := readLines(path, env, fault.CheckString); err != nil {
			return nil, err
		}
	}
	for _, given := range v.given {
		name, value, some := strings.Cut(given, "=")
		if err := dag.CheckEnvName(name); err != nil {
			return nil, command.BadInput("--env NAME=VALUE, or --env NAME", "--env: %s", reasonOf(err))
		}
		if !some && !a.Has(name) {
			return nil, command.BadInput("set it with --env "+name+"=VALUE",
				"--env %s: the variable %[1]s is not set", name)
		}
		if env[name] = value; !some {
			env[name] = a.Lookup(name)
		}
		if err := fault.CheckString(env[name]); err != nil {
			return nil, command.BadInput("", "--env %s: %s", name, reasonOf(err))
		}
	}
	return env, nil
}
