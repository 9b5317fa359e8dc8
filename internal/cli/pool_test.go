package cli

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/internal/agent/wire"
	"github.com/tradewind-broker/tradewind/internal/api/apitest"
	"github.com/tradewind-broker/tradewind/internal/cli/command"
	"github.com/tradewind-broker/tradewind/internal/host"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
)

// poolProgram returns a program and a broker with pools.
func poolProgram(t *testing.T) (*program, *apitest.World) {
	t.Helper()
	p, w := newProgram(t), apitest.New(t)
	p.hosts.running = &host.Running{URL: w.Server.URL, Token: apitest.Token, TimeScale: 1}
	return p, w
}

// ok runs a command that must exit with 0.
func (p *program) ok(t *testing.T, args ...string) result {
	t.Helper()
	r := p.run(args...)
	if r.code != command.ExitDone {
		t.Fatalf("%q: exit %d\n%s%s", args, r.code, r.out, r.err)
	}
	return r
}

// synced joins a machine through the API and syncs it.
func synced(t *testing.T, w *apitest.World, pool, machine string) {
	t.Helper()
	now := w.Clock.Now()
	own := w.MintPool(wire.PoolClaims{Pool: pool, Machine: machine, Joined: now, Expires: now.Add(time.Hour)})
	report := `{"capacity":{"cpus":8,"memoryGiB":30.5,"accelerator":"V100","accelerators":2},"type":"dgx"}`
	if res := w.Do("POST", wire.PathPoolSync(pool, machine), report, http.Header{"Authorization": {"Bearer " + own}}); res.StatusCode != http.StatusOK {
		t.Fatal(res.Status)
	}
}

func TestPoolAddPrintsJoinCommand(t *testing.T) {
	p, w := poolProgram(t)
	r := p.ok(t, "pool", "add", "lab", "--usd-per-hour", "0.02 USD", "--place", "aws:us-east-1")
	file := filepath.Join(p.state, "pools", "lab", "join-token")
	info, err := os.Stat(file)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("the token: %v, %v", info, err)
	}
	secret, err := os.ReadFile(file)
	if err != nil || strings.Contains(r.out+r.err, strings.TrimSpace(string(secret))) {
		t.Errorf("the token is printed, or not there: %v", err)
	}
	if !strings.Contains(r.err, "tradewind pool join lab\n") || !strings.Contains(r.err, file) || !strings.Contains(r.out, "aws:us-east-1") {
		t.Errorf("%s%s", r.out, r.err)
	}
	p.ok(t, "pool", "add", "lab", "--description", "Ada's") // other settings stay
	list := answer[struct{ Pools []apitypes.PoolView }](t, p.ok(t, "pool", "list", "-o", "json"))
	if len(list.Pools) != 1 || list.Pools[0].USDPerHour != 0.02 || list.Pools[0].Description != "Ada's" {
		t.Errorf("%+v", list)
	}
	other := filepath.Join(t.TempDir(), "token")
	added := answer[PoolAdded](t, p.ok(t, "pool", "add", "lab", "--token-file", other, "-o", "json"))
	if added.Join.TokenFile != other || added.Pool.Name != "lab" || !added.Join.Expires.After(w.Clock.Now()) {
		t.Errorf("%+v", added)
	}
	for _, bad := range [][]string{{"pool", "add", "Lab"}, {"pool", "add", "lab", "--place", "mars"}, {"pool", "add", "lab", "--usd-per-hour", "-1"}, {"pool", "add"}} {
		if r := p.run(bad...); r.code != command.ExitBadInput {
			t.Errorf("%q: exit %d: %s", bad, r.code, r.err)
		}
	}
}

// answer parses the JSON output of a command.
func answer[T any](t *testing.T, r result) (v T) {
	t.Helper()
	if err := json.Unmarshal([]byte(r.out), &v); err != nil {
		t.Fatalf("%v in %s", err, r.out)
	}
	return v
}

