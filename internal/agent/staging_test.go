package agent_test

import (
	"io/fs"
	"maps"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/tradewind-broker/tradewind/internal/agent"
	"github.com/tradewind-broker/tradewind/internal/agent/agenttest"
	"github.com/tradewind-broker/tradewind/internal/agent/stage"
	"github.com/tradewind-broker/tradewind/internal/agent/wire"
	"github.com/tradewind-broker/tradewind/pkg/grant"
)

func writeFile(t *testing.T, path, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// files lists a directory as a map from relative path to content.
func files(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		rel, _ := filepath.Rel(dir, p)
		b, err := os.ReadFile(p)
		out[rel] = string(b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestWorkdirInputsAndParentsAreStaged(t *testing.T) {
	b := agenttest.New(t)
	start(t, b, node, agent.Config{})
	src := t.TempDir()
	writeFile(t, filepath.Join(src, "work", "main.sh"), "echo from workdir")
	writeFile(t, filepath.Join(src, "data", "a.txt"), "a")
	writeFile(t, filepath.Join(src, "data", "deep", "b.txt"), "b")

	parent := task(t, "p1", `mkdir $TRADEWIND_OUTPUT/sub; echo model > $TRADEWIND_OUTPUT/sub/model; ln -s sub/model $TRADEWIND_OUTPUT/latest`)
	parent.Prefix = "jobs/job/parent"
	b.Run(node, parent)
	if r := b.Result(node, "p1"); r.Event != wire.Succeeded {
		t.Fatalf("%+v", r)
	}

	w := task(t, "a1", `sh main.sh; cat in/a.txt named.txt in/deep/b.txt; echo; cat $TRADEWIND_INPUTS/a.txt $TRADEWIND_INPUTS/deep/b.txt; echo; cat $TRADEWIND_INPUTS/parent/latest`)
	w.Store, w.Workdir = parent.Store, filepath.Join(src, "work")
	w.Inputs = []wire.Input{
		{URI: filepath.Join(src, "data"), Path: "in"}, {URI: "file://" + src + "/data/a.txt", Path: "named.txt"},
		{URI: "file://" + src + "/data/a.txt"}, {URI: src + "/data/deep"},
	}
	w.Parents = map[string]string{"parent": wire.OutputPrefix(parent.Prefix, "p1")}
	b.Run(node, w)
	if r := b.Result(node, "a1"); r.Event != wire.Succeeded {
		t.Fatalf("%+v", r)
	}
	if got, want := b.Log(node, "a1"), "from workdir\naab\nab\nmodel\n"; got != want {
		t.Errorf("log %q, want %q", got, want)
	}
}

func TestStagingReportsErrors(t *testing.T) {
	b := agenttest.New(t)
	start(t, b, node, agent.Config{})
	outside, src := t.TempDir(), t.TempDir()
	writeFile(t, filepath.Join(src, "f"), "x")
	for name, tc := range map[string]struct {
		spoil   func(*wire.Assignment)
		message string
	}{
		"missing input":      {func(w *wire.Assignment) { w.Inputs = []wire.Input{{URI: "/no/such/file", Path: "f"}} }, "/no/such/file: not found"},
		"relative input":     {func(w *wire.Assignment) { w.Inputs = []wire.Input{{URI: "some/file", Path: "f"}} }, "neither a URL nor an absolute path"},
		"unknown scheme":     {func(w *wire.Assignment) { w.Inputs = []wire.Input{{URI: "ftp://h/f", Path: "f"}} }, "ftp://"},
		"input to parent":    {func(w *wire.Assignment) { w.Inputs = []wire.Input{{URI: src + "/f", Path: "../f"}} }, "leaves its directory"},
		"input to anywhere":  {func(w *wire.Assignment) { w.Inputs = []wire.Input{{URI: src + "/f", Path: outside + "/f"}} }, "leaves its directory"},
		"input to home":      {func(w *wire.Assignment) { w.Inputs = []wire.Input{{URI: src + "/f", Path: "~/f"}} }, "leaves its directory"},
		"missing parent":     {func(w *wire.Assignment) { w.Parents = map[string]string{"p": "none/"} }, "/none/0/: no manifest"},
		"parent's odd name":  {func(w *wire.Assignment) { w.Parents = map[string]string{"../p": "none/"} }, "leaves its directory"},
		"missing workdir":    {func(w *wire.Assignment) { w.Workdir = "/no/such/dir" }, "workdir: /no/such/dir: not found"},
		"missing checkpoint": {func(w *wire.Assignment) { w.Checkpoint = &wire.Checkpoint{Path: "c", Restore: "none/"} }, "/none/: no manifest"},
		"checkpoint outside": {func(w *wire.Assignment) { w.Checkpoint = &wire.Checkpoint{Path: "../c"} }, "leaves its directory"},
		"checkpoint by root": {func(w *wire.Assignment) { w.Checkpoint = &wire.Checkpoint{Path: outside} }, "leaves its directory"},
	} {
		w := task(t, name, "echo not reached")
		tc.spoil(w)
		b.Run(node, w)
		r := b.Result(node, name)
		if r.Event != wire.Failed || r.Phase != wire.PhaseStage || !strings.Contains(r.Message, tc.message) {
			t.Errorf("%s: %+v", name, r)
		}
	}
	if got := files(t, outside); len(got) != 0 {
		t.Errorf("written outside: %v", got)
	}
}

func TestSoleTaskStagesInputsAnywhere(t *testing.T) {
	b := agenttest.New(t)
	outside, src := t.TempDir(), t.TempDir()
	writeFile(t, filepath.Join(src, "f"), "x")
	start(t, b, node, agent.Config{Sole: true, Environ: append(os.Environ(), "HOME="+outside)})
	w := task(t, "a1", "true")
	w.Inputs = []wire.Input{{URI: src + "/f", Path: outside + "/d/f"}, {URI: src + "/f", Path: "~/g"}}
	b.Run(node, w)
	if r := b.Result(node, "a1"); r.Event != wire.Succeeded {
		t.Errorf("%+v", r)
	}
	if got := files(t, outside); !maps.Equal(got, map[string]string{"d/f": "x", "g": "x"}) {
		t.Errorf("%v", got)
	}
}

func TestWorkdirLinksOutsideAreLeftOutAndLogged(t *testing.T) {
	b := agenttest.New(t)
	start(t, b, node, agent.Config{})
	src := t.TempDir()
	writeFile(t, filepath.Join(src, "f"), "x")
	if err := os.Symlink("/usr/bin/env", filepath.Join(src, "python")); err != nil {
		t.Fatal(err)
	}
	w := task(t, "a1", "ls")
	w.Workdir = src
	b.Run(node, w)
	b.Result(node, "a1")
	if got, want := b.Log(node, "a1"), "tradewind: left out python: a link that leaves the directory\nf\n"; got != want {
		t.Errorf("log %q, want %q", got, want)
	}
}

func TestDeclaredOutputsAreKeptAndCopied(t *testing.T) {
	b := agenttest.New(t)
	start(t, b, node, agent.Config{})
	to := t.TempDir()
	w := task(t, "a1", `cd $TRADEWIND_OUTPUT; echo m > model; mkdir logs; echo l > logs/l; echo scratch > scratch`)
	w.Outputs = []wire.Output{{Name: "model", Path: "model", URI: "file://" + to + "/best"}, {Name: "logs", Path: "logs/", URI: "file://" + to + "/logs"}}
	b.Run(node, w)
	if r := b.Result(node, "a1"); r.Event != wire.Succeeded {
		t.Fatalf("%+v", r)
	}
	kept := files(t, filepath.Join(storeDir(w), wire.OutputPrefix(w.Prefix, "a1"), "0", "files"))
	if want := map[string]string{"model": "m\n", "logs/l": "l\n"}; !maps.Equal(kept, want) {
		t.Errorf("kept %v, want %v", kept, want)
	}
	if got, want := files(t, to), (map[string]string{"best": "m\n", "logs/l": "l\n"}); !maps.Equal(got, want) {
		t.Errorf("copied %v, want %v", got, want)
	}
}

func TestOnFailureOutputsAreCopied(t *testing.T) {
	b := agenttest.New(t)
	start(t, b, node, agent.Config{})
	to := t.TempDir()
	w := task(t, "a1", `cd $TRADEWIND_OUTPUT; echo e > err; echo m > model; echo no such file; exit 3`)
	w.Outputs = []wire.Output{
		{Name: "bad", Path: "err", URI: "ftp://h/x", OnFailure: true},
		{Name: "err", Path: "err", URI: to + "/err", OnFailure: true},
		{Name: "none", Path: "none", URI: to + "/none", OnFailure: true},
		{Name: "model", Path: "model", URI: to + "/model"},
	}
	b.Run(node, w)
	r := b.Result(node, "a1")
	if r.Event != wire.Failed || r.Phase != wire.PhaseRun || r.ExitCode != 3 || r.Message != "no such file" {
		t.Errorf("%+v", r)
	}
	if got, want := files(t, to), (map[string]string{"err": "e\n"}); !maps.Equal(got, want) {
		t.Errorf("copied %v, want %v", got, want)
	}
	if log := b.Log(node, "a1"); !strings.Contains(log, "output bad to ftp://h/x: ") {
		t.Errorf("log %q", log)
	}
}

func TestInvalidOutputsFailTask(t *testing.T) {
	b := agenttest.New(t)
	start(t, b, node, agent.Config{})
	for name, tc := range map[string]struct {
		run, message string
		outputs      []wire.Output
	}{
		"missing":    {"true", "output m: the task wrote no model in $TRADEWIND_OUTPUT", []wire.Output{{Name: "m", Path: "model"}}},
		"link out":   {"ln -s /etc/passwd $TRADEWIND_OUTPUT/l", "leaves its directory", nil},
		"named link": {"ln -s /etc/passwd $TRADEWIND_OUTPUT/l", "escapes", []wire.Output{{Name: "m", Path: "l"}}},
		"path out":   {"true", "leaves its directory", []wire.Output{{Name: "m", Path: "../work"}}},
		"no bucket":  {"echo x > $TRADEWIND_OUTPUT/f", "ftp://", []wire.Output{{Name: "m", URI: "ftp://h/x"}}},
	} {
		w := task(t, name, tc.run)
		w.Outputs = tc.outputs
		b.Run(node, w)
		r := b.Result(node, name)
		if r.Event != wire.Failed || r.Phase != wire.PhaseOutputs || !strings.Contains(r.Message, tc.message) {
			t.Errorf("%s: %+v", name, r)
		}
		if done, _ := filepath.Glob(filepath.Join(storeDir(w), w.Prefix, "out", "*", "0", "manifest.json")); len(done) > 0 {
			t.Errorf("%s: a manifest was left", name)
		}
	}
}

func TestNodesKnowEachOtherAndSeparateOutputs(t *testing.T) {
	b := agenttest.New(t)
	to := t.TempDir()
	w := task(t, "a1", `echo $TRADEWIND_NODE_RANK of $TRADEWIND_NUM_NODES at $TRADEWIND_HEAD:$TRADEWIND_PORT, $SKYPILOT_NODE_RANK of $SKYPILOT_NUM_NODES with $SKYPILOT_NUM_GPUS_PER_NODE
echo "$TRADEWIND_NODES" | tail -1; echo "$SKYPILOT_NODE_IPS" | head -1
echo $TRADEWIND_NODE_RANK > $TRADEWIND_OUTPUT/f; [ $TRADEWIND_NODE_RANK = 0 ] && echo m > $TRADEWIND_OUTPUT/model; true`)
	w.Nodes, w.Accelerators = []string{"10.0.0.1", "10.0.0.2"}, 0.5
	w.Outputs = []wire.Output{{Name: "all", URI: "file://" + to}, {Name: "model", Path: "model"}}
	nodes := []agenttest.Node{{Cluster: "c"}, {Cluster: "c", Rank: 1}}
	var ports []string
	for _, n := range nodes {
		start(t, b, n, agent.Config{})
		b.Run(n, w)
		if r := b.Result(n, "a1"); r.Event != wire.Succeeded {
			t.Fatalf("%+v", r)
		}
		lines := strings.Split(b.Log(n, "a1"), "\n")
		rank := []string{"0", "1"}[n.Rank]
		at, port, _ := strings.Cut(lines[0], ":")
		port, rest, _ := strings.Cut(port, ", ")
		ports = append(ports, port)
		if at != rank+" of 2 at 10.0.0.1" || rest != rank+" of 2 with 1" || lines[1] != "10.0.0.2" || lines[2] != "10.0.0.1" {
			t.Errorf("rank %s: %q", rank, lines)
		}
	}
	if len(slices.Compact(ports)) != 1 {
		t.Errorf("ports %v", ports)
	}
	if got, want := files(t, to), (map[string]string{"0/f": "0\n", "0/model": "m\n", "1/f": "1\n"}); !maps.Equal(got, want) {
		t.Errorf("copied %v, want %v", got, want)
	}

	child := task(t, "a2", `cat $TRADEWIND_INPUTS/task/0/f $TRADEWIND_INPUTS/task/1/f $TRADEWIND_INPUTS/task/0/model`)
	child.Store, child.Parents = w.Store, map[string]string{"task": wire.OutputPrefix(w.Prefix, "a1")}
	b.Run(nodes[0], child)
	if r := b.Result(nodes[0], "a2"); r.Event != wire.Succeeded || b.Log(nodes[0], "a2") != "0\n1\nm\n" {
		t.Errorf("%+v, log %q", r, b.Log(nodes[0], "a2"))
	}
}

// The first node of a task has the outputs of all its nodes. Only that node must upload them, as if the task had one
// node.
func TestFirstNodeHasTheOutputsOfAll(t *testing.T) {
	b := agenttest.New(t)
	to := t.TempDir()
	w := task(t, "a1", `echo $TRADEWIND_NODE_RANK > $TRADEWIND_OUTPUT/f`)
	w.Nodes, w.FirstHasOutputs = []string{"10.0.0.1", "10.0.0.2"}, true
	w.Outputs = []wire.Output{{Name: "all", URI: "file://" + to}}
	nodes := []agenttest.Node{{Cluster: "c"}, {Cluster: "c", Rank: 1}}
	for _, n := range slices.Backward(nodes) {
		start(t, b, n, agent.Config{})
		b.Run(n, w)
		if r := b.Result(n, "a1"); r.Event != wire.Succeeded {
			t.Fatalf("%+v", r)
		}
	}
	if got, want := files(t, to), (map[string]string{"f": "0\n"}); !maps.Equal(got, want) {
		t.Errorf("copied %v, want %v", got, want)
	}
	child := task(t, "a2", `cat $TRADEWIND_INPUTS/task/f`)
	child.Store, child.Parents = w.Store, map[string]string{"task": wire.OutputPrefix(w.Prefix, "a1")}
	b.Run(nodes[0], child)
	if r := b.Result(nodes[0], "a2"); r.Event != wire.Succeeded || b.Log(nodes[0], "a2") != "0\n" {
		t.Errorf("%+v, log %q", r, b.Log(nodes[0], "a2"))
	}
}

func TestTaskEnvironment(t *testing.T) {
	b := agenttest.New(t)
	start(t, b, node, agent.Config{Machine: "m-1", Environ: []string{
		"PATH=" + os.Getenv("PATH"), "HOME=/home/me", "LC_ALL=C", "CUDA_VISIBLE_DEVICES=1",
		"AWS_SECRET_ACCESS_KEY=x", "GOOGLE_APPLICATION_CREDENTIALS=x", "TRADEWIND_TOKEN=x", "OTHER=x",
	}})
	w := task(t, "a1", "env")
	w.Env = map[string]string{"MINE": "two\nlines", "LC_ALL": "C.UTF-8", "TRADEWIND_JOB": "not me", "": "x", "A=B": "x", "AWS_REGION": "asked-for"}
	b.Run(node, w)
	b.Result(node, "a1")
	env := b.Log(node, "a1")
	for _, want := range []string{
		"HOME=/home/me\n", "LC_ALL=C.UTF-8\n", "CUDA_VISIBLE_DEVICES=1\n", "MINE=two\nlines\n", "AWS_REGION=asked-for\n",
		"TRADEWIND_JOB=job\n", "TRADEWIND_TASK=task\n", "TRADEWIND_ATTEMPT=a1\n", "TRADEWIND_MACHINE=m-1\n", "TRADEWIND_RESTORED=0\n", "TMPDIR=",
		"SKYPILOT_TASK_ID=job_task\n", "SKYPILOT_TASK_IDS=job_task\n", "SKYPILOT_SETUP_NODE_RANK=0\n", "SKYPILOT_SETUP_NODE_IPS=127.0.0.1\n",
	} {
		if !strings.Contains(env, want) {
			t.Errorf("no %q in %q", want, env)
		}
	}
	for _, not := range []string{"SECRET", "GOOGLE", "TRADEWIND_TOKEN", "OTHER", "TRADEWIND_CHECKPOINT", "A=B"} {
		if strings.Contains(env, not) {
			t.Errorf("%s in %q", not, env)
		}
	}
}

// A task without outputs must request no grants, and its children get an empty directory.
func TestTaskWithoutOutputsUploadsNothing(t *testing.T) {
	b := agenttest.New(t)
	start(t, b, node, agent.Config{})
	w := task(t, "a1", "true")
	b.Run(node, w)
	if r := b.Result(node, "a1"); r.Event != wire.Succeeded || !r.Empty {
		t.Errorf("%+v", r)
	}
	if n := b.Calls(wire.PathGrants); n != 0 || len(files(t, storeDir(w))) != 0 {
		t.Errorf("%d calls for grants, and the store contains %v", n, files(t, storeDir(w)))
	}
	for run, empty := range map[string]bool{"mkdir $TRADEWIND_OUTPUT/d": false, "echo x > $TRADEWIND_OUTPUT/f": false} {
		w := task(t, run, run)
		b.Run(node, w)
		if r := b.Result(node, run); r.Event != wire.Succeeded || r.Empty != empty {
			t.Errorf("%s: %+v", run, r)
		}
	}
	child := task(t, "child", `ls -d $TRADEWIND_INPUTS/parent; ls $TRADEWIND_INPUTS/parent | wc -l`)
	child.EmptyParents = []string{"parent"}
	b.Run(node, child)
	if r := b.Result(node, "child"); r.Event != wire.Succeeded || !strings.HasSuffix(b.Log(node, "child"), "/parent\n0\n") {
		t.Errorf("%+v, log %q", r, b.Log(node, "child"))
	}
	child = task(t, "bad", "true")
	child.EmptyParents = []string{"../parent"}
	b.Run(node, child)
	if r := b.Result(node, "bad"); r.Event != wire.Failed || !strings.Contains(r.Message, "leaves its directory") {
		t.Errorf("%+v", r)
	}
}

// A child names a part of its parent's outputs. Only that part must be staged, with everything below it, from each of
// the parent's nodes.
func TestOnlyNamedParentOutputsAreStaged(t *testing.T) {
	b := agenttest.New(t)
	start(t, b, node, agent.Config{})
	parent := task(t, "a1", `cd $TRADEWIND_OUTPUT; mkdir -p log/deep model; echo m > model/m; echo l > log/deep/l; echo x > x
		ln -s m model/latest; echo no > models; for i in $(seq 40); do echo $i > log/$i; echo $i > $i; done`)
	b.Run(node, parent)
	if r := b.Result(node, "a1"); r.Event != wire.Succeeded {
		t.Fatalf("%+v", r)
	}
	child := task(t, "child", `cd $TRADEWIND_INPUTS/parent; ls; cat model/latest log/deep/l log/40; ls log | wc -l`)
	child.Store = parent.Store
	child.Parents = map[string]string{"parent": wire.OutputPrefix(parent.Prefix, "a1")}
	child.PartialParents = map[string][]string{"parent": {"model", "log/"}}
	b.Run(node, child)
	if r := b.Result(node, "child"); r.Event != wire.Succeeded || !strings.HasSuffix(b.Log(node, "child"), "log\nmodel\nm\nl\n40\n41\n") {
		t.Errorf("%+v, log %q", r, b.Log(node, "child"))
	}
}

// reading counts the bytes that are read from a store, by path.
type reading struct {
	mu    sync.Mutex
	times map[string]int
}

func (c *reading) RoundTrip(r *http.Request) (*http.Response, error) {
	c.mu.Lock()
	c.times[r.Method+" "+path.Base(path.Dir(r.URL.Path))+"/"+path.Base(r.URL.Path)+" "+r.Header.Get("Range")]++
	c.mu.Unlock()
	return http.DefaultTransport.RoundTrip(r)
}

// Both nodes of a task need the same large file. Each piece must be read from the store only once.
func TestNodesShareInputs(t *testing.T) {
	b := agenttest.New(t)
	w := task(t, "a1", `cksum < $TRADEWIND_INPUTS/parent/large; cksum < mine`)
	large := strings.Repeat("0123456789abcdef", 4<<16) // 4 MiB
	writeFile(t, filepath.Join(storeDir(w), "in", "large"), strings.Repeat(large, 3))
	from := t.TempDir()
	writeFile(t, filepath.Join(from, "large"), strings.Repeat(large, 5))
	parent := task(t, "p1", "cp "+filepath.Join(from, "large")+" $TRADEWIND_OUTPUT/")
	parent.Store, parent.Prefix = w.Store, "jobs/job/parent"
	start(t, b, node, agent.Config{Transfer: stage.Transfer{Part: grant.MinPart}})
	b.Run(node, parent)
	if r := b.Result(node, "p1"); r.Event != wire.Succeeded {
		t.Fatalf("%+v", r)
	}
	w.Nodes, w.Exchange = []string{"127.0.0.1", "127.0.0.1"}, []byte("a secret of "+t.TempDir())
	w.Parents = map[string]string{"parent": wire.OutputPrefix(parent.Prefix, "p1")}
	w.Inputs = []wire.Input{{URI: w.Store + "/in/large", Path: "mine"}}
	nodes := []agenttest.Node{{Cluster: "c"}, {Cluster: "c", Rank: 1}}
	count := &reading{times: map[string]int{}}
	for _, n := range nodes {
		start(t, b, n, agent.Config{Transfer: stage.Transfer{
			Part: grant.MinPart, Shared: 1 << 20, Client: &http.Client{Transport: count},
		}})
		b.Run(n, w)
	}
	for _, n := range nodes {
		if r := b.Result(n, "a1"); r.Event != wire.Succeeded {
			t.Fatalf("%+v", r)
		}
	}
	if a, b := b.Log(nodes[0], "a1"), b.Log(nodes[1], "a1"); a != b || a == "" {
		t.Errorf("%q and %q", a, b)
	}
	pieces := 0
	for what, times := range count.times {
		if strings.Contains(what, "/large bytes=") && !strings.HasSuffix(what, "=0-0") {
			if pieces++; times != 1 {
				t.Errorf("%s: %d times", what, times)
			}
		}
	}
	if pieces != 4+3 {
		t.Errorf("%d pieces: %v", pieces, count.times)
	}
}

// An output is a pipe. It must be refused, because reading a pipe without a writer would block for ever.
func TestPipeIsNotAnOutput(t *testing.T) {
	b := agenttest.New(t)
	start(t, b, node, agent.Config{})
	for _, uri := range []string{"", "file://" + t.TempDir() + "/kept"} {
		w := task(t, "a"+uri, "mkfifo $TRADEWIND_OUTPUT/p")
		w.Outputs = []wire.Output{{Name: "pipe", Path: "p", URI: uri}}
		b.Run(node, w)
		r := b.Result(node, w.Attempt)
		if r.Event != wire.Failed || r.Phase != wire.PhaseOutputs || !strings.Contains(r.Message, "neither a file nor a directory") {
			t.Errorf("%+v", r)
		}
	}
}
