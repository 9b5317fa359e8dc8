package mount

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"github.com/tradewind-broker/tradewind/internal/agent/proc"
	"github.com/tradewind-broker/tradewind/internal/base/clock"
	"github.com/tradewind-broker/tradewind/pkg/grant"
)

// Errors of this package, wrapped with detail.
var (
	// ErrNoProgram means that rclone is missing or too old.
	ErrNoProgram = errors.New("rclone is missing or too old")
	// ErrNoFUSE means that this machine cannot mount.
	ErrNoFUSE = errors.New("this machine cannot mount")
	// ErrMount means that mounting failed; rclone's message follows.
	ErrMount = errors.New("cannot mount")
	// ErrLost means that rclone ended while the mount was in use.
	ErrLost = errors.New("lost the mount")
	// ErrUnsent means that some files were not uploaded; the error names them.
	ErrUnsent = errors.New("not uploaded")
	// ErrRefused is wrapped by errors of Spec.Upload if a retry does not help.
	ErrRefused = errors.New("refused")
)

// Mode states how a task may use a mount, as in the job's file.
type Mode string

// The modes.
const (
	Read   Mode = "read"   // read only
	Write  Mode = "write"  // read and write; a file is uploaded when it is closed
	Cached Mode = "cached" // read and write through a cache on disk; files are uploaded in the background
)

func (m Mode) writes() bool { return m != Read }

// Spec describes a mount.
type Spec struct {
	URI   string // a bucket, a prefix, or a folder of this machine (file:///)
	Mode  Mode
	Point string // the absolute path of an empty directory
	// Dir is a directory for the mount's own files: rclone's configuration, log and cache. It is created, and removed
	// when the mount is closed.
	Dir     string
	Program string        // rclone; see Find
	Environ []string      // in which rclone finds its helper: PATH
	Hold    *os.File      // see proc.Spec
	Still   time.Duration // time without any progress after which a flush fails; 0 means 10 min
	// Upload uploads files of a directory to the same paths below the URI. If it is set, and if this machine can
	// mount an overlay, writes to a Cached mount go to the disk and are uploaded with it instead of by rclone.
	Upload func(ctx context.Context, dir string, files []string) error
}

const (
	mountWithin = time.Minute // for rclone to mount
	endGrace    = 5 * time.Second
	look        = 20 * time.Millisecond
	stillFor    = 10 * time.Minute
)

// Mount is an active mount. Its methods are safe for concurrent use, except Close.
type Mount struct {
	spec   Spec
	config *config
	rc     *control
	tree   *proc.Tree
	behind *writeBehind // nil if rclone uploads
}

// Start mounts with credentials for the URI. A folder of this machine needs none. Start returns when the mount is
// ready.
func Start(ctx context.Context, s Spec, c grant.Credentials) (_ *Mount, err error) {
	if err := os.MkdirAll(s.Dir, 0o700); err != nil {
		return nil, err
	}
	m := &Mount{spec: s}
	if m.rc, err = newControl(s.Dir); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			m.Close()
		}
	}()
	if err := emptyDir(s.Point); err != nil {
		return nil, fmt.Errorf("%w %s: %w", ErrMount, s.URI, err)
	}
	if m.config, err = newConfig(s, c); err != nil {
		return nil, fmt.Errorf("%w %s: %w", ErrMount, s.URI, err)
	}
	log, err := os.OpenFile(m.logPath(), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	defer log.Close() //nolint:errcheck // rclone has its own copy
	if over, ok := newOverlay(s); ok {
		m.behind = &writeBehind{
			overlay:   over,
			send:      s.Upload,
			remove:    m.remover,
			forget:    m.refreshListings,
			validName: m.validName,
		}
	}
	m.tree, err = proc.Start(proc.Spec{
		Argv: append([]string{s.Program}, m.arguments()...), Dir: s.Dir, Env: m.config.environ(s.Environ), Output: log,
		Hold: s.Hold, Linger: endGrace, After: unmountCommand(m.points()...),
	})
	if err != nil {
		return nil, err
	}
	if err := m.ready(ctx); err != nil || m.behind == nil {
		return m, err
	}
	if err := m.behind.mount(s.URI); err != nil {
		return nil, fmt.Errorf("%w %s over rclone's: %w", ErrMount, s.URI, err)
	}
	if over := m.behind.process(); over != nil { // without it the task sees an empty folder, so the mount must end
		go func() {
			<-over.Done()
			m.tree.Terminate(0)
		}()
	}
	m.behind.start()
	return m, nil
}

// points returns the mount points of this mount, the topmost first.
func (m *Mount) points() []string {
	if m.behind == nil {
		return []string{m.spec.Point}
	}
	return []string{m.spec.Point, m.behind.lower}
}

// bottom returns where rclone mounts.
func (m *Mount) bottom() string { return m.points()[len(m.points())-1] }

// emptyDir returns an error unless path is an empty directory: the mount would hide its content.
func emptyDir(path string) error {
	entries, err := os.ReadDir(path)
	if err == nil && len(entries) > 0 {
		err = fmt.Errorf("%s is not empty: it contains %s", path, entries[0].Name())
	}
	return err
}

