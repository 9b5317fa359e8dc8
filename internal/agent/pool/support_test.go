package pool_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"os/signal"
	"path"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/internal/agent"
	"github.com/tradewind-broker/tradewind/internal/agent/agenttest"
	"github.com/tradewind-broker/tradewind/internal/agent/pool"
	"github.com/tradewind-broker/tradewind/internal/agent/proc"
	"github.com/tradewind-broker/tradewind/internal/agent/token"
	"github.com/tradewind-broker/tradewind/internal/agent/wire"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
)

// residentEnv makes this test's binary the process of a machine. Its value contains the pool's address and the
// machine's folder.
const residentEnv = "POOL_TEST_RESIDENT"

func TestMain(m *testing.M) {
	proc.Reexec()
	if os.Getenv(ownerEnv) == "" {
		if id, err := proc.Identify(os.Getpid()); err == nil {
			text, _ := json.Marshal(id) // numbers and a string
			_ = os.Setenv(ownerEnv, string(text))
		}
	} else {
		go followOwner()
	}
	switch {
	case os.Getenv(agent.EnvEndpoint) != "":
		os.Exit(agent.Main(os.Environ(), "test", nil))
	case os.Getenv(residentEnv) != "":
		os.Exit(residentMain(strings.Fields(os.Getenv(residentEnv))))
	}
	os.Exit(m.Run())
}

// ownerEnv contains the ID of the test's process, for its child processes and their children.
const ownerEnv = "POOL_TEST_OWNER"

// followOwner ends this process when the test's process ends for any reason. By design, agents outlive the machine's
// process; their tasks end with them.
func followOwner() {
	var owner proc.Identity
	if json.Unmarshal([]byte(os.Getenv(ownerEnv)), &owner) != nil {
		return
	}
	for owner.Alive() {
		time.Sleep(100 * time.Millisecond)
	}
	os.Exit(1)
}

