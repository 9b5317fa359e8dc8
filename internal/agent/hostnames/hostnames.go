// Package hostnames makes names known on a machine while a task runs: it adds them to /etc/hosts, and removes them when
// the task has ended, or at the next start if the process that added them was killed.
//
// Several agents may share a machine and its file. Each line ends with a comment that names the process and the attempt
// that it belongs to.
package hostnames

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/tradewind-broker/tradewind/internal/agent/proc"
	"github.com/tradewind-broker/tradewind/internal/base/files"
)

// Default is the file in which programs look up names.
const Default = "/etc/hosts"

// mark begins the comment at the end of each line that this package has written.
const mark = " # tradewind "

// File is a file in the format of /etc/hosts. The zero value is Default.
type File string

// owner is the process and the attempt that a line belongs to.
type owner struct {
	proc.Identity
	Attempt string `json:"attempt"`
}

// Set writes the lines of an attempt, ADDRESS NAME each, and removes those that it wrote before. No lines remove them.
// The attempt belongs to this process.
func (f File) Set(attempt string, lines []string) error {
	id, err := proc.Identify(os.Getpid())
	if err != nil {
		return err
	}
	own, err := json.Marshal(owner{id, attempt})
	if err != nil {
		return err
	}
	return f.edit(func(line string) bool { return !strings.HasSuffix(line, mark+string(own)) }, lines, string(own))
}

// Sweep removes the lines of processes that no longer exist.
func (f File) Sweep() error {
	return f.edit(func(line string) bool {
		_, text, ours := strings.Cut(line, mark)
		var o owner
		return !ours || json.Unmarshal([]byte(text), &o) != nil || o.Alive()
	}, nil, "")
}

// edit removes the lines that are not kept and appends others.
func (f File) edit(kept func(line string) bool, add []string, own string) error {
	path := string(f)
	if path == "" {
		path = Default
	}
	lock, err := os.Open(path) //nolint:gosec // the machine's own file
	if errors.Is(err, fs.ErrNotExist) && len(add) == 0 {
		return nil
	} else if err != nil {
		return err
	}
	defer lock.Close() //nolint:errcheck // only read
	if err := await(lock); err != nil {
		return err
	}
	before, err := io.ReadAll(lock)
	if err != nil {
		return err
	}
	var after bytes.Buffer
	for line := range bytes.Lines(before) {
		if kept(strings.TrimRight(string(line), "\r\n")) {
			after.Write(line)
		}
	}
	if text := after.Bytes(); len(add) > 0 && len(text) > 0 && text[len(text)-1] != '\n' {
		after.WriteByte('\n')
	}
	for _, line := range add {
		after.WriteString(line + mark + own + "\n")
	}
	if bytes.Equal(before, after.Bytes()) {
		return nil
	}
	return replace(path, after.Bytes())
}

// await locks the file, so that agents that share a machine do not overwrite each other's lines.
func await(lock *os.File) error {
	const longest, pause = 10 * time.Second, 10 * time.Millisecond
	for until := time.Now().Add(longest); ; time.Sleep(pause) {
		taken, err := files.Try(lock, files.Exclusive)
		if err != nil || taken {
			return err
		}
		if time.Now().After(until) {
			return errors.New("another process has locked it")
		}
	}
}

// replace writes the content of the file. It does not replace the file by a new one, because containers bind it, and
// the file is never empty meanwhile. A user who may not write it uses sudo, if sudo needs no password.
func replace(path string, text []byte) error {
	out, err := os.OpenFile(path, os.O_WRONLY, 0) //nolint:gosec // the file of host names, or one for tests
	if errors.Is(err, fs.ErrPermission) {
		tee := exec.Command("sudo", "-n", "tee", path) //nolint:gosec // the machine's own file
		tee.Stdin = bytes.NewReader(text)
		if tee.Run() == nil {
			return nil
		}
	}
	if err != nil {
		return err
	}
	_, err = out.Write(text)
	return errors.Join(err, out.Truncate(int64(len(text))), out.Close())
}
