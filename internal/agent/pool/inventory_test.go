package pool_test

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/tradewind-broker/tradewind/internal/agent/pool"
)

func file(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }

const meminfo = "MemTotal:       33554432 kB\nMemFree:        1 kB\n" // 32 GiB

func TestInventoryRespectsCgroupLimits(t *testing.T) {
	for name, tc := range map[string]struct {
		files        fstest.MapFS
		cpus, memory float64
	}{
		"a machine": {fstest.MapFS{"proc/meminfo": file(meminfo)}, 8, 32},
		"a container": {fstest.MapFS{
			"proc/meminfo": file(meminfo), "proc/self/cgroup": file("0::/\n"),
			"sys/fs/cgroup/cpu.max": file("250000 100000\n"), "sys/fs/cgroup/memory.max": file("4294967296\n"),
		}, 2.5, 4},
		"a service below a slice": {fstest.MapFS{
			"proc/meminfo": file(meminfo), "proc/self/cgroup": file("12:cpu:/old\n0::/lab.slice/join.service\n"),
			"sys/fs/cgroup/lab.slice/join.service/cpu.max": file("max 100000\n"), "sys/fs/cgroup/lab.slice/cpu.max": file("300000 100000\n"),
			"sys/fs/cgroup/lab.slice/join.service/memory.max": file("8589934592\n"), "sys/fs/cgroup/lab.slice/memory.max": file("max\n"),
		}, 3, 8},
		"limits above what there is": {fstest.MapFS{
			"proc/meminfo": file(meminfo), "proc/self/cgroup": file("0::/\n"),
			"sys/fs/cgroup/cpu.max": file("6400000 100000\n"), "sys/fs/cgroup/memory.max": file("9223372036854771712\n"),
		}, 8, 32},
		"nothing can be read": {fstest.MapFS{}, 8, 0},
		"what makes no sense": {fstest.MapFS{"proc/meminfo": file("MemTotal: much\n"), "proc/self/cgroup": file("0::/\n"), "sys/fs/cgroup/cpu.max": file("1 0\n")}, 8, 0},
	} {
		got, err := pool.Computer{CPUs: 8, Files: tc.files}.Take(t.Context())
		if err != nil || got.CPUs != tc.cpus || math.Abs(got.MemoryGiB-tc.memory) > 1e-9 || got.Accelerators != 0 {
			t.Errorf("%s: %+v, %v; want %v vCPUs, %v GiB", name, got, err, tc.cpus, tc.memory)
		}
	}
}

// smi creates a program that answers like nvidia-smi.
func smi(t *testing.T, script string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "nvidia-smi")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+script), 0o700); err != nil { //nolint:gosec // a program has to be one
		t.Fatal(err)
	}
	return path
}

func TestInventoryListsGPUs(t *testing.T) {
	for name, tc := range map[string]struct {
		script, accelerator string
		count               int
		note                string
	}{
		"four of a kind": {"[ \"$1\" = --query-gpu=name ] && printf 'Tesla V100-SXM2-32GB\\nTesla V100-SXM2-32GB\\nTesla V100-SXM2-32GB\\nTesla V100-SXM2-32GB\\n'", "V100-32GB", 4, ""},
		"two kinds":      {"printf 'NVIDIA A100 80GB PCIe\\nTesla T4\\nTesla T4\\n'", "T4", 2, "1 A100-80GB"},
		"an unknown one": {"echo 'NVIDIA Q9000 Turbo'", "NVIDIA-Q9000-Turbo", 1, ""},
		"none":           {"true", "", 0, ""},
	} {
		got, err := pool.Computer{CPUs: 1, Files: fstest.MapFS{}, SMI: smi(t, tc.script)}.Take(t.Context())
		if err != nil || got.Accelerator != tc.accelerator || got.Accelerators != tc.count || tc.note != "" && (len(got.Notes) != 1 || !strings.Contains(got.Notes[0], tc.note)) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
	_, err := pool.Computer{CPUs: 1, Files: fstest.MapFS{}, SMI: smi(t, "echo 'NVIDIA-SMI has failed: no driver'; exit 9")}.Take(t.Context())
	if err == nil || !strings.Contains(err.Error(), "no driver") {
		t.Errorf("a broken driver: %v", err)
	}
}

func TestThisComputer(t *testing.T) {
	c := pool.ThisComputer()
	c.SMI = ""
	got, err := c.Take(t.Context())
	if err != nil || got.CPUs <= 0 || got.MemoryGiB <= 0 {
		t.Errorf("%+v, %v", got, err)
	}
}