// arguments returns rclone's arguments. They contain no secrets, because every user of the machine can read them.
func (m *Mount) arguments() []string {
	s := m.spec
	args := []string{
		"mount", m.config.remote, m.bottom(), "--config", m.config.path, "--cache-dir", filepath.Join(s.Dir, "cache"),
		"--devname", deviceName + s.URI, "--rc", "--rc-addr", "unix://" + socketName, "--rc-no-auth",
		"--log-level", "NOTICE", "--use-server-modtime", "--poll-interval", "0", "--file-perms", "0755",
		"--vfs-read-chunk-size", "16M", "--vfs-read-chunk-streams", "4", "--transfers", "16",
		"--vfs-cache-max-age", "24h", "--vfs-cache-min-free-space", "1G",
	}
	if othersMay() {
		args = append(args, "--allow-other")
	}
	if m.behind != nil { // behind decides when rclone reads the listings again
		return append(args, "--vfs-cache-mode", "full", "--read-only", "--dir-cache-time", "8760h",
			"--dir-perms", "0777", "--file-perms", "0777")
	}
	switch s.Mode {
	case Write:
		// A closed file is uploaded at once, but close does not wait for that. Failed uploads are retried.
		return append(args, "--vfs-cache-mode", "writes", "--vfs-write-back", "100ms", "--dir-cache-time", "10s")
	case Cached:
		return append(args, "--vfs-cache-mode", "full", "--vfs-write-back", "1s", "--dir-cache-time", "10s")
	}
	return append(args, "--vfs-cache-mode", "off", "--read-only")
}

// othersMay reports whether rclone may give access to processes of other users, such as those of a container whose
// engine runs as root (fuse(8), allow_other).
func othersMay() bool {
	return os.Geteuid() == 0 || fuseConfAllows("/etc/fuse.conf")
}

// validName reports whether an object of the mount can have a name.
func (m *Mount) validName(name string) bool {
	_, err := grant.Below(m.spec.URI, name)
	return err == nil
}

// ready waits until rclone has mounted.
func (m *Mount) ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, mountWithin)
	defer cancel()
	for {
		mounted, err := isMounted(m.bottom())
		if err != nil || mounted {
			return err
		}
		select {
		case <-m.tree.Done():
			return fmt.Errorf("%w %s: %s", ErrMount, m.spec.URI, m.lastError())
		case <-ctx.Done():
			return fmt.Errorf("%w %s: %w: %s", ErrMount, m.spec.URI, ctx.Err(), m.lastError())
		case <-time.After(look):
		}
	}
}

// Writes reports whether a task may write to the mount.
func (m *Mount) Writes() bool { return m.spec.Mode.writes() }

// URI returns the URI of the mounted bucket or folder.
func (m *Mount) URI() string { return m.spec.URI }

// Renew replaces the credentials. rclone starts to use the new ones before the old ones expire.
func (m *Mount) Renew(c grant.Credentials) error { return m.config.renew(c) }

// Gone returns a channel that is closed when the mount has ended.
func (m *Mount) Gone() <-chan struct{} { return m.tree.Done() }

// Lost returns the reason for which a mount ended that was not closed. The error names the files that were not
// uploaded.
func (m *Mount) Lost() error {
	if m.behind != nil { // stop it: an upload may take hours
		m.behind.close()
	}
	how := ended("rclone", m.tree)
	if m.behind != nil && m.behind.failed() {
		how = ended("fuse-overlayfs", m.behind.process())
	}
	if words := m.lastError(); words != "" {
		how += ": " + words
	}
	err := fmt.Errorf("%w of %s at %s: %s", ErrLost, m.spec.URI, m.spec.Point, how)
	if left, _ := m.unsent(); len(left) > 0 {
		return fmt.Errorf("%w; %w: %s", err, ErrUnsent, names(left))
	}
	return err
}

// ended describes how a program ended.
func ended(program string, t *proc.Tree) string {
	exit, err := t.Wait()
	switch {
	case err != nil:
		return program + " was killed"
	case exit.Signal != 0:
		return program + " was killed by signal " + strconv.Itoa(int(exit.Signal)) + " (" + exit.Signal.String() + ")"
	}
	return program + " ended"
}

// Close unmounts at once, even during uploads, and removes the mount's files on disk. Data that was not flushed is
// lost.
func (m *Mount) Close() {
	if m.behind != nil && m.behind.stop != nil {
		m.behind.close()
	}
	if m.behind != nil {
		m.behind.end()
	}
	if m.tree != nil {
		unmount(m.points()...)
		m.tree.Terminate(endGrace)
		<-m.tree.Done()
	}
	for _, point := range m.points() {
		if mounted, err := isMounted(point); err == nil && mounted {
			unmount(point)
		}
	}
	if m.config != nil {
		m.config.close()
	}
	m.rc.close()
	_ = os.RemoveAll(m.spec.Dir)
}

// unmount unmounts at once, even if the mount is busy or rclone is dead. Processes with open files in it get errors.
func unmount(points ...string) {
	argv := unmountCommand(points...)
	if len(argv) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	_ = exec.CommandContext(ctx, argv[0], argv[1:]...).Run() //nolint:gosec // a system program
}

// Clear unmounts remaining mounts of this package at or below a directory, or everywhere if dir is empty. Mounts may
// remain when an agent was killed together with the processes that should have ended its mounts. It returns an error
// if a mount still exists, because removing the directory would then remove the objects in a bucket.
func Clear(ctx context.Context, dir string) error { return clearOf(ctx, dir, deviceName) }

// ClearAll unmounts everything at or below a directory that is about to be removed, including mounts that a task has
// made.
func ClearAll(ctx context.Context, dir string) error { return clearOf(ctx, dir, "") }

// clearOf unmounts the mounts whose device name begins with device.
func clearOf(ctx context.Context, dir, device string) error {
	for tries := 0; ; tries++ {
		left, err := mountsBelow(dir, device)
		if err != nil || len(left) == 0 {
			return err
		}
		if tries == 3 {
			return fmt.Errorf("still mounted: %s", left[0])
		}
		for _, point := range left {
			unmount(point)
		}
		if err := clock.Pause(ctx, time.Duration(tries)*100*time.Millisecond); err != nil {
			return err
		}
	}
}
