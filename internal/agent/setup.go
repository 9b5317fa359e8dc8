package agent

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/tradewind-broker/tradewind/internal/agent/wire"
	"github.com/tradewind-broker/tradewind/internal/base/files"
)

// setupName is the name of the setup script's file.
const setupName = "setup"

// setup runs the setup script, or, on a worker, waits until it has run once for all tasks with the same setup.
func (t *attempt) setup() error {
	switch {
	case t.work.Setup == "":
		return nil
	case t.sharesSetup():
		return t.setUpWorker()
	}
	return t.runSetup(t.own())
}

// runSetup runs the setup script to its end.
func (t *attempt) runSetup(in place) error {
	s, err := t.start(setupName, t.work.Setup, in, true)
	if err != nil {
		return err
	}
	select {
	case <-s.Exited():
	case <-t.unlessOrdered.Done():
		s.Terminate(t.cfg.Grace)
	case err := <-t.mounts.lost:
		return t.endOf(s, err)
	case <-t.overtime:
		return t.endOf(s, errTimeout)
	}
	return t.endOrLeave(s)
}

// sharesSetup reports whether the other tasks of the worker can use this task's setup. They cannot in three cases: in
// a container, which only this task has; if the setup names a variable that differs between tasks; or if inputs are
// in the task's folder.
func (t *attempt) sharesSetup() bool {
	placed := slices.ContainsFunc(t.work.Inputs, func(in wire.Input) bool { return in.Path != "" })
	return t.cfg.Setups != "" && t.boxed == nil && !placed && !strings.Contains(t.work.Setup, ownPrefix)
}

// ownPrefix is the prefix of the variables that may differ between tasks with the same setup.
const ownPrefix = "TRADEWIND_"

// setupKey is the same for tasks of a worker that have the same setup: its text, variables, secrets and workdir.
func (t *attempt) setupKey() (string, error) {
	env := maps.Clone(t.work.Env)
	maps.DeleteFunc(env, func(name, _ string) bool { return strings.HasPrefix(name, ownPrefix) })
	text, err := json.Marshal([]any{t.work.Setup, t.work.Login, t.work.Workdir, env, map[string]string(t.work.Secrets)})
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:12]), err
}

// The file setupDone in the folder of a setup means that the setup has succeeded. Its content states whether other
// tasks must run the setup again.
const (
	setupDone = "done"
	// setupOnce means that no task needs to run it again.
	setupOnce = "once"
	// setupEach means that the setup left programs running. They end with the task that started them, so each task
	// runs the setup.
	setupEach = "each"
)

// setUpWorker runs the setup if no other task of the worker has done so, in a folder that stays with the worker. New
// files there appear in the task's own folder and home. Setups of one worker run one after another. If one fails, the
// next task runs it again.
func (t *attempt) setUpWorker() error {
	key, err := t.setupKey()
	if err != nil {
		return err
	}
	unlock, err := t.lockSetups()
	if err != nil {
		return err
	}
	defer unlock()
	dir := filepath.Join(t.cfg.Setups, key)
	done, err := os.ReadFile(filepath.Join(dir, setupDone)) //nolint:gosec // the worker's own folder
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if err := t.firstSetup(dir); err != nil {
			return err
		}
	case err != nil:
		return err
	case string(done) == setupEach:
		return t.runSetup(t.own())
	}
	t.setupDir = dir
	if err := linkNew(filepath.Join(dir, "work"), t.dirs.work, 0); err != nil || !t.ownHome() {
		return err
	}
	return linkNew(filepath.Join(dir, "home"), t.dirs.home, 1)
}

// firstSetup runs the setup in a new folder with the task's workdir.
func (t *attempt) firstSetup(dir string) error {
	in := place{work: filepath.Join(dir, "work")}
	home := filepath.Join(dir, "home")
	if t.ownHome() {
		in.home = home
	}
	if err := errors.Join(files.RemoveAll(dir), os.MkdirAll(in.work, 0o700), os.MkdirAll(home, 0o700)); err != nil {
		return err
	}
	if t.work.Workdir != "" {
		if err := t.fetch(t.unlessOrdered, t.work.Workdir, in.work, "."); err != nil {
			return err
		}
	}
	if err := t.runSetup(in); err != nil {
		return err
	}
	if err := context.Cause(t.unlessOrdered); err != nil { // it may have been ended
		return err
	}
	if err := openToRead(dir); err != nil {
		return err
	}
	done := setupOnce
	if t.leftPrograms() {
		done = setupEach
	}
	return files.Write(filepath.Join(dir, setupDone), readable, []byte(done))
}

// leftPrograms reports whether programs that the setup has left still run after a moment.
func (t *attempt) leftPrograms() bool {
	end := time.After(leftOutput)
	for _, s := range t.left {
		select {
		case <-s.Done():
		case <-end:
			return true
		}
	}
	return false
}

// setupPause is the pause between two tries to get the lock on the worker's setups.
const setupPause = 50 * time.Millisecond

// lockSetups waits until no other task of the worker runs a setup.
func (t *attempt) lockSetups() (unlock func(), err error) {
	if err := os.MkdirAll(t.cfg.Setups, 0o755); err != nil { //nolint:gosec // tasks of the worker read what is in it
		return nil, err
	}
	f, err := os.OpenFile(filepath.Join(t.cfg.Setups, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	for {
		taken, err := files.Try(f, files.Exclusive)
		if taken {
			return func() { _ = f.Close() }, nil
		}
		if err == nil {
			select {
			case <-time.After(setupPause):
				continue
			case <-t.unlessOrdered.Done():
				err = context.Cause(t.unlessOrdered)
			case <-t.overtime:
				err = errTimeout
			}
		}
		return nil, errors.Join(err, f.Close())
	}
}

// openToRead lets every user read what its owner may read in a directory. Only the owner can change it.
func openToRead(dir string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close() //nolint:errcheck // nothing was written
	return fs.WalkDir(root.FS(), ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.Type()&fs.ModeSymlink != 0 {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		read := info.Mode().Perm() & 0o500
		return root.Chmod(path, info.Mode().Perm()&0o700|read>>3|read>>6)
	})
}

// cacheName is the name of the directory in a home in which every program may write.
const cacheName = ".cache"

// linkNew makes links in a directory to the files of another directory that are missing in it. The directories in the
// upper levels become directories, in which the task can write, instead of links.
func linkNew(from, to string, levels int) error {
	entries, err := os.ReadDir(from)
	if err != nil {
		return err
	}
	for _, e := range entries {
		source, link := filepath.Join(from, e.Name()), filepath.Join(to, e.Name())
		info, err := os.Lstat(link)
		missing := errors.Is(err, fs.ErrNotExist)
		switch {
		case err != nil && !missing:
		case levels > 0 && e.Name() == cacheName:
			err = nil
		case missing && e.IsDir() && levels > 0:
			if err = os.Mkdir(link, 0o700); err == nil {
				err = linkNew(source, link, levels-1)
			}
		case missing:
			err = os.Symlink(source, link)
		case e.IsDir() && info.IsDir():
			err = linkNew(source, link, levels-1)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