// residentMain runs a machine as a process that can be killed.
func residentMain(where []string) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT)
	defer stop()
	m, err := pool.Open(config(where[0], where[1]))
	if err == nil {
		err = errors.Join(m.Run(ctx), m.Close())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// config returns a machine's configuration. Its agents are this test's binary. Every join token is valid.
func config(endpoint, dir string) pool.Config {
	return pool.Config{
		Endpoint: endpoint, Pool: "lab", Name: "m1", Dir: dir, Capacity: wire.PoolCapacity{CPUs: 4, MemoryGiB: 8, Accelerator: "V100", Accelerators: 4},
		JoinToken: func(context.Context) (string, error) { return "invitation", nil },
		Command:   []string{os.Args[0], "agent"}, Environ: append(os.Environ(), "GORACE=atexit_sleep_ms=0", residentEnv+"="),
		RetryMost: 20 * time.Millisecond,
	}
}

// owner is a test broker for a machine, together with another one for the machine's agents.
type owner struct {
	t      *testing.T
	agents *agenttest.Broker
	server *httptest.Server
	key    []byte

	mu      sync.Mutex
	changed chan struct{} // closed and replaced at every change
	orders  []wire.PoolOrder
	minted  int
	stale   map[string]bool                          // tokens that have been replaced
	blank   bool                                     // send orders without tokens
	renew   bool                                     // renew the token with every answer
	gather  time.Duration                            // how long the machine collects ends of agents
	refuse  func(kind string, call int) (status int) // status of an answer; 0 accepts the call
	reports []wire.PoolReport                        // all received reports
	calls   map[string]int                           // number of calls, by join and sync
}

func newOwner(t *testing.T) *owner {
	t.Helper()
	o := &owner{t: t, agents: agenttest.New(t), key: bytes.Repeat([]byte("k"), token.MinKeyBytes), changed: make(chan struct{}), calls: map[string]int{}, stale: map[string]bool{}}
	o.server = httptest.NewServer(o)
	t.Cleanup(o.server.Close)
	return o
}

func (o *owner) update(f func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	f()
	close(o.changed)
	o.changed = make(chan struct{})
}

// order sets the clusters whose agents should run, each with rank 0.
func (o *owner) order(clusters ...string) {
	var orders []wire.PoolOrder
	for i, c := range clusters {
		orders = append(orders, wire.PoolOrder{
			PoolAgent: wire.PoolAgent{Cluster: c}, Job: "job", Endpoint: o.agents.URL(), Token: o.agents.Token(agenttest.Node{Cluster: c}), Devices: []int{i, i + 2},
		})
	}
	o.update(func() { o.orders = orders })
}

func (o *owner) mint(machine string) apitypes.PoolToken {
	o.minted++ // each token is different
	now, until := time.Now(), time.Now().Add(time.Hour+time.Duration(o.minted)*time.Second)
	text, err := token.MintPool(o.key, wire.PoolClaims{Pool: "lab", Machine: machine, Joined: now, Expires: until})
	if err != nil {
		o.t.Error(err)
	}
	return apitypes.PoolToken{Token: text, Expires: until}
}

// ServeHTTP implements http.Handler.
func (o *owner) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	o.mu.Lock()
	kind := path.Base(r.URL.Path)
	call := o.calls[kind]
	o.calls[kind]++
	refuse := o.refuse
	o.mu.Unlock()
	defer o.update(func() {})
	if refuse != nil {
		if status := refuse(kind, call); status != 0 {
			w.WriteHeader(status)
			return
		}
	}
	bearer, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if kind == "join" {
		if bearer != "invitation" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		o.mu.Lock()
		defer o.mu.Unlock()
		_ = json.NewEncoder(w).Encode(o.mint("m1"))
		return
	}
	claims, err := token.VerifyPool(o.key, bearer, time.Now())
	o.mu.Lock()
	defer o.mu.Unlock()
	if err != nil || claims.Machine != "m1" || o.stale[bearer] {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	var report wire.PoolReport
	if err := json.NewDecoder(r.Body).Decode(&report); err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	o.reports = append(o.reports, report)
	answer := wire.PoolOrders{Agents: []wire.PoolOrder{}, After: 10 * time.Millisecond, Gather: o.gather}
	if o.gather > 0 {
		answer.After = patience
	}
	for _, x := range o.orders {
		if o.blank || slices.Contains(report.Running, x.PoolAgent) {
			x.Token = ""
		}
		answer.Agents = append(answer.Agents, x)
	}
	if o.renew {
		o.stale[bearer] = true
		t := o.mint("m1")
		answer.Token = &t
	}
	_ = json.NewEncoder(w).Encode(answer)
}

// patience is how long a test waits for a condition.
const patience = 60 * time.Second

// await waits until ok accepts the newest report.
func (o *owner) await(what string, ok func(r wire.PoolReport) bool) wire.PoolReport {
	o.t.Helper()
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	for {
		o.mu.Lock()
		var last wire.PoolReport
		some := len(o.reports) > 0
		if some {
			last = o.reports[len(o.reports)-1]
		}
		changed := o.changed
		o.mu.Unlock()
		if some && ok(last) {
			return last
		}
		select {
		case <-changed:
		case <-deadline.C:
			o.t.Fatalf("never came: %s; last %+v", what, last)
		}
	}
}

// running waits until exactly these clusters run.
func (o *owner) running(clusters ...string) {
	o.t.Helper()
	o.await(fmt.Sprint("runs ", clusters), func(r wire.PoolReport) bool {
		var got []string
		for _, a := range r.Running {
			got = append(got, a.Cluster)
		}
		return fmt.Sprint(got) == fmt.Sprint(clusters)
	})
}

// process runs the machine as a separate process.
func (o *owner) process(dir string) *exec.Cmd {
	o.t.Helper()
	cmd := exec.Command(os.Args[0]) //nolint:gosec // this test's program
	cmd.Env = append(os.Environ(), "GORACE=atexit_sleep_ms=0", residentEnv+"="+o.server.URL+" "+dir)
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		o.t.Fatal(err)
	}
	o.t.Cleanup(func() { // if the test fails early
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if m, err := pool.Open(config(o.server.URL, dir)); err == nil {
			_ = errors.Join(m.Kill(context.Background()), m.Close())
		}
	})
	return cmd
}

// here runs the machine in this process until stop is called, which returns Run's error.
func (o *owner) here(cfg pool.Config) (m *pool.Machine, stop func() error) {
	o.t.Helper()
	m, err := pool.Open(cfg)
	if err != nil {
		o.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- m.Run(ctx) }()
	var once sync.Once
	var ended error
	stop = func() error {
		once.Do(func() {
			cancel()
			select {
			case ended = <-done:
			case <-time.After(patience):
				o.t.Fatal("the machine does not end")
			}
			ended = errors.Join(ended, m.Close())
		})
		return ended
	}
	o.t.Cleanup(func() {
		_ = m.Kill(context.Background()) // if the test failed early
		o.order()
		_ = stop()
	})
	return m, stop
}

func node(cluster string) agenttest.Node { return agenttest.Node{Cluster: cluster} }

// task makes the agent of a cluster run a script.
func (o *owner) task(cluster, run string) {
	o.agents.Run(node(cluster), &wire.Assignment{
		Job: "job", Task: "train", Attempt: "a1", Run: run, Nodes: []string{"127.0.0.1"}, Store: "file://" + o.t.TempDir(), Prefix: "p",
	})
}
