package host_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/pkg/broker"
	"github.com/tradewind-broker/tradewind/pkg/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/broker/view"
	"github.com/tradewind-broker/tradewind/pkg/host"
)

// eventually waits for something that another goroutine or process does.
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

func TestAFileDroppedIntoTheFolderRunsOnceAndABadOneIsExplainedBesideIt(t *testing.T) {
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
	jobs := func(b *broker.Broker) []view.JobView {
		list, _, err := b.Jobs(context.Background(), "", 0)
		if err != nil {
			t.Fatal(err)
		}
		return list
	}
	eventually(t, "the job succeeds", func() bool {
		list := jobs(h.Broker())
		return len(list) == 1 && list[0].State == record.JobSucceeded
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
		return len(list) == 2 && list[0].State == record.JobSucceeded
	})
}

func TestASecondHostOnTheSameFolderIsRefused(t *testing.T) {
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
