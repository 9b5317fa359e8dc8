package cli

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// jobEndings are the endings of job files.
var jobEndings = []string{".yaml", ".yml", ".json", ".xml", ".dax", ".sbatch", ".slurm", ".gz"}

// impliedRun returns the arguments with run before them if the first one is a job file instead of a command: it exists,
// or its name can only be meant as one.
func impliedRun(root *cobra.Command, args []string) []string {
	if len(args) == 0 || strings.HasPrefix(args[0], "-") {
		return args
	}
	name := args[0]
	is := func(c *cobra.Command) bool { return c.Name() == name || c.HasAlias(name) }
	if slices.ContainsFunc(root.Commands(), is) {
		return args
	}
	info, err := os.Stat(name) //nolint:gosec // the file that the user names
	if err == nil && info.Mode().IsRegular() || slices.Contains(jobEndings, filepath.Ext(name)) {
		return append([]string{"run"}, args...)
	}
	return args
}
