package api_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/service"

	"github.com/tradewind-broker/tradewind/internal/agent/wire"
	"github.com/tradewind-broker/tradewind/internal/api"
	"github.com/tradewind-broker/tradewind/internal/api/apitest"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/internal/grant/azgrant"
	"github.com/tradewind-broker/tradewind/pkg/dag"
	"github.com/tradewind-broker/tradewind/pkg/grant"
)

// pair returns a job of two tasks. The task make has an output. The task use reads it and other inputs, saves
// checkpoints, and copies its own output to another URI.
func pair(name string, w *apitest.World) *dag.Job {
	task := func(name string) dag.Task {
		return dag.Task{Name: name, Run: "true", Nodes: 1, Resources: []dag.Resources{{}}, Time: dag.TimeEstimate{Default: time.Hour}}
	}
	first, second := task("make"), task("use")
	second.Workdir = w.URI("code")
	second.Inputs = []dag.Input{{URI: w.URI("data/in")}, {URI: "/a/path/of/the/machine"}, {URI: w.URI("private/in")}}
	second.Outputs = []dag.Output{{Name: "all", URI: w.URI("results/" + name)}}
	second.Checkpoint = &dag.Checkpoint{Every: time.Minute, Path: "ckpt/"}
	return &dag.Job{
		Name: name, Objective: dag.MinimizeCost, Format: dag.Native, Tasks: []dag.Task{first, second},
		Edges: []dag.Edge{{From: 0, To: 1}},
	}
}

// client sends the requests of one node.
type client struct {
	*testing.T
	w       *apitest.World
	as      http.Header
	attempt string
}

func newClient(t *testing.T, w *apitest.World, n *apitest.Node) client {
	return client{T: t, w: w, as: bearer(n.Token), attempt: n.Attempt()}
}

func (c client) post(path string, v any) *http.Response {
	c.Helper()
	return c.w.Do("POST", path, toJSON(c.T, v), c.as)
}

func (c client) ask(wants ...grant.Want) *http.Response {
	c.Helper()
	return c.post(wire.PathGrants, wire.Wants{Attempt: c.attempt, Wants: wants})
}

// do requests a grant for one operation, performs it, and returns the response.
func (c client) do(w grant.Want, body string) *http.Response {
	c.Helper()
	w.Size = int64(len(body))
	g := answer[wire.Granted](c.T, c.ask(w), http.StatusOK).Grants[0]
	if left := time.Until(g.Expires); left < 10*time.Minute || left > 20*time.Minute {
		c.Errorf("a grant for %v", left)
	}
	req, err := g.Request(context.Background(), strings.NewReader(body), w.Size)
	if err != nil {
		c.Fatal(err)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		c.Fatal(grant.Redact(err))
	}
	c.Cleanup(func() { _ = res.Body.Close() })
	return res
}

func (c client) put(uri, body string) {
	c.Helper()
	if res := c.do(grant.Want{Op: grant.Put, URI: uri}, body); res.StatusCode != http.StatusOK {
		c.Fatalf("%s: %s", uri, res.Status)
	}
}

func (c client) get(uri string) string {
	c.Helper()
	res := c.do(grant.Want{Op: grant.Get, URI: uri}, "")
	text, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != http.StatusOK {
		c.Fatalf("%s: %s %v", uri, res.Status, err)
	}
	return string(text)
}

func (c client) list(prefix string) []string {
	c.Helper()
	page := answer[grant.Page](c.T, c.post(wire.PathList, wire.Listing{Attempt: c.attempt, Prefix: prefix}), http.StatusOK)
	var uris []string
	for _, l := range page.Objects {
		uris = append(uris, l.URI)
	}
	return uris
}

func (c client) upload(up wire.Upload) *http.Response {
	c.Helper()
	up.Attempt = c.attempt
	return c.post(wire.PathUploads, up)
}

