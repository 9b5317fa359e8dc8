package mount

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tradewind-broker/tradewind/internal/agent/proc"
)

// overlay is a folder of this machine over rclone's mount; the mount point shows both as one (Linux,
// Documentation/filesystems/overlayfs.rst).
type overlay struct {
	lower, upper, point string
	daemon              *fuseOverlay // nil if the kernel mounts it
}

// newOverlay creates the directories of an overlay in the mount's own directory. ok is false if this process cannot
// mount overlays.
func newOverlay(s Spec) (o overlay, ok bool) {
	o = overlay{lower: filepath.Join(s.Dir, "lower"), upper: filepath.Join(s.Dir, "upper"), point: s.Point}
	if s.Mode != Cached || s.Upload == nil || strings.HasPrefix(s.URI, "file://") ||
		strings.ContainsAny(s.Dir, `:,\`) { // separators in the mount options
		return o, false
	}
	for _, dir := range []string{o.lower, o.upper, o.work()} {
		if os.MkdirAll(dir, 0o700) != nil {
			return o, false
		}
	}
	// The overlay does not restrict which users of a container may write, because plain rclone would not either.
	if os.Chmod(o.upper, 0o777) != nil { //nolint:gosec // other users cannot enter its parent
		return o, false
	}
	if _, err := exec.LookPath("umount"); err == nil && os.Geteuid() == 0 && o.possible() {
		return o, true
	}
	if o.daemon = newDaemon(s); o.daemon == nil {
		return o, false
	}
	return o, o.possible()
}

func (o overlay) work() string { return o.upper + ".work" }

func (o overlay) options() string {
	return "lowerdir=" + o.lower + ",upperdir=" + o.upper + ",workdir=" + o.work() +
		",redirect_dir=off,metacopy=off,index=off"
}

// possible mounts the overlay without rclone to find out whether it works. It does not if a container lacks the
// permission, if the kernel lacks the file system, or if the disk lacks a feature that the upper folder needs.
func (o overlay) possible() bool {
	if o.mount("") != nil {
		return false
	}
	if o.daemon == nil {
		return unix.Unmount(o.point, 0) == nil
	}
	o.daemon.end(o.point)
	mounted, err := isMounted(o.point)
	return err == nil && !mounted
}

func (o overlay) mount(uri string) error {
	if o.daemon != nil {
		return o.daemon.mount(o)
	}
	return unix.Mount(deviceName+uri, o.point, "overlay", unix.MS_NOSUID|unix.MS_NODEV, o.options())
}

// refresh makes the kernel ask rclone again for names that did not exist before. The kernel caches them without limit,
// and only a remount clears them.
func (o overlay) refresh() error {
	if o.daemon != nil {
		return nil // it caches nothing
	}
	return unix.Mount("", o.point, "", unix.MS_REMOUNT|unix.MS_NOSUID|unix.MS_NODEV, "")
}

// beingWritten reports whether a process has a file open for writing. The kernel grants a read lease only on a file
// that no process has open for writing (fcntl(2), F_SETLEASE).
func beingWritten(path string) bool {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return false // it is a link, or was removed
	}
	defer unix.Close(fd) //nolint:errcheck // only read
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_SETLEASE, unix.F_RDLCK); err != nil {
		return err == unix.EAGAIN //nolint:errorlint // a number
	}
	_, _ = unix.FcntlInt(uintptr(fd), unix.F_SETLEASE, unix.F_UNLCK)
	return false
}

// isWhiteout reports whether an entry of the upper folder hides a file of the lower one.
func isWhiteout(info fs.FileInfo) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && info.Mode()&fs.ModeCharDevice != 0 && st.Rdev == 0
}

// opaqueSince reports whether a directory of the upper folder hides the directory below it. It also returns the
// creation time of the upper directory, as far as the file system knows it.
func opaqueSince(dir string) (made time.Time, ok bool) {
	var value [1]byte
	if n, err := unix.Lgetxattr(dir, "trusted.overlay.opaque", value[:]); err != nil || n != 1 || value[0] != 'y' {
		return made, false
	}
	return createdAt(dir), true
}

// createdAt returns the creation time of a directory. If the file system does not know it, createdAt returns a time
// long ago, so that files of other machines count as newer and are kept.
func createdAt(dir string) time.Time {
	var st unix.Statx_t
	err := unix.Statx(unix.AT_FDCWD, dir, unix.AT_SYMLINK_NOFOLLOW, unix.STATX_BTIME, &st)
	if err != nil || st.Mask&unix.STATX_BTIME == 0 {
		return time.Unix(1, 0)
	}
	return time.Unix(st.Btime.Sec, int64(st.Btime.Nsec))
}

// noteMark adds an entry to seen if its name is a mark of fuse-overlayfs.
func (o overlay) noteMark(seen *contents, name string) bool {
	of, opaque, ok := marked(name)
	switch {
	case o.daemon == nil || !ok:
		return false
	case opaque:
		seen.opaque[of] = createdAt(filepath.Join(o.upper, of))
	default:
		seen.white = append(seen.white, of)
	}
	return true
}

// process returns the process that the overlay needs in addition to rclone; nil if there is none.
func (o overlay) process() *proc.Tree {
	if o.daemon == nil {
		return nil
	}
	return o.daemon.tree
}

// failed reports whether the process of the overlay ended by itself. When it is unmounted, it exits with code 0.
func (o overlay) failed() bool {
	if o.process() == nil {
		return false
	}
	select {
	case <-o.process().Done():
		exit, err := o.process().Wait()
		return err != nil || exit.Code != 0
	default:
		return false
	}
}

// end ends that process.
func (o overlay) end() { o.daemon.end(o.point) }

func stampOf(info fs.FileInfo) stamp {
	s := stamp{size: info.Size(), written: info.ModTime().UnixNano()}
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		s.inode, s.change = st.Ino, st.Ctim.Nano()
	}
	return s
}
