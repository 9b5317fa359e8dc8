package cgroup

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// envUse makes this test binary allocate and use this number of bytes, print "ready", and wait for the end of its
// input.
const envUse = "CGROUP_TEST_USE"

func TestMain(m *testing.M) {
	if n, err := strconv.Atoi(os.Getenv(envUse)); err == nil {
		use(n)
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func use(bytes int) {
	body := make([]byte, bytes)
	for i := range body {
		body[i] = byte(i)
	}
	_, _ = os.Stdout.WriteString("ready\n")
	_, _ = os.Stdin.Read(body)
}

// parent returns the cgroup below which groups can be created. If there is none, it skips the test.
func parent(t *testing.T) *Parent {
	t.Helper()
	p, err := Find()
	if err != nil {
		t.Skip(err)
	}
	return p
}

func group(t *testing.T, p *Parent, l Limits) *Group {
	t.Helper()
	g, err := p.Create(t.Name()+"-"+strconv.Itoa(int(l.MemoryBytes)), l)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := g.Remove(); err != nil {
			t.Error(err)
		}
	})
	return g
}

// begin starts a process that uses a number of bytes in a group. It returns when the process has used them (true) or
// has ended (false). The input of the process ends with the test.
func begin(t *testing.T, g *Group, bytes int) (*exec.Cmd, bool) {
	t.Helper()
	argv := g.Command([]string{os.Args[0]})
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env, cmd.Stderr = append(os.Environ(), envUse+"="+strconv.Itoa(bytes)), os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = in.Close() })
	said := make([]byte, 6)
	n, _ := out.Read(said)
	return cmd, string(said[:n]) == "ready\n"
}

func signalOf(err error) syscall.Signal {
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		if ws, ok := exit.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
			return ws.Signal()
		}
	}
	return 0
}

func TestOnlyProcessAboveItsLimitIsKilled(t *testing.T) {
	p := parent(t)
	const limit = 64 << 20
	// The race detector's shadow memory counts as well: up to eight times the memory that the process writes.
	small, other := group(t, p, Limits{MemoryBytes: limit, CPUs: 1}), group(t, p, Limits{MemoryBytes: 16 * limit, CPUs: 2})
	neighbour, ready := begin(t, other, limit+limit/10)
	if !ready {
		t.Fatal("the process within its limit did not start")
	}
	greedy, ready := begin(t, small, limit+limit/10)
	if ready { // otherwise the process would wait for its input
		_ = greedy.Process.Kill()
		t.Error("a process a tenth above its limit was not killed")
	}
	if err := greedy.Wait(); signalOf(err) != syscall.SIGKILL {
		t.Errorf("a process a tenth above its limit ended with %v", err)
	}
	if kills := small.OOMKills(); kills != 1 {
		t.Errorf("%d kills are counted", kills)
	}
	// the kernel also counts the page that it refuses
	if peak := small.Peak(); peak < limit*9/10 || peak > limit+1<<20 {
		t.Errorf("peak %d of %d", peak, limit)
	}
	if kills := other.OOMKills(); kills != 0 {
		t.Errorf("%d kills of the other group are counted", kills)
	}
	if err := neighbour.Process.Signal(syscall.Signal(0)); err != nil {
		t.Errorf("the other process: %v", err)
	}
}

func TestRemoveKillsRemainingProcesses(t *testing.T) {
	g := group(t, parent(t), Limits{})
	cmd, ready := begin(t, g, 1)
	if !ready {
		t.Fatal("the process did not start")
	}
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	if err := g.Remove(); err != nil {
		t.Error(err)
	}
	if err := <-done; signalOf(err) != syscall.SIGKILL {
		t.Errorf("the process ended with %v", err)
	}
	for _, dir := range g.Dirs() {
		if isDir(dir) {
			t.Errorf("%s still exists", dir)
		}
	}
}

func TestGroupsOfEndedAgentsAreRemoved(t *testing.T) {
	p := parent(t)
	ended := exec.Command("true")
	if err := ended.Run(); err != nil {
		t.Fatal(err)
	}
	old := filepath.Join(p.memory, strconv.Itoa(ended.Process.Pid)+"-old")
	if err := os.Mkdir(old, 0o755); err != nil {
		t.Fatal(err)
	}
	defer os.Remove(old) //nolint:errcheck // removed already
	own := group(t, p, Limits{})
	group(t, p, Limits{MemoryBytes: 1 << 20})
	if isDir(old) || !isDir(own.Dirs()[0]) {
		t.Errorf("old exists: %v, own exists: %v", isDir(old), isDir(own.Dirs()[0]))
	}
}

