package mount

import (
	"bufio"
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// deviceName is the prefix of the device names of this package's mounts in the mount table.
const deviceName = "tradewind:"

// entry is a line of the mount table.
type entry struct{ point, kind, device string }

// table reads the mounts that this process sees (proc(5), mountinfo).
func table() ([]entry, error) {
	body, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	var out []entry
	lines := bufio.NewScanner(bytes.NewReader(body))
	lines.Buffer(nil, len(body)+1)
	for lines.Scan() {
		before, after, ok := strings.Cut(lines.Text(), " - ")
		place, source := strings.Fields(before), strings.Fields(after)
		if ok && len(place) >= 5 && len(source) >= 2 {
			out = append(out, entry{unescape(place[4]), source[0], unescape(source[1])})
		}
	}
	return out, lines.Err()
}

var octal = regexp.MustCompile(`\\[0-7]{3}`)

// unescape replaces the octal escapes of a name in the table, such as those of spaces.
func unescape(s string) string {
	return octal.ReplaceAllStringFunc(s, func(code string) string {
		n, _ := strconv.ParseUint(code[1:], 8, 8) // cannot fail: it matched
		return string([]byte{byte(n)})
	})
}

// isMounted reports whether a mount of this package exists at a path.
func isMounted(point string) (bool, error) {
	all, err := table()
	for _, e := range all {
		if e.point == point && strings.HasPrefix(e.device, deviceName) {
			return true, nil
		}
	}
	return false, err
}

// mountsBelow returns the mount points at or below a directory whose device name begins with device, latest first.
func mountsBelow(dir, device string) (points []string, err error) {
	if dir != "" {
		if dir, err = filepath.Abs(dir); err != nil {
			return nil, err
		}
		if real, err := filepath.EvalSymlinks(dir); err == nil {
			dir = real
		}
	}
	all, err := table()
	for i := len(all) - 1; i >= 0; i-- {
		e := all[i]
		within := dir == "" || e.point == dir || strings.HasPrefix(e.point, dir+"/")
		if within && strings.HasPrefix(e.device, device) {
			points = append(points, e.point)
		}
	}
	return points, err
}

// helpers returns the possible names of FUSE's program that mounts and unmounts.
func helpers() []string { return []string{"fusermount3", "fusermount"} }

// unmountCommand returns a command that unmounts paths at once, even if they are busy. Without root only FUSE's
// helper can do that.
func unmountCommand(points ...string) []string {
	if program, err := exec.LookPath("umount"); err == nil && os.Geteuid() == 0 {
		return append([]string{program, "-l"}, points...)
	}
	for _, name := range helpers() {
		if program, err := exec.LookPath(name); err == nil {
			if len(points) == 1 {
				return []string{program, "-u", "-z", "-q", points[0]}
			}
			const each = `for point; do "$0" -u -z -q "$point"; done` // the helper takes only one path
			return append([]string{"/bin/sh", "-c", each, program}, points...)
		}
	}
	return nil
}

// fuseConfAllows reports whether users other than root may give other users access (mount.fuse3(8), user_allow_other).
func fuseConfAllows(path string) bool {
	body, err := os.ReadFile(path) //nolint:gosec // the system's own
	if err != nil {
		return false
	}
	for line := range strings.Lines(string(body)) {
		if strings.TrimSpace(line) == "user_allow_other" {
			return true
		}
	}
	return false
}
