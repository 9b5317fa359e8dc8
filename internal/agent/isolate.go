package agent

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"syscall"

	"github.com/tradewind-broker/tradewind/internal/agent/proc"
)

// firstUID is the user of the agent with PID 0. Each agent on a worker runs one task at a time, so that its PID, of
// which there are at most 2²², makes the user unique on its machine. Distributions, systemd and container engines leave
// this range free (systemd's "Users, Groups, UIDs and GIDs").
const firstUID = 1879048192

// isolates reports whether the task's command should run as a user of its own. That is so on a worker, if the agent
// is root. It is not so for a task in a container, which does not see other tasks and is root there.
func (t *attempt) isolates() bool { return t.cfg.Isolate && t.boxed == nil }

// mayIsolate reports whether a worker's tasks should be isolated, as far as is known without trying: the agent is root
// on a bought machine. A pod has only its image's files and may not mount. The tasks of a simulated machine are the
// user's own, on the user's computer: they can use the files there, unless the broker's environment sets EnvIsolate.
func mayIsolate(environ []string) bool {
	simulated := lookup(environ, EnvIdentity) != ""
	return os.Geteuid() == 0 && lookup(environ, EnvInside) == "" && (!simulated || lookup(environ, EnvIsolate) == "1")
}

// userName returns the name of the user of an isolated task.
func userName() string { return "tradewind-" + strconv.Itoa(os.Getpid()) }

// isolate makes the isolation of a command of the task, and gives the task's files to its user. Files that the agent
// writes later stay root's.
func (t *attempt) isolate() (*proc.Isolation, error) {
	uid := firstUID + os.Getpid()
	i := &proc.Isolation{UID: uid, Dir: t.dirs.top, Tmp: t.dirs.tmp, Files: map[string]string{}}
	for _, dir := range []string{t.dirs.work, t.dirs.home, t.dirs.inputs, t.dirs.output, t.dirs.tmp} {
		if err := chownAll(dir, uid); err != nil {
			return nil, err
		}
	}
	for _, dir := range []string{t.dirs.top, t.dirs.scripts} { // root's: the task can replace nothing in them
		if err := errors.Join(os.Chown(dir, 0, uid), os.Chmod(dir, 0o710)); err != nil { //nolint:gosec // for its group
			return nil, err
		}
	}
	for file, line := range map[string]string{
		"/etc/passwd": fmt.Sprintf("%[1]s:x:%[2]d:%[2]d::%[3]s:/bin/sh\n", userName(), uid, t.dirs.home),
		"/etc/group":  fmt.Sprintf("%s:x:%d:\n", userName(), uid),
	} {
		if err := t.addAccount(i, file, line); err != nil {
			return nil, err
		}
	}
	if t.setupDir != "" {
		i.Shared = []string{t.setupDir}
	}
	if g := t.controlGroup(); g != nil {
		i.Groups = g.Dirs()
	}
	return i, nil
}

// addAccount gives the task a separate copy of a file that names users or groups, with one more line. Programs find
// their user's name there. On a machine without the file, it does nothing.
func (t *attempt) addAccount(i *proc.Isolation, file, line string) error {
	body, err := os.ReadFile(file) //nolint:gosec // of the machine
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if n := len(body); n > 0 && body[n-1] != '\n' {
		line = "\n" + line
	}
	own := filepath.Join(t.dirs.scripts, filepath.Base(file))
	if err := os.WriteFile(own, append(body, line...), readable); err != nil { //nolint:gosec // see readable
		return err
	}
	i.Files[file], err = filepath.Rel(t.dirs.top, own)
	return err
}

// readable is the mode of files that the task may read but that belong to the agent. Only the agent and the task can
// enter the directory of these files.
const readable = 0o644

// chownAll gives a directory and everything in it to a user. It follows no link. It does not change a file with
// several links, because another link may be anywhere.
func chownAll(dir string, uid int) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close() //nolint:errcheck // only read
	return fs.WalkDir(root.FS(), ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		if owner, links := ownerOf(info); owner == uid || links > 1 && !d.IsDir() {
			return nil
		}
		return root.Lchown(path, uid, uid)
	})
}

// startIsolated starts a command of the task as an isolated user. If this machine cannot isolate it, the command runs
// as the agent's user, and the task's log says so.
func (t *attempt) startIsolated(spec proc.Spec) (*proc.Tree, error) {
	var err error
	if spec.Isolation, err = t.isolate(); err == nil {
		var tree *proc.Tree
		if tree, err = proc.Start(spec); err == nil {
			t.isolation.Store(spec.Isolation)
			return tree, nil
		}
	}
	if !errors.Is(err, proc.ErrNotIsolated) && !errors.Is(err, syscall.EPERM) {
		return nil, err
	}
	t.out.note("this task can be read by other tasks on its machine: " + err.Error())
	spec.Isolation = nil
	if g := t.controlGroup(); g != nil {
		spec.Argv = g.Command(spec.Argv)
	}
	return proc.Start(spec)
}
