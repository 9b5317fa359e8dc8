package command

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/tradewind-broker/tradewind/pkg/dag"
)

// Stdin is the argument for standard input.
const Stdin = "-"

// ReadInput reads a file, or standard input for "-", and says by which name messages speak of it.
func (a *App) ReadInput(path string) (name string, body []byte, err error) {
	if path == Stdin {
		body, err = io.ReadAll(io.LimitReader(a.In, dag.MaxFileBytes+1))
		return "stdin", body, err
	}
	body, err = ReadFile(path)
	return path, body, err
}

// ReadFile reads a file that the user named, up to a byte more than a job may have.
func ReadFile(path string) ([]byte, error) {
	f, err := os.Open(path) //nolint:gosec // reading the file that the user names is the purpose
	if err != nil {
		return nil, Unreadable(path, err)
	}
	defer f.Close() //nolint:errcheck // read-only
	if info, err := f.Stat(); err == nil && info.IsDir() {
		return nil, BadInput("name one file", "%s: is a directory", path)
	}
	body, err := io.ReadAll(io.LimitReader(f, dag.MaxFileBytes+1))
	if err != nil {
		return nil, Unreadable(path, err)
	}
	return body, nil
}

// Unreadable says that a file which the user named can not be read or written.
func Unreadable(path string, err error) error {
	var p *os.PathError
	if errors.As(err, &p) {
		err = p.Err // the path is said already
	}
	return Because(err, ExitBadInput, "", "%s: %v", path, err)
}

// WriteFile writes a file that the user named.
func WriteFile(path string, write func(io.Writer) error) error {
	out, err := os.Create(path) //nolint:gosec // writing the file that the user names is the purpose
	if err != nil {
		return Unreadable(path, err)
	}
	err = write(out)
	if cerr := out.Close(); err == nil {
		err = cerr
	}
	return err
}

// Exists says that there is a file or folder of a name.
func Exists(path string) bool {
	_, err := os.Stat(path)
	return !errors.Is(err, fs.ErrNotExist)
}

// TellFresh says that what was set is kept in a state folder where no broker has worked so far, as it may be the wrong
// one. No name is none.
func (a *App) TellFresh(state string) {
	if state != "" {
		a.Tell("a new state folder was made at %s: no broker has worked there so far", state)
	}
}

// Extensions of files that jobs are read from.
var jobExtensions = []string{"yaml", "yml", "json", "xml", "dax", "sbatch", "slurm", "gz"}

// CompleteFile completes the name of a job file as the only argument.
func CompleteFile(_ *cobra.Command, given []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(given) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return jobExtensions, cobra.ShellCompDirectiveFilterFileExt
}

// Absolute is a path as seen from anywhere; as it stands where that cannot be said.
func Absolute(path string) string {
	if abs, err := filepath.Abs(path); err == nil {
		return abs
	}
	return path
}
