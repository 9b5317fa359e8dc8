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

	"github.com/tradewind-broker/tradewind/internal/agent/proc"
	"github.com/tradewind-broker/tradewind/internal/base/clock"
)

// fuseOverlay is the program fuse-overlayfs (github.com/containers/fuse-overlayfs). For any user, it does what the
// kernel does only for root. It mounts with FUSE, which needs no permission, and every process of the user sees the
// mount.
type fuseOverlay struct {
	program string
	spec    Spec
	tree    *proc.Tree
}

// daemonName is the name under which fuse-overlayfs is started, through a link. It uses its program name as the
// device name of its mount and has no option to change that.
const daemonName = deviceName + "over"

// newDaemon finds the program. It returns nil if the program is missing.
func newDaemon(s Spec) *fuseOverlay {
	program, err := exec.LookPath("fuse-overlayfs")
	if err != nil {
		return nil
	}
	d := &fuseOverlay{program: filepath.Join(s.Dir, daemonName), spec: s}
	if err := os.Symlink(program, d.program); err != nil && !errors.Is(err, os.ErrExist) {
		return nil
	}
	return d
}

// mount starts the program and waits until it has mounted. The kernel must neither cache metadata nor hold back data
// (timeout, writeback). Otherwise the task would not see the writes of others, or would see files with an old size.
func (d *fuseOverlay) mount(o overlay) error {
	log, err := os.OpenFile(d.logPath(), os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	defer log.Close() //nolint:errcheck // the program has its own copy
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

// end unmounts and waits for the program's end.
func (d *fuseOverlay) end(point string) {
	if d == nil || d.tree == nil {
		return
	}
	unmount(point)
	d.tree.Terminate(endGrace)
	<-d.tree.Done()
}

func (d *fuseOverlay) logPath() string { return filepath.Join(d.spec.Dir, "over.log") }

// words returns the last line that the program printed.
func (d *fuseOverlay) words() string {
	body, err := os.ReadFile(d.logPath())
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(body)), "\n")
	return lines[len(lines)-1]
}

// mark is the prefix of files with which fuse-overlayfs marks removed files and opaque directories if it cannot set
// extended attributes. A task cannot create a file with such a name.
const mark = ".wh."

// marked parses a mark of fuse-overlayfs. It returns the opaque directory or the removed file.
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
