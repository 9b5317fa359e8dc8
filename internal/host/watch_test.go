package host_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/internal/broker"
	"github.com/tradewind-broker/tradewind/internal/host"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
)

// eventually waits for a change that another goroutine or process makes.
func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for range 3000 {
		if is() {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatalf("never: %s", what)
}

const dropped = `apiVersion: tradewind/v1
name: dropped
tasks:
  copy:
    run: cat words.txt >"$TRADEWIND_OUTPUT/words.txt"
    inputs: [{uri: words.txt, path: words.txt}]
    time: 1m
`

func TestDroppedFileRunsOnceAndInvalidOneGetsRemark(t *testing.T) {
	dags, state := t.TempDir(), t.TempDir()
	put := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dags, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	put("words.txt", "trade wind\n")
	put("early.yaml", dropped)
	h, stop := serve(t, host.Options{State: state, DAGs: dags, TimeScale: 0.01})
	put("bad.yaml", strings.Replace(dropped, "run:", "rum:", 1))
	jobs := func(b *broker.Broker) []apitypes.JobView {
		list, _, err := b.Views.Jobs(context.Background(), "", 0)
		if err != nil {
			t.Fatal(err)
		}
		return list
	}
	eventually(t, "the job succeeds", func() bool {
		list := jobs(h.Broker())
		return len(list) == 1 && list[0].State == apitypes.JobSucceeded
	})
	said := filepath.Join(dags, "bad.yaml.error.txt")
	eventually(t, "the bad file is explained", func() bool {
		body, err := os.ReadFile(said)
		return err == nil && strings.Contains(string(body), "bad.yaml:5:") && strings.Contains(string(body), "rum")
	})
	if list := jobs(h.Broker()); len(list) != 1 {
		t.Errorf("a bad file stored a job: %+v", list)
	}
	stop()
	h, _ = serve(t, host.Options{State: state, DAGs: dags, TimeScale: 0.01})
	put("late.yaml", strings.Replace(dropped, "dropped", "late", 1))
	eventually(t, "the new job succeeds", func() bool {
		list := jobs(h.Broker())
		return len(list) == 2 && list[0].State == apitypes.JobSucceeded
	})
}

// TestTouchRetriesRejectedFile: a rejected file is read again if it is touched, if it is moved away and back, or if
// its error file is removed, because the cause may be outside of the file. Otherwise it is not read again. A touch of
// an accepted job's file must not submit another job.
func TestTouchRetriesRejectedFile(t *testing.T) {
	const file = "apiVersion: tradewind/v1\nname: %s\ntasks:\n  a: {workdir: %s, run: ls, time: 1m}\n"
	dags := t.TempDir()
	touch := func(path string) error { return os.Chtimes(path, time.Time{}, time.Now().Add(-time.Hour)) }
	again := map[string]func(path string) error{
		"touched": touch,
		"moved": func(path string) error {
			away := filepath.Join(t.TempDir(), "away")
			return errors.Join(os.Rename(path, away), os.Rename(away, path))
		},
		"unremarked": func(path string) error { return os.Remove(path + ".error.txt") },
	}
	for name := range again {
		put(t, dags, name+".yaml", fmt.Sprintf(file, name, "src"))
	}
	put(t, dags, "bad.yaml", strings.Replace(dropped, "run:", "rum:", 1))
	h, _ := serve(t, host.Options{State: t.TempDir(), DAGs: dags, TimeScale: 0.01})
	jobs := func() map[string]int {
		list, _, err := h.Broker().Views.Jobs(context.Background(), "", 0)
		if err != nil {
			t.Fatal(err)
		}
		named := map[string]int{}
		for _, j := range list {
			named[j.Name]++
		}
		return named
	}
	remark := func(name string) string {
		said, _ := os.ReadFile(filepath.Join(dags, name+".yaml.error.txt"))
		return string(said)
	}
	refused := func(name, why string) {
		t.Helper()
		eventually(t, name+" is refused", func() bool { return strings.Contains(remark(name), why) })
	}
	refused("bad", "rum")
	for name, change := range again {
		refused(name, "src")
		put(t, dags, name+".yaml.error.txt", "as it was left")
		if err := change(filepath.Join(dags, name+".yaml")); err != nil {
			t.Fatal(err)
		}
		refused(name, "src")
	}
	put(t, dags, "bad.yaml.error.txt", "as it was left")
	put(t, dags, "src/main.py", "")
	put(t, dags, "other.yaml", fmt.Sprintf(file, "other", "src"))
	eventually(t, "another file is a job", func() bool { return jobs()["other"] == 1 })
	if got := jobs(); len(got) != 1 || remark("bad") != "as it was left" {
		t.Errorf("tried again untouched: %v, %s", got, remark("bad"))
	}

	for name, change := range again {
		if err := change(filepath.Join(dags, name+".yaml")); err != nil {
			t.Fatal(err)
		}
		eventually(t, name+" is a job", func() bool { return jobs()[name] == 1 && remark(name) == "" })
	}
	for name := range again {
		if err := touch(filepath.Join(dags, name+".yaml")); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Remove(filepath.Join(dags, "bad.yaml.error.txt")); err != nil {
		t.Fatal(err)
	}
	refused("bad", "rum")
	if got := jobs(); len(got) != 4 || got["touched"] != 1 || got["moved"] != 1 || got["unremarked"] != 1 {
		t.Errorf("one job each, not %v", got)
	}
}

// TestRemarkRemovedWhenFileIsAccepted: a file is accepted. Its error file must be removed, even if an earlier broker
// wrote it.
func TestRemarkRemovedWhenFileIsAccepted(t *testing.T) {
	dags, state := t.TempDir(), t.TempDir()
	remark := filepath.Join(dags, "mended.yaml.error.txt")
	gone := func() bool {
		_, err := os.Stat(remark)
		return errors.Is(err, fs.ErrNotExist)
	}
	put(t, dags, "words.txt", "trade wind\n")
	put(t, dags, "mended.yaml", strings.Replace(dropped, "run:", "rum:", 1))
	_, stop := serve(t, host.Options{State: state, DAGs: dags, TimeScale: 0.01})
	eventually(t, "the bad file is explained", func() bool { return !gone() })
	put(t, dags, "mended.yaml", dropped)
	eventually(t, "the remark is removed", gone)
	stop()
	put(t, dags, "mended.yaml.error.txt", "left")
	serve(t, host.Options{State: state, DAGs: dags, TimeScale: 0.01})
	eventually(t, "the remark is removed after a restart", gone)
}

func TestOpenRejectsLockedFolder(t *testing.T) {
	state := t.TempDir()
	h, _ := serve(t, host.Options{State: state})
	if second, err := host.Open(context.Background(), host.Options{State: state}); err == nil {
		t.Errorf("opened at %s beside %s", second.URL(), h.URL())
	} else if !strings.Contains(err.Error(), state) {
		t.Errorf("the error does not name the folder: %v", err)
	}
	eventually(t, "it is found", func() bool {
		r, ok, err := host.Find(state)
		return err == nil && ok && r.URL == h.URL() && r.PID == os.Getpid() && r.Token == h.Token()
	})
	for _, name := range []string{"token", "key", "tradewind.db"} {
		info, err := os.Stat(filepath.Join(state, name))
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %v", name, info.Mode())
		}
	}
	if !strings.HasPrefix(h.URL(), "http://127.0.0.1:") {
		t.Errorf("listens on %s", h.URL())
	}
}
