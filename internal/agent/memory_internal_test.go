package agent

import (
	"syscall"
	"testing"

	"github.com/tradewind-broker/tradewind/internal/agent/proc"
)

func TestKillIsDescribed(t *testing.T) {
	const gib = 1 << 30
	killed, failed := proc.Exit{Code: 137, Signal: syscall.SIGKILL}, proc.Exit{Code: 1, PeakBytes: 5 * gib}
	killed.PeakBytes = gib / 2
	byShell := proc.Exit{Code: 137, PeakBytes: gib / 2}
	for name, tc := range map[string]struct {
		exit proc.Exit
		used memoryUse
		want string
	}{
		"limited": {killed, memoryUse{kills: 1, peak: 8 * gib, limit: 8 * gib},
			"out of memory: killed by SIGKILL at its limit of 8.0 GiB; write memory: 16+ in its resources"},
		"without a limit": {killed, memoryUse{kills: 1, peak: 7987 << 20},
			"out of memory: killed by SIGKILL at 7.8 GiB; write memory: 16+ in its resources"},
		"the machine's memory": {killed, memoryUse{machineKills: 1, machine: 15 * gib},
			"out of memory: killed by SIGKILL at 512 MiB; write memory: 32+ in its resources"},
		"below its limit": {killed, memoryUse{kills: 1, peak: 2 * gib, limit: 8 * gib},
			"out of memory: killed by SIGKILL at 2.0 GiB; write memory: 16+ in its resources"},
		"another process": {failed, memoryUse{kills: 2, peak: 6 * gib},
			"out of memory: a process was killed by SIGKILL at 6.0 GiB; write memory: 8+ in its resources"},
		"in a shell": {byShell, memoryUse{kills: 1, peak: 100 << 20, limit: 100 << 20},
			"out of memory: a command was killed by SIGKILL at its limit of 100 MiB; write memory: 1+ in its resources"},
		"no proof":                     {killed, memoryUse{peak: 9 * gib}, "killed by SIGKILL; its peak memory was 512 MiB"},
		"no proof, in a shell":         {byShell, memoryUse{}, "a command was killed by SIGKILL; its peak memory was 512 MiB"},
		"another task of its computer": {failed, memoryUse{machineKills: 1}, ""},
		"exit code":                    {failed, memoryUse{peak: gib}, ""},
		"no signal":                    {proc.Exit{Code: 255}, memoryUse{}, ""},
		"terminated":                   {proc.Exit{Code: 143, Signal: syscall.SIGTERM}, memoryUse{}, "killed by SIGTERM"},
	} {
		if got := describeKill(tc.exit, tc.used); got != tc.want {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
}

func TestNextMemory(t *testing.T) {
	for mib, want := range map[int64]int{0: 0, 1: 1, 512: 1, 900: 2, 1024: 2, 1600: 2, 2048: 4, 7600: 16, 8192: 16, 64 << 10: 128} {
		if got := nextMemory(mib << 20); got != want {
			t.Errorf("%d MiB: %d GiB, want %d", mib, got, want)
		}
	}
}
