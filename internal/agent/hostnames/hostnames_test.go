package hostnames_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/tradewind-broker/tradewind/internal/agent/hostnames"
)

const before = "127.0.0.1 localhost\n# the last line has no end\n::1 localhost"

func newFile(t *testing.T) hostnames.File {
	t.Helper()
	path := filepath.Join(t.TempDir(), "hosts")
	if err := os.WriteFile(path, []byte(before), 0o600); err != nil {
		t.Fatal(err)
	}
	return hostnames.File(path)
}

func read(t *testing.T, f hostnames.File) string {
	t.Helper()
	text, err := os.ReadFile(string(f))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestNamesAreReplacedAndRemoved(t *testing.T) {
	f := newFile(t)
	for _, lines := range [][]string{{"127.1.0.1 a-0.g"}, {"127.1.0.2 a-0.g", "127.1.0.3 b-0.g"}} {
		if err := f.Set("a1", lines); err != nil {
			t.Fatal(err)
		}
		if err := f.Set("a2", []string{"127.9.9.9 other-0.h"}); err != nil {
			t.Fatal(err)
		}
		for _, line := range lines {
			if text := read(t, f); !strings.Contains(text, "\n"+line+" #") || !strings.HasPrefix(text, before+"\n") {
				t.Errorf("%q is not in\n%s", line, text)
			}
		}
	}
	if text := read(t, f); strings.Contains(text, "127.1.0.1") || strings.Count(text, "other-0.h") != 1 {
		t.Errorf("an earlier line is left:\n%s", text)
	}
	for _, attempt := range []string{"a1", "a2"} {
		if err := f.Set(attempt, nil); err != nil {
			t.Fatal(err)
		}
	}
	if text := read(t, f); text != before+"\n" {
		t.Errorf("left: %q", text)
	}
}

// A process that added lines was killed. Its lines must disappear when the next process starts, and the lines of
// living processes must stay.
func TestNamesOfEndedProcessesAreSwept(t *testing.T) {
	f := newFile(t)
	if path := os.Getenv("ADD_NAMES_TO"); path != "" { // this process ends without removing its lines
		if err := hostnames.File(path).Set("a1", []string{"127.1.0.1 left-0.g"}); err != nil {
			t.Fatal(err)
		}
		return
	}
	c := exec.Command(os.Args[0], "-test.run=^TestNamesOfEndedProcessesAreSwept$") //nolint:gosec // this test
	c.Env = append(os.Environ(), "ADD_NAMES_TO="+string(f))
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if err := f.Set("a1", []string{"127.1.0.2 own-0.g"}); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(read(t, f), "left-0.g") {
		t.Fatal("the other process has added nothing")
	}
	if err := f.Sweep(); err != nil {
		t.Fatal(err)
	}
	if text := read(t, f); strings.Contains(text, "left-0.g") || !strings.Contains(text, "own-0.g") ||
		!strings.HasPrefix(text, before) {
		t.Errorf("after the sweep:\n%s", text)
	}
}

func TestAgentsOfOneMachineKeepEachOthersNames(t *testing.T) {
	f := newFile(t)
	const agents = 20
	var all sync.WaitGroup
	for i := range agents {
		all.Go(func() {
			if err := f.Set(strconv.Itoa(i), []string{"127.1.0.1 a-" + strconv.Itoa(i) + ".g"}); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if n := strings.Count(read(t, f), "# tradewind"); n != agents {
		t.Errorf("%d lines, want %d", n, agents)
	}
}

func TestSweepNeedsNoFile(t *testing.T) {
	if err := hostnames.File(filepath.Join(t.TempDir(), "none")).Sweep(); err != nil {
		t.Error(err)
	}
}
