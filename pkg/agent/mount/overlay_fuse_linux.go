package mount

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/tradewind-broker/tradewind/pkg/agent/proc"
	"github.com/tradewind-broker/tradewind/pkg/clock"
)

// daemon is the program fuse-overlayfs (github.com/containers/fuse-overlayfs), which does for any user what the kernel
// does for root: the mount is FUSE's, so it needs no right, and every process of the user sees it.
type daemon struct {
	program string
	spec    Spec
	tree    *proc.Tree
}

// daemonName is what fuse-overlayfs is called, by a link: it names what it mounts by that, and takes no other name.
const daemonName = deviceName + "over"

// newDaemon finds the program; none is no error.
func newDaemon(s Spec) *daemon {
	program, err := exec.LookPath("fuse-overlayfs")
	if err != nil {
		return nil
	}
	d := &daemon{program: filepath.Join(s.Dir, daemonName), spec: s}
	if err := os.Symlink(program, d.program); err != nil && !errors.Is(err, os.ErrExist) {
		return nil
	}
	return d
}

// mount starts the program and waits until it has mounted. The kernel keeps nothing in mind of what it is told, nor any
// data back (timeout, writeback): else what others write would not be seen, or with the size that it once had.
func (d *daemon) mount(o overlay) error {
	log, err := os.OpenFile(d.logPath(), os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	defer log.Close() //nolint:errcheck // the program has its own
	d.tree, err = proc.Start(proc.Spec{
		Argv: []string{d.program, "-f", "-o", "lowerdir=" + o.lower + ",upperdir=" + o.upper + ",workdir=" + o.work() +
			",timeout=0,writeback=0", o.point},
		Dir: d.spec.Dir, Env: d.spec.Environ, Output: log, Hold: d.spec.Hold, Linger: endGrace,
		After: unmountCommand(o.point),
	})
	if err != nil {
		return err
	}
	for deadline := time.Now().Add(mountWithin); time.Now().Before(deadline); {
		if mounted, err := isMounted(o.point); err != nil || mounted {
			return err
		}
		select {
		case <-d.tree.Done():
			return fmt.Errorf("fuse-overlayfs: %s", d.words())
		default:
		}
		if err := clock.Pause(context.Background(), look); err != nil {
			return err
		}
	}
	d.end(o.point)
	return fmt.Errorf("fuse-overlayfs did not mount within %v: %s", mountWithin, d.words())
}

// end unmounts and waits for the program.
func (d *daemon) end(point string) {
	if d == nil || d.tree == nil {
		return
	}
	unmount(point)
	d.tree.Terminate(endGrace)
	<-d.tree.Done()
}

func (d *daemon) logPath() string { return filepath.Join(d.spec.Dir, "over.log") }

// words are the last that the program said.
func (d *daemon) words() string {
	body, err := os.ReadFile(d.logPath())
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(body)), "\n")
	return lines[len(lines)-1]
}

// marks are files by which fuse-overlayfs says that a directory hides what lies below it, where it may set no
// attribute to say so. A task can make none whose name begins so.
const mark = ".wh."

// marked says what a mark of fuse-overlayfs is of: a directory that is opaque, or a file that was removed.
func marked(name string) (of string, opaque, ok bool) {
	base, ok := strings.CutPrefix(path.Base(filepath.ToSlash(name)), mark)
	if !ok {
		return "", false, false
	}
	dir := filepath.Dir(name)
	if base == ".opq" || base == mark+".opq" {
		return dir, true, true
	}
	return filepath.Join(dir, base), false, true
}
