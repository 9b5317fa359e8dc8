package proc

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

func startOf(pid int) (uint64, error) {
	p, err := readStat(pid)
	return p.start, err
}

// bootOf returns the ID of this boot of the machine.
func bootOf() (string, error) {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(b)), err
}

// Sweep kills every process whose environment has name set to value, and returns their number. So it finds the
// remaining processes of a tree after both its owner and its supervisor were killed.
func Sweep(name, value string) int {
	want := []byte(name + "=" + value)
	killed := 0
	for _, pid := range pids() {
		if pid <= 1 || pid == os.Getpid() {
			continue
		}
		id, err := Identify(pid)
		if err != nil {
			continue
		}
		env, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
		if err != nil {
			continue // another user's process
		}
		for entry := range bytes.SplitSeq(env, []byte{0}) {
			if bytes.Equal(entry, want) && id.Signal(syscall.SIGKILL) == nil {
				killed++
				break
			}
		}
	}
	return killed
}

// Shield prevents other processes of the same user from reading this process's memory and environment.
func Shield() { _ = unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0) }