func TestPoolListDrainRemove(t *testing.T) {
	p, w := poolProgram(t)
	if r := p.ok(t, "pool", "list"); r.out != "" || !strings.Contains(r.err, "no pool yet") {
		t.Errorf("without any: %s%s", r.out, r.err)
	}
	p.ok(t, "pool", "add", "lab")
	p.ok(t, "pool", "add", "spare")
	synced(t, w, "lab", "m1")
	synced(t, w, "lab", "m2")
	job := w.Submit(apitest.Training())
	r := p.ok(t, "pool", "list")
	lines := strings.Split(strings.TrimSpace(r.out), "\n")
	if len(lines) != 4 || !strings.Contains(lines[1], "m1") || !strings.Contains(lines[1], "8/8") || !strings.Contains(lines[1], job+" prepare-") ||
		!strings.Contains(lines[1], "0/2 V100") || !strings.HasPrefix(lines[3], "spare") {
		t.Errorf("%s", r.out)
	}
	if r := p.ok(t, "pool", "list", "spare"); strings.Contains(r.out, "lab") {
		t.Errorf("%s", r.out)
	}
	if r := p.run("pool", "list", "lap"); r.code != command.ExitBadInput || !strings.Contains(r.err, "unknown pool lap") {
		t.Errorf("exit %d: %s", r.code, r.err)
	}
	if r := p.run("pool", "remove", "lab"); r.code != command.ExitFailed || !strings.Contains(r.err, "drain lab --now") || !strings.Contains(r.err, "m1, m2") {
		t.Errorf("exit %d: %s", r.code, r.err)
	}
	if r := p.ok(t, "pool", "drain", "lab", "m1"); !strings.Contains(r.out, "draining") {
		t.Errorf("%s", r.out)
	}
	if r := p.ok(t, "pool", "drain", "lab", "m1", "--undo"); strings.Contains(r.out, "drain") {
		t.Errorf("%s", r.out)
	}
	if r := p.run("pool", "drain", "lab", "--now", "--undo"); r.code != command.ExitBadInput {
		t.Errorf("exit %d: %s", r.code, r.err)
	}
	if r := p.run("pool", "drain", "lab", "m9"); r.code != command.ExitBadInput || !strings.Contains(r.err, "m9") {
		t.Errorf("exit %d: %s", r.code, r.err)
	}
	removed := answer[PoolRemoved](t, p.ok(t, "pool", "remove", "spare", "-o", "json"))
	if !removed.Removed || removed.Pool != "spare" {
		t.Errorf("%+v", removed)
	}
	if r := p.ok(t, "__complete", "pool", "drain", "l"); !strings.HasPrefix(r.out, "lab") {
		t.Errorf("%s", r.out)
	}
	if r := p.ok(t, "__complete", "pool", "drain", "lab", ""); !strings.Contains(r.out, "m1\tbusy") || !strings.Contains(r.out, "m2") {
		t.Errorf("%s", r.out)
	}
}

func TestPoolJoinLeavesOnInterrupt(t *testing.T) {
	p, w := poolProgram(t)
	p.ok(t, "pool", "add", "lab")
	done := make(chan result, 1)
	go func() {
		done <- p.run("pool", "join", "lab", "--name", "m1", "--cpus", "3", "--memory", "7", "--gpu", "T4:2", "--label", "rack=7")
	}()
	machines := func() []apitypes.MachineView {
		list, err := w.Broker.Views.Pools(t.Context())
		if err != nil || len(list) != 1 {
			t.Fatalf("%v: %+v", err, list)
		}
		return list[0].Machines
	}
	for deadline := time.Now().Add(time.Minute); len(machines()) == 0; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("it does not join")
		}
	}
	if m := machines()[0]; m.ID != "m1" || m.Capacity != (apitypes.Capacity{CPUs: 3, MemoryGiB: 7, Accelerator: "T4", Accelerators: 2}) || m.Labels["rack"] != "7" || m.Labels["arch"] == "" {
		t.Errorf("%+v", m)
	}
	p.signals <- syscall.SIGINT
	r := <-done
	if r.code != command.ExitDone || !strings.Contains(r.out, "lab/m1") || !strings.Contains(r.out, "3 vCPU, 7 GiB, 2 T4") || !strings.Contains(r.err, "leaving pool lab") {
		t.Errorf("exit %d\n%s%s", r.code, r.out, r.err)
	}
	if m := machines(); len(m) != 0 {
		t.Errorf("%+v", m)
	}
}

func TestPoolJoinErrors(t *testing.T) {
	p, w := poolProgram(t)
	p.ok(t, "pool", "add", "lab")
	p.ok(t, "pool", "add", "other", "--token-file", filepath.Join(p.state, "other"))
	synced(t, w, "lab", "taken")
	if err := os.WriteFile(filepath.Join(p.state, "empty"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	join := func(more ...string) []string {
		return append([]string{"pool", "join", "lab", "--gpu", "none"}, more...)
	}
	for name, tc := range map[string]struct {
		args []string
		code int
		says string
	}{
		"a pool that is not there": {[]string{"pool", "join", "lap", "--gpu", "none"}, command.ExitBadInput, "there is no pool lap"},
		"a name that is taken":     {join("--name", "taken"), command.ExitBadInput, "already has a machine taken"},
		"another pool's token":     {join("--token-file", filepath.Join(p.state, "other")), command.ExitBadInput, "is for pool other"},
		"no token":                 {join("--token-file", filepath.Join(p.state, "empty")), command.ExitBadInput, "contains no join token"},
		"no file":                  {join("--token-file", filepath.Join(p.state, "none")), command.ExitBadInput, "no such file"},
		"no processors":            {join("--cpus", "0"), command.ExitBadInput, "--cpus 0 must be above 0"},
		"no GPU of that name":      {join("--gpu", "V1000"), command.ExitBadInput, "V1000"},
		"a name that cannot be":    {join("--name", "a b"), command.ExitBadInput, "machine"},
		"http in the clear":        {join("--endpoint", "http://192.0.2.1"), command.ExitBadInput, "unencrypted"},
	} {
		if r := p.run(tc.args...); r.code != tc.code || !strings.Contains(r.err, tc.says) {
			t.Errorf("%s: exit %d, want %d\n%s", name, r.code, tc.code, r.err)
		}
	}
	p.hosts.running = nil
	if r := p.run(join()...); r.code != command.ExitFailed || !strings.Contains(r.err, "no broker is running for") {
		t.Errorf("without a broker: exit %d\n%s", r.code, r.err)
	}
}
