package agent_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/internal/agent"
	"github.com/tradewind-broker/tradewind/internal/agent/agenttest"
	"github.com/tradewind-broker/tradewind/internal/agent/wire"
)

// onWorker runs tasks one after the other on a worker, each with its own agent. It returns their logs. An attempt and
// its node have the same name.
func onWorker(t *testing.T, tasks ...*wire.Assignment) (logs []string) {
	t.Helper()
	b, dir := agenttest.New(t), filepath.Join(t.TempDir(), "setups")
	for _, w := range tasks {
		n := agenttest.Node{Cluster: w.Attempt}
		start(t, b, n, agent.Config{Once: true, Setups: dir})
		b.Run(n, w)
		b.Result(n, w.Attempt)
		logs = append(logs, b.Log(n, w.Attempt))
	}
	return logs
}

func withSetup(t *testing.T, attempt, setup, run string) *wire.Assignment {
	t.Helper()
	w := task(t, attempt, run)
	w.Setup = setup
	return w
}

// runs returns how many times a setup has run. Each run adds a line to the file.
func runs(t *testing.T, file string) int {
	t.Helper()
	body, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Count(string(body), "\n")
}

func TestSetupRunsOnceOnWorker(t *testing.T) {
	count := filepath.Join(t.TempDir(), "count")
	setup := "echo run >>" + count + "; mkdir -p venv/bin && echo 'echo from venv' >venv/bin/tool; pwd >venv/where; echo setting up"
	run := `sh venv/bin/tool; cd venv; [ "$(cat where)/venv" = "$(pwd -P)" ] || echo "$(cat where), not $(pwd -P)"`
	first, second := withSetup(t, "a0", setup, run), withSetup(t, "a1", setup, run)
	first.Env = map[string]string{"TRADEWIND_ARRAY_INDEX": "0"}
	second.Env = map[string]string{"TRADEWIND_ARRAY_INDEX": "1"}
	logs := onWorker(t, first, second)
	if logs[0] != "setting up\nfrom venv\n" || logs[1] != "from venv\n" || runs(t, count) != 1 {
		t.Errorf("%d setups: %q", runs(t, count), logs)
	}
}

func TestSetupOnWorkerHasWorkdir(t *testing.T) {
	code := t.TempDir()
	touch(t, code, "requirements.txt")
	touch(t, code, "main")
	setup := "[ -e requirements.txt ] && rm main && echo new >made"
	var tasks []*wire.Assignment
	for _, name := range []string{"a0", "a1"} {
		w := withSetup(t, name, setup, "cat made; ls; [ ! -L main ] && echo original")
		w.Workdir = "file://" + code + "/"
		tasks = append(tasks, w)
	}
	for _, log := range onWorker(t, tasks...) {
		if log != "new\nmade\nmain\nrequirements.txt\noriginal\n" {
			t.Errorf("%q", log)
		}
	}
}

func TestSetupOnWorkerReadsInputsInTheTasksFolder(t *testing.T) {
	from := t.TempDir()
	touch(t, from, "data")
	var tasks []*wire.Assignment
	for _, name := range []string{"a0", "a1"} {
		w := withSetup(t, name, "mv data "+name, "ls")
		w.Inputs = []wire.Input{{URI: "file://" + filepath.Join(from, "data"), Path: "data"}}
		tasks = append(tasks, w)
	}
	if logs := onWorker(t, tasks...); logs[0] != "a0\n" || logs[1] != "a1\n" {
		t.Errorf("%q", logs)
	}
}

func TestTasksThatStartTogetherWaitForOneSetup(t *testing.T) {
	count := filepath.Join(t.TempDir(), "count")
	b, dir := agenttest.New(t), filepath.Join(t.TempDir(), "setups")
	names := []string{"a0", "a1", "a2"}
	for _, name := range names {
		start(t, b, agenttest.Node{Cluster: name}, agent.Config{Once: true, Setups: dir})
		b.Run(agenttest.Node{Cluster: name}, withSetup(t, name, "sleep 0.2; echo run >>"+count, "cat "+count))
	}
	for _, name := range names {
		n := agenttest.Node{Cluster: name}
		if r := b.Result(n, name); r.Event != wire.Succeeded || b.Log(n, name) != "run\n" {
			t.Errorf("%s: %+v, %q", name, r, b.Log(n, name))
		}
	}
}

func TestOnlySameSetupsRunOnce(t *testing.T) {
	count := filepath.Join(t.TempDir(), "count")
	plain := "echo run >>" + count
	for name, c := range map[string]struct {
		setup  string
		change func(*wire.Assignment)
		want   int
	}{
		"same":           {plain, func(*wire.Assignment) {}, 1},
		"other text":     {plain, func(w *wire.Assignment) { w.Setup += "; true" }, 2},
		"other variable": {plain, func(w *wire.Assignment) { w.Env = map[string]string{"A": "b"} }, 2},
		"other secret":   {plain, func(w *wire.Assignment) { w.Secrets = wire.Secrets{"A": "b"} }, 2},
		"for one task":   {plain + "; : $TRADEWIND_TASK", func(*wire.Assignment) {}, 2},
		"failed":         {plain + "; [ $(wc -l <" + count + ") -gt 1 ]", func(*wire.Assignment) {}, 2},
		"left a program": {plain + "; sleep 60 >/dev/null 2>&1 &", func(*wire.Assignment) {}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			_ = os.Remove(count)
			second := withSetup(t, "a1", c.setup, "true")
			c.change(second)
			onWorker(t, withSetup(t, "a0", c.setup, "true"), second)
			if n := runs(t, count); n != c.want {
				t.Errorf("%d setups, want %d", n, c.want)
			}
		})
	}
}

func TestFailedSetupFailsItsTaskAlone(t *testing.T) {
	flag := filepath.Join(t.TempDir(), "flag")
	b, dir := agenttest.New(t), filepath.Join(t.TempDir(), "setups")
	setup := "[ -e left ] && exit 5; touch left; [ -e " + flag + " ] || { touch " + flag + "; exit 4; }"
	for i, want := range []wire.Event{wire.Failed, wire.Succeeded, wire.Succeeded} {
		n := agenttest.Node{Cluster: string(rune('a' + i))}
		start(t, b, n, agent.Config{Once: true, Setups: dir})
		b.Run(n, withSetup(t, n.Cluster, setup, "[ -e left ]"))
		r := b.Result(n, n.Cluster)
		if r.Event != want || want == wire.Failed && (r.Phase != wire.PhaseSetup || r.ExitCode != 4) {
			t.Errorf("task %d: %+v", i, r)
		}
	}
}

func TestTimeoutEndsTaskThatWaitsForSetup(t *testing.T) {
	b, dir := agenttest.New(t), filepath.Join(t.TempDir(), "setups")
	start(t, b, node, agent.Config{Once: true, Setups: dir})
	b.Run(node, withSetup(t, "a0", "echo begun; sleep 60", "true"))
	b.AwaitLog(node, "a0", "begun")
	waiting := agenttest.Node{Cluster: "waiting"}
	start(t, b, waiting, agent.Config{Once: true, Setups: dir})
	w := withSetup(t, "a1", "echo begun; sleep 60", "true")
	w.Timeout = 200 * time.Millisecond
	b.Run(waiting, w)
	if r := b.Result(waiting, "a1"); r.Event != wire.Failed || r.Phase != wire.PhaseTimeout {
		t.Errorf("%+v", r)
	}
}
