package proc

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// isolatedTask starts a task as another user in a separate mount namespace. The thread that does this keeps the
// namespace and the control groups, and does nothing else afterwards. It must not end, because the task's
// parent-death signal is tied to it. All other threads of the supervisor stay outside.
func isolatedTask(task order, attr *syscall.SysProcAttr, fork func() (int, error)) (pid int, err error) {
	done := make(chan struct{})
	go func() {
		runtime.LockOSThread()
		pid, err = task.Isolation.fork(attr, fork)
		close(done)
		select {}
	}()
	<-done
	return pid, err
}

// fork enters the namespace and the groups with this thread, and starts the task.
func (i *Isolation) fork(attr *syscall.SysProcAttr, fork func() (int, error)) (int, error) {
	leave := i.join(attr)
	defer leave()
	if err := i.enter(); err != nil {
		return 0, fmt.Errorf("%w: %w", ErrNotIsolated, err)
	}
	id := uint32(i.UID) //nolint:gosec // below 2³¹
	attr.Credential = &syscall.Credential{Uid: id, Gid: id, Groups: []uint32{}}
	pid, err := fork()
	switch {
	case errors.Is(err, unix.EPERM) || errors.Is(err, unix.EINVAL): // this user does not exist in the user namespace
		return 0, fmt.Errorf("%w: %w", ErrNotIsolated, err)
	case err != nil && attr.UseCgroupFD: // Linux before 5.7
		i.unlimited(i.Groups[0])
		attr.UseCgroupFD = false
		return fork()
	}
	return pid, err
}

// join puts the task into its control groups. In cgroup v1, this thread joins them and the task inherits its groups;
// in v2, the task is started in them. Only root can do that, and the task cannot leave the groups or change their
// limits.
func (i *Isolation) join(attr *syscall.SysProcAttr) (leave func()) {
	leave = func() {}
	for _, dir := range i.Groups {
		tasks, err := os.OpenFile(filepath.Join(dir, "tasks"), os.O_WRONLY, 0) //nolint:gosec // the owner's group
		if err == nil {
			_, err = tasks.WriteString("0") // this thread
			_ = tasks.Close()
		} else if group, e := os.Open(dir); e == nil { //nolint:gosec // the owner's group
			attr.UseCgroupFD, attr.CgroupFD = true, int(group.Fd()) //nolint:gosec // descriptors are small
			leave = func() { _ = group.Close() }
			err = nil
		}
		if err != nil {
			i.unlimited(dir)
		}
	}
	return leave
}

// unlimited writes to the task's output that it does not run in a group.
func (i *Isolation) unlimited(dir string) {
	_, _ = fmt.Fprintf(os.Stderr, "tradewind: cannot join %s: this process is not limited\n", dir)
}

// temporary are the directories that each isolated task has for itself.
var temporary = []string{"/tmp", "/var/tmp"}

// enter gives this thread a mount namespace in which Tmp is in the place of the temporary directories. Dir and
// Shared have their usual paths there. A directory above Dir that other users may not enter is replaced by an empty one
// that leads only to these.
func (i *Isolation) enter() error {
	if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
		return fmt.Errorf("mount namespace: %w", err)
	}
	// No mount made here appears outside.
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SLAVE, ""); err != nil {
		return fmt.Errorf("mount namespace: %w", err)
	}
	dir, err := filepath.EvalSymlinks(i.Dir)
	if err != nil {
		return err
	}
	kept, release, err := holdAll(append([]string{dir}, i.Shared...))
	defer release()
	if err != nil {
		return err
	}
	tmp, err := hold(i.Tmp)
	if err != nil {
		return err
	}
	defer tmp.Close() //nolint:errcheck // only a reference
	hidden := false
	for _, place := range temporaryDirs() {
		if err := bind(tmp, place); err != nil {
			return err
		}
		hidden = hidden || strings.HasPrefix(dir, place+"/")
	}
	if closed := closedAbove(dir); !hidden && closed != "" {
		if err := unix.Mount("tradewind", closed, "tmpfs", 0, "mode=0755,size=1m"); err != nil {
			return fmt.Errorf("mount %s: %w", closed, err)
		}
		hidden = true
	}
	if hidden {
		if err := reveal(kept); err != nil {
			return err
		}
	}
	for place, path := range i.Files {
		from, err := hold(filepath.Join(dir, path))
		if err != nil {
			return err
		}
		err = bind(from, place)
		_ = from.Close()
		if err != nil {
			return err
		}
	}
	return nil
}

// temporaryDirs returns the temporary directories of this machine. One may be a link to another.
func temporaryDirs() (dirs []string) {
	for _, place := range temporary {
		if real, err := filepath.EvalSymlinks(place); err == nil && !slices.Contains(dirs, real) {
			dirs = append(dirs, real)
		}
	}
	return dirs
}

// hold opens a file or directory so that it can be mounted even if its path leads elsewhere by then.
func hold(path string) (*os.File, error) {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
	return os.NewFile(uintptr(fd), path), nil //nolint:gosec // descriptors are small
}

// holdAll holds folders, by their real paths.
func holdAll(paths []string) (held map[string]*os.File, release func(), err error) {
	held = map[string]*os.File{}
	release = func() {
		for _, f := range held {
			_ = f.Close() // only a reference
		}
	}
	for _, path := range paths {
		real, err := filepath.EvalSymlinks(path)
		if err != nil {
			return held, release, err
		}
		if held[real], err = hold(real); err != nil {
			delete(held, real)
			return held, release, err
		}
	}
	return held, release, nil
}

// reveal mounts held folders at their paths, of which the directories above are empty.
func reveal(held map[string]*os.File) error {
	for path, f := range held {
		if err := os.MkdirAll(path, 0o755); err != nil { //nolint:gosec // it leads only to these folders
			return err
		}
		if err := bind(f, path); err != nil {
			return err
		}
	}
	return nil
}

// bind mounts a held file or directory at a path.
func bind(from *os.File, path string) error {
	source := "/proc/self/fd/" + strconv.Itoa(int(from.Fd())) //nolint:gosec // descriptors are small
	if err := unix.Mount(source, path, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("mount %s: %w", path, err)
	}
	return nil
}

// closedAbove returns the highest directory above dir that other users may not enter; "" if there is none.
func closedAbove(dir string) string {
	closed := ""
	for up := filepath.Dir(dir); up != "/"; up = filepath.Dir(up) {
		if info, err := os.Stat(up); err == nil && info.Mode().Perm()&1 == 0 {
			closed = up
		}
	}
	return closed
}