func TestTaskThatCannotJoinRunsAndSaysSo(t *testing.T) {
	g := &Group{parent: &Parent{memory: filepath.Join(t.TempDir(), "missing")}, name: "x"}
	argv := g.Command([]string{"/bin/sh", "-c", `echo "$1"; exit 3`, "sh", "a b"})
	cmd := exec.Command(argv[0], argv[1:]...)
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState.ExitCode() != 3 || !strings.Contains(string(out), "this process is not limited") ||
		!strings.HasSuffix(string(out), "a b\n") {
		t.Errorf("%v: %q", err, out)
	}
}

// TestV2 uses plain files in place of the kernel's, and checks which values are written to which files.
func TestV2(t *testing.T) {
	top := t.TempDir()
	mounts := "41 31 0:38 / " + top + " rw - cgroup2 cgroup2 rw\n"
	agent := filepath.Join(top, "service", "agent")
	if err := os.MkdirAll(agent, 0o755); err != nil {
		t.Fatal(err)
	}
	write := func(dir string) {
		for name, body := range map[string]string{"cgroup.subtree_control": "cpu memory\n"} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(body), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	if _, err := find(mounts, "0::/service/agent\n"); !errors.Is(err, ErrUnavailable) {
		t.Errorf("without controllers: %v", err)
	}
	service := filepath.Join(top, "service")
	write(service)
	if err := os.Mkdir(filepath.Join(service, folder), 0o755); err != nil {
		t.Fatal(err)
	}
	write(filepath.Join(service, folder))
	p, err := find(mounts, "0::/service/agent\n")
	if err != nil {
		t.Fatal(err)
	}
	if want := filepath.Join(service, folder); !p.v2 || p.memory != want || p.cpu != want {
		t.Fatalf("%+v", p)
	}
	g, err := p.Create("a", Limits{MemoryBytes: 1 << 30, CPUs: 2})
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"memory.max": "1073741824", "memory.swap.max": "0", "cpu.weight": "200"} {
		if got, err := os.ReadFile(g.file(name)); string(got) != want {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	_ = os.WriteFile(g.file("memory.events"), []byte("low 0\noom 3\noom_kill 2\n"), 0o600)
	_ = os.WriteFile(g.file("memory.peak"), []byte("12345\n"), 0o600)
	if g.OOMKills() != 2 || g.Peak() != 12345 {
		t.Errorf("%d kills, peak %d", g.OOMKills(), g.Peak())
	}
	if argv := g.Command([]string{"x"}); !slices.Contains(argv, g.file("cgroup.procs")) || argv[4] != "1" {
		t.Errorf("%q", argv)
	}
}

func TestOwnGroupIsFound(t *testing.T) {
	top := t.TempDir()
	for _, dir := range []string{"memory/a/b", "cpu"} {
		if err := os.MkdirAll(filepath.Join(top, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for name, tc := range map[string]struct{ mounts, own, memory, cpu string }{
		"whole hierarchy":  {"/ T/memory rw - cgroup cgroup rw,memory", "4:memory:/a/b", "memory/a/b", ""},
		"container's part": {"/a T/memory rw - cgroup cgroup rw,memory", "4:memory:/a/a/b", "memory/a/b", ""},
		"invisible group":  {"/ T/memory rw - cgroup cgroup rw,memory", "4:memory:/elsewhere", "memory", ""},
		"with cpu": {"/ T/memory rw - cgroup cgroup rw,memory\n1 2 0:3 / T/cpu rw - cgroup cgroup rw,cpu,cpuacct",
			"4:memory:/a/b\n1:cpu,cpuacct:/", "memory/a/b", "cpu"},
	} {
		p, err := find(strings.ReplaceAll("31 23 0:28 "+tc.mounts, "T/", top+"/"), tc.own+"\n")
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		want := Parent{memory: filepath.Join(top, tc.memory, folder)}
		if tc.cpu != "" {
			want.cpu = filepath.Join(top, tc.cpu, folder)
		}
		if *p != want {
			t.Errorf("%s: %+v, want %+v", name, *p, want)
		}
	}
	if _, err := find("", ""); !errors.Is(err, ErrUnavailable) {
		t.Errorf("without any: %v", err)
	}
}
