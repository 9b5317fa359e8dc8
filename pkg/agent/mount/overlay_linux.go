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
)

// overlay is a folder of this machine over rclone's mount, both seen as one at a point (Documentation/filesystems/
// overlayfs.rst of Linux).
type overlay struct {
	lower, upper, point string
}

// newOverlay says where the parts of an overlay lie, in a mount's own directory. It is none where this process may not
// mount one.
func newOverlay(s Spec) (o overlay, ok bool) {
	o = overlay{lower: filepath.Join(s.Dir, "lower"), upper: filepath.Join(s.Dir, "upper"), point: s.Point}
	if s.Mode != Cached || s.Upload == nil || strings.HasPrefix(s.URI, "file://") || os.Geteuid() != 0 ||
		strings.ContainsAny(s.Dir, `:,\`) { // which divide the options
		return o, false
	}
	if _, err := exec.LookPath("umount"); err != nil {
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
	return unix.Unmount(o.point, 0) == nil
}

func (o overlay) mount(uri string) error {
	return unix.Mount(deviceName+uri, o.point, "overlay", unix.MS_NOSUID|unix.MS_NODEV, o.options())
}

// anew has the kernel ask rclone for names that it has been told are not there. It would never ask again: remounting is
// what makes it forget them.
func (o overlay) anew() error {
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
	var st unix.Statx_t
	err := unix.Statx(unix.AT_FDCWD, dir, unix.AT_SYMLINK_NOFOLLOW, unix.STATX_BTIME, &st)
	if err != nil || st.Mask&unix.STATX_BTIME == 0 {
		return time.Unix(1, 0), true // long ago: nothing is removed that others may have written
	}
	return time.Unix(st.Btime.Sec, int64(st.Btime.Nsec)), true
}

func stampOf(info fs.FileInfo) stamp {
	s := stamp{size: info.Size(), written: info.ModTime().UnixNano()}
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		s.inode, s.change = st.Ino, st.Ctim.Nano()
	}
	return s
}