// lay creates a file in the jobs' store.
func lay(t *testing.T, w *apitest.World, key, content string) {
	t.Helper()
	p := filepath.Join(w.Dir, key)
	if err := os.MkdirAll(filepath.Dir(p), 0o750); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(p, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// begun returns a job whose first task has succeeded, the URI of that task's output, and a node of the second task.
func begun(t *testing.T, w *apitest.World, name string) (job string, made string, node *apitest.Node) {
	t.Helper()
	job = w.Submit(pair(name, w))
	first := w.Node(job, "make", 0).Start()
	made = w.URI(wire.OutputPrefix(job+"/make", first.Attempt()) + "0/")
	newClient(t, w, first).put(made+"files/model", "the model of "+name)
	first.Succeed()
	return job, made, w.Node(job, "use", 0).Start()
}

func TestAttemptMovesDataWithGrants(t *testing.T) {
	w := apitest.New(t)
	lay(t, w, "data/in/a.csv", "a")
	lay(t, w, "code/main.py", "print()")
	job, made, node := begun(t, w, "one")
	c := newClient(t, w, node)
	if got := c.get(made + "files/model"); got != "the model of one" {
		t.Errorf("the parent's output is %q", got)
	}
	if got := c.list(w.URI("data/in/")); !slices.Equal(got, []string{w.URI("data/in/a.csv")}) {
		t.Errorf("listed %v", got)
	}
	if c.get(w.URI("data/in/a.csv")) != "a" || c.get(w.URI("code/main.py")) != "print()" {
		t.Error("inputs and the work directory are not read")
	}
	mine := w.URI(wire.OutputPrefix(job+"/use", node.Attempt()) + "0/")
	c.put(mine+"manifest.json", "{}")
	c.put(w.URI("results/one/deep/x"), "x")
	large := mine + "files/large"
	begin := answer[wire.UploadID](t, c.upload(wire.Upload{Step: wire.UploadBegin, URI: large}), http.StatusOK)
	res := c.do(grant.Want{Op: grant.Part, URI: large, Upload: begin.Upload, Number: 1}, "the only part")
	end := wire.Upload{Step: wire.UploadComplete, URI: large, Upload: begin.Upload,
		Parts: []grant.Uploaded{{Number: 1, ETag: res.Header.Get("ETag")}}}
	for range 2 { // the first response may be lost
		answer[wire.UploadID](t, c.upload(end), http.StatusOK)
	}
	if got, err := os.ReadFile(filepath.Join(w.Dir, strings.TrimPrefix(large, w.URI("")))); err != nil || string(got) != "the only part" {
		t.Errorf("%q, %v", got, err)
	}
	trouble(t, c.upload(wire.Upload{Step: wire.UploadComplete, URI: large, Upload: begin.Upload}), http.StatusUnprocessableEntity)
	trouble(t, c.upload(wire.Upload{Step: "end", URI: large}), http.StatusUnprocessableEntity)
	trouble(t, c.ask(make([]grant.Want, wire.MaxWants+1)...), http.StatusUnprocessableEntity)
}

// A process has all secrets of a machine. It may access only the data of the attempt on that machine.
func TestGrantsLimitedToOwnAttempt(t *testing.T) {
	w := apitest.New(t)
	other, made, _ := begun(t, w, "other")
	job, _, node := begun(t, w, "one")
	c := newClient(t, w, node)
	foreign := w.URI(wire.CheckpointPrefix(job+"/use", record.ClusterID(job, 1, 9), 3))
	own := w.URI(wire.OutputPrefix(job+"/use", node.Attempt()))
	lay(t, w, "private/in/key", "secret")
	for name, want := range map[string]grant.Want{
		"another job's output":        {Op: grant.Get, URI: made + "files/model"},
		"another job's file":          {Op: grant.Get, URI: w.URI(other + "/use/x")},
		"another output of a parent":  {Op: grant.Get, URI: w.URI(wire.OutputPrefix(job+"/make", record.ClusterID(job, 0, 9)) + "0/x")},
		"beside an input":             {Op: grant.Get, URI: w.URI("data/in2")},
		"above an input":              {Op: grant.Get, URI: w.URI("data")},
		"the broker's own":            {Op: grant.Get, URI: w.URI("private/in/key")},
		"a file of the disk":          {Op: grant.Get, URI: "file:///etc/passwd"},
		"a path of its inputs":        {Op: grant.Get, URI: "file:///a/path/of/the/machine"},
		"a way out":                   {Op: grant.Get, URI: w.URI("data/in/../../private/in/key")},
		"a hidden way out":            {Op: grant.Get, URI: w.URI("data/in/%2e%2e/%2e%2e/private/in/key")},
		"another store":               {Op: grant.Get, URI: "s3://bucket/key"},
		"writing an input":            {Op: grant.Put, URI: w.URI("data/in/a.csv")},
		"writing the parent's output": {Op: grant.Put, URI: w.URI(wire.OutputPrefix(job+"/make", record.ClusterID(job, 0, 1)) + "0/files/model")},
		"another attempt's output":    {Op: grant.Put, URI: w.URI(wire.OutputPrefix(job+"/use", record.ClusterID(job, 1, 9)) + "0/x")},
		"another node's output":       {Op: grant.Put, URI: own + "1/x"},
		"another attempt's save":      {Op: grant.Put, URI: foreign + "manifest.json"},
		"no number of a save":         {Op: grant.Put, URI: w.URI(job + "/use/ckpt/x-" + node.Attempt() + "/manifest.json")},
		"another job's results":       {Op: grant.Put, URI: w.URI("results/other/x")},
		"beside its results":          {Op: grant.Put, URI: w.URI("results/one2")},
	} {
		good := grant.Want{Op: grant.Put, URI: own + "0/x"}
		if p := trouble(t, c.ask(good, want), http.StatusUnprocessableEntity); !strings.HasPrefix(p.Detail, "grant: ") {
			t.Errorf("%s: %s", name, p.Detail)
		}
	}
	for _, prefix := range []string{w.URI(""), w.URI(other + "/"), w.URI(job + "/"), w.URI("data/"), w.URI("private/in/"), "file:///"} {
		trouble(t, c.post(wire.PathList, wire.Listing{Attempt: c.attempt, Prefix: prefix}), http.StatusUnprocessableEntity)
	}
	for _, uri := range []string{w.URI("data/in/a.csv"), foreign + "x", made + "files/model"} {
		trouble(t, c.upload(wire.Upload{Step: wire.UploadBegin, URI: uri}), http.StatusUnprocessableEntity)
	}
	c.attempt = record.ClusterID(other, 1, 1)
	trouble(t, c.ask(grant.Want{Op: grant.Put, URI: own + "0/x"}), http.StatusForbidden)
}

// An agent reports the URI of a checkpoint outside of its task. The API must refuse it, because the next attempt may
// read the reported URI.
func TestRejectsCheckpointOutsidePrefix(t *testing.T) {
	w := apitest.New(t)
	other, made, _ := begun(t, w, "other")
	job, _, node := begun(t, w, "one")
	for i, prefix := range []string{other + "/make/out/", "", job + "/use/ckpt/../../../" + other + "/make/", "private/"} {
		node.Report(wire.Report{Event: wire.Checkpointed, Seq: i + 1, Prefix: prefix})
		w.Take(job, "use")
		node = w.Node(job, "use", 0).Start()
		c := newClient(t, w, node)
		for _, uri := range []string{made + "files/model", w.URI("private/in/key"), w.URI(job + "/use/x")} {
			trouble(t, c.ask(grant.Want{Op: grant.Get, URI: uri}), http.StatusUnprocessableEntity)
		}
	}
	saved := wire.CheckpointPrefix(job+"/use", node.Attempt(), 9)
	newClient(t, w, node).put(w.URI(saved)+"manifest.json", "saved")
	node.Report(wire.Report{Event: wire.Checkpointed, Seq: 9, Prefix: saved})
	w.Take(job, "use")
	if got := newClient(t, w, w.Node(job, "use", 0).Start()).get(w.URI(saved) + "manifest.json"); got != "saved" {
		t.Errorf("the true one is %q", got)
	}
}

func TestPruneRemovesOldCheckpoints(t *testing.T) {
	w := apitest.New(t)
	job, _, node := begun(t, w, "one")
	c := newClient(t, w, node)
	at := func(seq int) string { return w.URI(wire.CheckpointPrefix(job+"/use", node.Attempt(), seq)) }
	for seq := 1; seq <= 4; seq++ {
		c.put(at(seq)+"files/f", "f")
		c.put(at(seq)+"files/deep/manifest.json", "{}")
		c.put(at(seq)+"manifest.json", "{}")
		node.Report(wire.Report{Event: wire.Checkpointed, Seq: seq, Prefix: wire.CheckpointPrefix(job+"/use", node.Attempt(), seq)})
	}
	c.put(at(5)+"files/f", "on its way")
	empty(t, c.post(wire.PathPrune, wire.Pruning{Attempt: c.attempt}))
	left, err := filepath.Glob(filepath.Join(w.Dir, job, "use", "ckpt", "*"))
	if err != nil || len(left) != 3 || !strings.Contains(left[0], "000003-") {
		t.Errorf("left %v, %v", left, err)
	}
	w.Take(job, "use")
	w.Node(job, "use", 0).Start()
	trouble(t, c.post(wire.PathPrune, wire.Pruning{Attempt: c.attempt}), http.StatusGone)
}

// TestPruneKeepsCheckpointInUseByOtherNodes: the nodes of a task have started from a checkpoint, and a late node
// still needs it. It must not be removed.
func TestPruneKeepsCheckpointInUseByOtherNodes(t *testing.T) {
	w := apitest.New(t)
	spec := pair("two", w)
	spec.Tasks[1].Nodes = 2
	job := w.Submit(spec)
	w.Node(job, "make", 0).Start().Succeed()
	var left []string
	for attempt := range 2 {
		node := w.Node(job, "use", 0).Start()
		w.Node(job, "use", 1).Start()
		c := newClient(t, w, node)
		for seq := 4*attempt + 1; seq <= 4*attempt+4; seq++ {
			prefix := wire.CheckpointPrefix(job+"/use", node.Attempt(), seq)
			c.put(w.URI(prefix)+"manifest.json", "{}")
			node.Report(wire.Report{Event: wire.Checkpointed, Seq: seq, Prefix: prefix})
		}
		empty(t, c.post(wire.PathPrune, wire.Pruning{Attempt: c.attempt}))
		dirs, err := filepath.Glob(filepath.Join(w.Dir, job, "use", "ckpt", "*"))
		if err != nil {
			t.Fatal(err)
		}
		left = left[:0]
		for _, dir := range dirs {
			if entries, _ := os.ReadDir(dir); len(entries) > 0 {
				left = append(left, filepath.Base(dir)[:6])
			}
		}
		w.Take(job, "use")
	}
	if want := []string{"000004", "000007", "000008"}; !slices.Equal(left, want) {
		t.Errorf("left are %v, want %v", left, want)
	}
}

// TestGrantRejectsWritesToPacks: a task may not write pieces of packs, because every job that names a piece by its
// digest runs the piece's content.
func TestGrantRejectsWritesToPacks(t *testing.T) {
	w := apitest.New(t)
	spec := pair("one", w)
	spec.Tasks[0].Outputs = []dag.Output{{Name: "all", URI: w.URI("packs/")}}
	job := w.Submit(spec)
	c := newClient(t, w, w.Node(job, "make", 0).Start())
	piece := w.URI("packs/sha256-" + strings.Repeat("0", 64))
	trouble(t, c.ask(grant.Want{Op: grant.Put, URI: piece, Size: 1}), http.StatusUnprocessableEntity)
	trouble(t, c.ask(grant.Want{Op: grant.Get, URI: piece}), http.StatusUnprocessableEntity) // the job has no pack
}

func TestFinishedAttemptGetsNoGrants(t *testing.T) {
	w := apitest.New(t)
	job, made, node := begun(t, w, "one")
	c := newClient(t, w, node)
	mine := w.URI(wire.OutputPrefix(job+"/use", node.Attempt()) + "0/")
	c.put(mine+"x", "x")
	begin := answer[wire.UploadID](t, c.upload(wire.Upload{Step: wire.UploadBegin, URI: mine + "y"}), http.StatusOK)
	res := c.do(grant.Want{Op: grant.Part, URI: mine + "y", Upload: begin.Upload, Number: 1}, "half of it")
	w.Take(job, "use")
	trouble(t, c.ask(grant.Want{Op: grant.Put, URI: mine + "x"}), http.StatusGone)
	trouble(t, c.ask(grant.Want{Op: grant.Get, URI: made + "files/model"}), http.StatusGone)
	trouble(t, c.post(wire.PathList, wire.Listing{Attempt: c.attempt, Prefix: w.URI("data/in/")}), http.StatusGone)
	trouble(t, c.upload(wire.Upload{Step: wire.UploadBegin, URI: mine + "z"}), http.StatusGone)
	trouble(t, c.upload(wire.Upload{Step: wire.UploadComplete, URI: mine + "y", Upload: begin.Upload,
		Parts: []grant.Uploaded{{Number: 1, ETag: res.Header.Get("ETag")}}}), http.StatusGone)
	if _, err := os.Stat(filepath.Join(w.Dir, job, "use", "out", node.Attempt(), "0", "y")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("half an object was left: %v", err)
	}
	if left, err := os.ReadDir(filepath.Join(w.Dir, ".uploads")); err != nil || len(left) != 1 {
		t.Errorf("what was begun is left: %v, %v", left, err)
	}
}

// The outcome of an attempt is known, but its machines still run. The attempt must get no more grants.
func TestEndedAttemptGetsNoGrants(t *testing.T) {
	w := apitest.New(t)
	job, _, node := begun(t, w, "one")
	c := newClient(t, w, node)
	mine := w.URI(wire.OutputPrefix(job+"/use", node.Attempt()) + "0/")
	c.put(mine+"x", "x")
	empty(t, c.post(wire.PathReport, wire.Report{ID: "end", Attempt: c.attempt, Event: wire.Succeeded}))
	trouble(t, c.ask(grant.Want{Op: grant.Put, URI: mine + "x"}), http.StatusGone)
}

// stuck is a store that cannot abort uploads.
type stuck struct{ grant.Store }

func (stuck) Abort(context.Context, string, string) error { return errors.New("no") }

func TestFailedAbortDoesNotDelayRelease(t *testing.T) {
	w := apitest.New(t)
	job, _, node := begun(t, w, "one")
	c := newClient(t, w, node)
	mine := w.URI(wire.OutputPrefix(job+"/use", node.Attempt()) + "0/y")
	answer[wire.UploadID](t, c.upload(wire.Upload{Step: wire.UploadBegin, URI: mine}), http.StatusOK)
	w.Granted.Store = stuck{w.Data}
	w.Take(job, "use")
	if task := w.Task(job, "use"); task.Attempts != 2 {
		t.Errorf("after %d attempts", task.Attempts)
	}
}

func TestNodesWriteSeparateOutputs(t *testing.T) {
	w := apitest.New(t)
	spec := pair("wide", w)
	spec.Tasks, spec.Edges = spec.Tasks[1:], nil
	spec.Tasks[0].Nodes = 2
	job := w.Submit(spec)
	nodes := []*apitest.Node{w.Node(job, "use", 0), w.Node(job, "use", 1)}
	for rank, n := range nodes {
		if _, err := w.Broker.Agents.Hello(t.Context(), wire.Claims{Job: job, Cluster: n.Attempt(), Rank: rank}, wire.Hello{Address: fmt.Sprint("10.0.0.", rank)}); err != nil {
			t.Fatal(err)
		}
	}
	ckpt := w.URI(wire.CheckpointPrefix(job+"/use", nodes[0].Attempt(), 1)) + "manifest.json"
	for rank, n := range nodes {
		c := newClient(t, w, n)
		out := w.URI(wire.OutputPrefix(job+"/use", n.Attempt()))
		c.put(fmt.Sprintf("%s%d/x", out, rank), "x")
		c.put(w.URI(fmt.Sprintf("results/wide/%d/x", rank)), "x")
		trouble(t, c.ask(grant.Want{Op: grant.Put, URI: fmt.Sprintf("%s%d/x", out, 1-rank)}), http.StatusUnprocessableEntity)
		trouble(t, c.ask(grant.Want{Op: grant.Put, URI: w.URI(fmt.Sprintf("results/wide/%d/x", 1-rank))}), http.StatusUnprocessableEntity)
	}
	newClient(t, w, nodes[0]).put(ckpt, "{}")
	trouble(t, newClient(t, w, nodes[1]).ask(grant.Want{Op: grant.Put, URI: ckpt}), http.StatusUnprocessableEntity)
}

func TestProgramRedirectsToAgent(t *testing.T) {
	digest := strings.Repeat("0a", 32)
	w := apitest.New(t, func(c *api.Config) {
		c.Program = func(_ context.Context, sha256 string) (string, error) {
			return "https://store/" + sha256 + "?signed", nil
		}
	})
	job := w.Submit(pair("one", w))
	node := w.Node(job, "make", 0)
	res := w.Do("GET", wire.PathProgram+digest, "", bearer(node.Token))
	if res.StatusCode != http.StatusTemporaryRedirect || res.Header.Get("Location") != "https://store/"+digest+"?signed" {
		t.Errorf("%s, %s", res.Status, res.Header)
	}
	trouble(t, w.Do("GET", wire.PathProgram+"x", "", bearer(node.Token)), http.StatusUnprocessableEntity)
	trouble(t, w.Do("GET", wire.PathProgram+strings.ToUpper(digest), "", bearer(node.Token)), http.StatusUnprocessableEntity)
	trouble(t, w.Do("GET", wire.PathProgram+digest, "", http.Header{}), http.StatusUnauthorized)
	none := apitest.New(t)
	node = none.Node(none.Submit(pair("one", none)), "make", 0)
	trouble(t, none.Do("GET", wire.PathProgram+digest, "", bearer(node.Token)), http.StatusNotFound)
}

// The log of requests must not contain signatures.
func TestGrantsAreNotLogged(t *testing.T) {
	var log bytes.Buffer
	w := apitest.New(t, func(c *api.Config) {
		c.Log = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	})
	_, made, node := begun(t, w, "one")
	newClient(t, w, node).get(made + "files/model")
	if strings.Contains(log.String(), "signature") || !strings.Contains(log.String(), wire.PathGrants) {
		t.Errorf("the log is %s", log.String())
	}
}

// An attempt may get credentials only for mounts in its job file, with the rights stated there, and only until the
// attempt ends.
func TestMountCredentialsLimitedToAttempt(t *testing.T) {
	w := apitest.New(t)
	key, err := service.NewSharedKeyCredential("account", "c2VjcmV0")
	if err != nil {
		t.Fatal(err)
	}
	// Signing needs no server: nothing listens at this address.
	azure, err := azgrant.New("http://127.0.0.1:1/account", azgrant.SharedKey(key), azgrant.Options{})
	if err != nil {
		t.Fatal(err)
	}
	w.Granted.Store = grant.Mux{"file": w.Data, "azblob": azure}
	spec := pair("one", w)
	spec.Tasks[0].Inputs = []dag.Input{
		{URI: "azblob://in/data", Path: "in", Mount: dag.MountRead}, {URI: "azblob://out", Path: "out", Mount: dag.MountCached},
		{URI: "azblob://copied", Path: "copied"},
	}
	job := w.Submit(spec)
	node := w.Node(job, "make", 0).Start()
	c := newClient(t, w, node)
	ask := func(loans ...wire.Loan) *http.Response {
		t.Helper()
		return c.post(wire.PathMounts, wire.Mounting{Attempt: c.attempt, Loans: loans})
	}
	got := answer[wire.Mounted](t, ask(wire.Loan{Prefix: "azblob://in/data/"}, wire.Loan{Prefix: "azblob://out", Write: true}), http.StatusOK)
	if len(got.Credentials) != 2 || !strings.Contains(got.Credentials[0].Query, "sp=rl&") || !strings.Contains(got.Credentials[1].Query, "sp=racwdl&") {
		t.Errorf("lent %+v", got)
	}
	if left := time.Until(got.Credentials[0].Expires); left < 10*time.Minute || left > 20*time.Minute {
		t.Errorf("lent for %v", left)
	}
	for name, l := range map[string]wire.Loan{
		"to write to an input": {Prefix: "azblob://in/data/", Write: true},
		"more than the mount":  {Prefix: "azblob://in"},
		"a part of the mount":  {Prefix: "azblob://in/data/deep/"},
		"a copied input":       {Prefix: "azblob://copied"},
		"another bucket":       {Prefix: "azblob://other", Write: true},
		"another scheme":       {Prefix: "s3://out", Write: true},
		"the jobs' store":      {Prefix: w.URI(""), Write: true},
		"nothing":              {},
	} {
		if res := ask(wire.Loan{Prefix: "azblob://out"}, l); res.StatusCode != http.StatusUnprocessableEntity {
			t.Errorf("%s: %s", name, res.Status)
		}
	}
	trouble(t, ask(make([]wire.Loan, wire.MaxLoans+1)...), http.StatusUnprocessableEntity)
	w.Take(job, "make")
	trouble(t, ask(wire.Loan{Prefix: "azblob://out", Write: true}), http.StatusGone)
}
