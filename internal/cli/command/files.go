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

// ReadInput reads a file, or standard input for "-", and returns the name to use in messages.
func (a *App) ReadInput(path string) (name string, body []byte, err error) {
	if path == Stdin {
		body, err = io.ReadAll(io.LimitReader(a.In, dag.MaxFileBytes+1))
		return "stdin", body, err
	}
	body, err = ReadFile(path)
	return path, body, err
}

// ReadFile reads a file that the user named, up to one byte more than the maximum size of a job.
func ReadFile(path string) ([]byte, error) {
	f, err := os.Open(path) //nolint:gosec // reading the file that the user names is the purpose
	if err != nil {
		return nil, Unreadable(path, err)
	}
	defer f.Close() //nolint:errcheck // only read
	if info, err := f.Stat(); err == nil && info.IsDir() {
		return nil, BadInput("name one file", "%s: is a directory", path)
	}
	body, err := io.ReadAll(io.LimitReader(f, dag.MaxFileBytes+1))
	if err != nil {
		return nil, Unreadable(path, err)
	}
	return body, nil
}

// Unreadable returns the failure for a file, named by the user, that cannot be read or written.
func Unreadable(path string, err error) error {
	var p *os.PathError
	if errors.As(err, &p) {
		err = p.Err // without the path, which is printed anyway
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

// Exists reports whether a file or folder exists.
func Exists(path string) bool {
	_, err := os.Stat(path)
	return !errors.Is(err, fs.ErrNotExist)
}

// WarnNewStateFolder warns that settings were stored in a new state folder that no broker has used yet, because it may
// be the wrong one. It does nothing if state is empty.
func (a *App) WarnNewStateFolder(state string) {
	if state != "" {
		a.Tell("created a new state folder at %s: no broker has used it yet", state)
	}
}

// Extensions of files that jobs are read from.
var jobExtensions = []string{"yaml", "yml", "json", "xml", "dax", "sbatch", "slurm", "gz"}

// CompleteFile completes the job file, the only argument.
func CompleteFile(_ *cobra.Command, given []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(given) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return jobExtensions, cobra.ShellCompDirectiveFilterFileExt
}

// Absolute returns path as an absolute path, or unchanged if that fails.
func Absolute(path string) string {
	if abs, err := filepath.Abs(path); err == nil {
		return abs
	}
	return path
}
