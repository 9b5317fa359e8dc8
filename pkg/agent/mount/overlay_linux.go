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

	"github.com/tradewind-broker/tradewind/pkg/agent/proc"
)

// overlay is a folder of this machine over rclone's mount, both seen as one at a point (Documentation/filesystems/
// overlayfs.rst of Linux).
type overlay struct {
	lower, upper, point string
	daemon              *daemon // nil where the kernel does it
}

// newOverlay says where the parts of an overlay lie, in a mount's own directory. It is none where this process may not
// mount one.
func newOverlay(s Spec) (o overlay, ok bool) {
	o = overlay{lower: filepath.Join(s.Dir, "lower"), upper: filepath.Join(s.Dir, "upper"), point: s.Point}
	if s.Mode != Cached || s.Upload == nil || strings.HasPrefix(s.URI, "file://") ||
		strings.ContainsAny(s.Dir, `:,\`) { // which divide the options
		return o, false
	}
	for _, dir := range []string{o.lower, o.upper, o.work()} {
		if os.MkdirAll(dir, 0o700) != nil {
			return o, false
		}
	}
	// Who may write is the container's matter: rclone alone would let everybody.
	if os.Chmod(o.upper, 0o777) != nil { //nolint:gosec // nobody may enter its parent
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

// possible tries it without rclone: a container may lack the right, a kernel the file system, and a disk what an upper
// folder needs.
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

// anew has the kernel ask rclone for names that it has been told are not there. It would never ask again: remounting is
// what makes it forget them.
func (o overlay) anew() error {
	if o.daemon != nil {
		return nil // it keeps nothing in mind
	}
	return unix.Mount("", o.point, "", unix.MS_REMOUNT|unix.MS_NOSUID|unix.MS_NODEV, "")
}

// beingWritten says whether somebody has a file open to write. The kernel grants a lease for reading on a file that
// nobody writes to (fcntl(2), F_SETLEASE).
func beingWritten(path string) bool {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return false // it is a link, or gone
	}
	defer unix.Close(fd) //nolint:errcheck // only read
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_SETLEASE, unix.F_RDLCK); err != nil {
		return err == unix.EAGAIN //nolint:errorlint // a number
	}
	_, _ = unix.FcntlInt(uintptr(fd), unix.F_SETLEASE, unix.F_UNLCK)
	return false
}

// isWhiteout says whether an entry of the upper folder hides one below it.
func isWhiteout(info fs.FileInfo) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && info.Mode()&fs.ModeCharDevice != 0 && st.Rdev == 0
}

// opaqueSince says whether a directory of the upper folder hides what lies below it, and when it was made, as far as
// the file system knows.
func opaqueSince(dir string) (made time.Time, ok bool) {
	var value [1]byte
	if n, err := unix.Lgetxattr(dir, "trusted.overlay.opaque", value[:]); err != nil || n != 1 || value[0] != 'y' {
		return made, false
	}
	return madeAt(dir), true
}

// madeAt is when a directory was made, or long ago where the file system does not know: nothing is removed then that
// others may have written.
func madeAt(dir string) time.Time {
	var st unix.Statx_t
	err := unix.Statx(unix.AT_FDCWD, dir, unix.AT_SYMLINK_NOFOLLOW, unix.STATX_BTIME, &st)
	if err != nil || st.Mask&unix.STATX_BTIME == 0 {
		return time.Unix(1, 0)
	}
	return time.Unix(st.Btime.Sec, int64(st.Btime.Nsec))
}

// noteMark notes what a mark of fuse-overlayfs says, if the name of an entry is one.
func (o overlay) noteMark(seen *contents, name string) bool {
	of, opaque, ok := marked(name)
	switch {
	case o.daemon == nil || !ok:
		return false
	case opaque:
		seen.opaque[of] = madeAt(filepath.Join(o.upper, of))
	default:
		seen.white = append(seen.white, of)
	}
	return true
}

// over is the process that the overlay needs beside rclone, if it does.
func (o overlay) over() *proc.Tree {
	if o.daemon == nil {
		return nil
	}
	return o.daemon.tree
}

// broke says that it ended by itself: unmounted, it ends well.
func (o overlay) broke() bool {
	if o.over() == nil {
		return false
	}
	select {
	case <-o.over().Done():
		exit, err := o.over().Wait()
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
