package api_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/internal/agent/wire"
	"github.com/tradewind-broker/tradewind/internal/api"
	"github.com/tradewind-broker/tradewind/internal/api/apitest"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
)

// report returns the report of a machine with 8 vCPUs, as JSON.
func report(r wire.PoolReport) string {
	r.Capacity = wire.PoolCapacity{CPUs: 8, MemoryGiB: 32}
	b, _ := json.Marshal(r) // numbers and strings
	return string(b)
}

// lab returns a world with the pool lab, and the token of the pool's machine m1, which has joined and reported.
func lab(t *testing.T) (w *apitest.World, token string) {
	t.Helper()
	w = apitest.New(t)
	answer[apitypes.PoolView](t, w.Request("PUT", "/v1/pools/lab", `{"usdPerHour":0.02,"place":"aws:us-east-1"}`), http.StatusOK)
	invitation := answer[apitypes.PoolToken](t, w.Request("POST", "/v1/pools/lab/token", ""), http.StatusOK)
	own := answer[apitypes.PoolToken](t, w.Do("POST", wire.PathPoolJoin("lab", "m1"), "{}", bearer(invitation.Token)), http.StatusOK)
	answer[wire.PoolOrders](t, w.Do("POST", wire.PathPoolSync("lab", "m1"), report(wire.PoolReport{}), bearer(own.Token)), http.StatusOK)
	return w, own.Token
}

func pools(t *testing.T, w *apitest.World) []apitypes.PoolView {
	t.Helper()
	return answer[apitypes.PoolList](t, w.Request("GET", "/v1/pools", ""), http.StatusOK).Pools
}

func TestPoolLifecycle(t *testing.T) {
	w, _ := lab(t)
	list := pools(t, w)
	if len(list) != 1 || list[0].USDPerHour != 0.02 || list[0].Place != "aws:us-east-1" || len(list[0].Machines) != 1 || list[0].Machines[0].Capacity.CPUs != 8 {
		t.Fatalf("%+v", list)
	}
	for _, step := range []struct{ path, how, state string }{
		{"/v1/pools/lab/machines/m1/drain", `{"how":"drain"}`, "drained"}, {"/v1/pools/lab/machines/m1/drain", `{"how":"undo"}`, "ready"},
		{"/v1/pools/lab/drain", `{}`, "drained"}, {"/v1/pools/lab/drain", `{"how":"undo"}`, "ready"}, {"/v1/pools/lab/machines/m1/drain", `{"how":"now"}`, "drained"},
	} {
		p := answer[apitypes.PoolView](t, w.Request("POST", step.path, step.how), http.StatusOK)
		if state := p.Machines[0].State; state != step.state {
			t.Errorf("%s %s: %s", step.path, step.how, state)
		}
	}
	trouble(t, w.Request("DELETE", "/v1/pools/lab", ""), http.StatusConflict) // the pool has a machine
	for _, path := range []string{"/v1/pools/lab/machines/m1", "/v1/pools/lab"} {
		if res := w.Request("DELETE", path, ""); res.StatusCode != http.StatusNoContent {
			t.Fatalf("%s: %d %s", path, res.StatusCode, body(t, res))
		}
		trouble(t, w.Request("DELETE", path, ""), http.StatusNotFound)
	}
	if list := pools(t, w); len(list) != 0 {
		t.Errorf("%+v", list)
	}
}

func TestRejectsInvalidPool(t *testing.T) {
	w, _ := lab(t)
	for path, settings := range map[string]string{
		"/v1/pools/lab": `{"usdPerHour":-1}`, "/v1/pools/lab2": `{"place":"nowhere"}`, "/v1/pools/lab3": `{"partitions":10000}`, "/v1/pools/Lab": `{}`, "/v1/pools/l_b": `{}`, "/v1/pools/lab4": `{"usd":1}`,
	} {
		trouble(t, w.Request("PUT", path, settings), http.StatusUnprocessableEntity)
	}
	trouble(t, w.Request("POST", "/v1/pools/lab/drain", `{"how":"slowly"}`), http.StatusUnprocessableEntity)
	trouble(t, w.Request("POST", "/v1/pools/lab/machines/m9/drain", `{}`), http.StatusNotFound)
	trouble(t, w.Request("POST", "/v1/pools/none/token", ""), http.StatusNotFound)
	if list := pools(t, w); len(list) != 1 {
		t.Errorf("%+v", list)
	}
}

func TestMachineTokens(t *testing.T) {
	w, own := lab(t)
	answer[apitypes.PoolView](t, w.Request("PUT", "/v1/pools/other", `{}`), http.StatusOK)
	now := w.Clock.Now()
	claims := func(pool, machine string, joined, expires time.Duration) string {
		return w.MintPool(wire.PoolClaims{Pool: pool, Machine: machine, Joined: now.Add(joined), Expires: now.Add(expires)})
	}
	node := w.Mint(wire.Claims{Job: "lab", Cluster: "lab.0.1", Expires: now.Add(time.Hour)})
	join, sync := wire.PathPoolJoin("lab", "m2"), wire.PathPoolSync("lab", "m1")
	for name, c := range map[string]struct {
		path, token string
		status      int
	}{
		"none":                                {sync, "", http.StatusUnauthorized},
		"garbage":                             {sync, "x.y.z", http.StatusUnauthorized},
		"the user's":                          {sync, apitest.Token, http.StatusUnauthorized},
		"an agent's":                          {sync, node, http.StatusUnauthorized},
		"expired":                             {sync, claims("lab", "m1", -2*time.Hour, -time.Hour), http.StatusUnauthorized},
		"of another pool":                     {sync, claims("other", "m1", 0, time.Hour), http.StatusForbidden},
		"of another machine":                  {sync, claims("lab", "m2", 0, time.Hour), http.StatusForbidden},
		"one to join with":                    {sync, claims("lab", "", 0, time.Hour), http.StatusForbidden},
		"to join: none":                       {join, "", http.StatusUnauthorized},
		"to join: the user's":                 {join, apitest.Token, http.StatusUnauthorized},
		"to join: expired":                    {join, claims("lab", "", -2*time.Hour, -time.Hour), http.StatusUnauthorized},
		"to join: of another pool":            {join, claims("other", "", 0, time.Hour), http.StatusForbidden},
		"to join: a machine's own":            {wire.PathPoolJoin("lab", "m1"), own, http.StatusForbidden},
		"to join: of a pool before this one":  {join, claims("lab", "", -time.Hour, time.Hour), http.StatusGone},
		"to join: under a name that is taken": {wire.PathPoolJoin("lab", "m1"), claims("lab", "", 0, time.Hour), http.StatusConflict},
		"to join: a pool that is not there":   {wire.PathPoolJoin("none", "m1"), claims("none", "", 0, time.Hour), http.StatusNotFound},
		"of a pool that is not there":         {wire.PathPoolSync("none", "m1"), claims("none", "m1", 0, time.Hour), http.StatusGone},
		"its own":                             {sync, own, http.StatusOK},
	} {
		header := http.Header{}
		if c.token != "" {
			header = bearer(c.token)
		}
		res := w.Do("POST", c.path, report(wire.PoolReport{}), header)
		if res.StatusCode != c.status {
			t.Errorf("%s: %d, want %d: %s", name, res.StatusCode, c.status, body(t, res))
		}
	}
	for _, path := range []string{"/v1/pools", "/v1/jobs"} { // a user's path must refuse a machine's token
		trouble(t, w.Do("GET", path, "", bearer(own)), http.StatusUnauthorized)
	}
	for _, p := range agentPaths() { // an agent's path must, too
		trouble(t, w.Do(p[0], p[1], "", bearer(own)), http.StatusUnauthorized)
	}
}

func TestRemovedMachineCannotSync(t *testing.T) {
	w, own := lab(t)
	w.Clock.Advance(time.Minute)
	if res := w.Request("DELETE", "/v1/pools/lab/machines/m1", ""); res.StatusCode != http.StatusNoContent {
		t.Fatal(res.StatusCode)
	}
	trouble(t, w.Do("POST", wire.PathPoolSync("lab", "m1"), report(wire.PoolReport{}), bearer(own)), http.StatusGone)
	w.Clock.Advance(time.Minute)
	invitation := answer[apitypes.PoolToken](t, w.Request("POST", "/v1/pools/lab/token", ""), http.StatusOK)
	again := answer[apitypes.PoolToken](t, w.Do("POST", wire.PathPoolJoin("lab", "m1"), "{}", bearer(invitation.Token)), http.StatusOK)
	answer[wire.PoolOrders](t, w.Do("POST", wire.PathPoolSync("lab", "m1"), report(wire.PoolReport{}), bearer(again.Token)), http.StatusOK)
	trouble(t, w.Do("POST", wire.PathPoolSync("lab", "m1"), report(wire.PoolReport{}), bearer(own)), http.StatusGone)
}

func TestSyncRenewsOldToken(t *testing.T) {
	w, own := lab(t)
	sync := func(token string) wire.PoolOrders {
		t.Helper()
		return answer[wire.PoolOrders](t, w.Do("POST", wire.PathPoolSync("lab", "m1"), report(wire.PoolReport{}), bearer(token)), http.StatusOK)
	}
	if o := sync(own); o.Token != nil || o.After <= 0 || o.Agents == nil {
		t.Errorf("at first: %+v", o)
	}
	for range 5 { // five days
		w.Clock.Advance(api.DefaultMachineFor * 3 / 4)
		o := sync(own)
		if o.Token == nil || !o.Token.Expires.After(w.Clock.Now().Add(api.DefaultMachineFor-time.Minute)) {
			t.Fatalf("a token that is three quarters old is not renewed: %+v", o)
		}
		own = o.Token.Token
	}
	w.Clock.Advance(api.DefaultMachineFor + time.Hour)
	trouble(t, w.Do("POST", wire.PathPoolSync("lab", "m1"), report(wire.PoolReport{}), bearer(own)), http.StatusUnauthorized)
}

func TestSyncRejectsInvalidReport(t *testing.T) {
	w, own := lab(t)
	for text, field := range map[string]string{
		`{"capacity":{"cpus":-1,"memoryGiB":1}}`:                                      "cpus",
		`{"capacity":{"cpus":0,"memoryGiB":1}}`:                                       "cpus",
		`{"capacity":{"cpus":1,"memoryGiB":1,"accelerators":1}}`:                      "accelerators",
		`{"type":"a b","capacity":{"cpus":1,"memoryGiB":1}}`:                          "type",
		`{"running":[{"cluster":"c","rank":-1}],"capacity":{"cpus":1,"memoryGiB":1}}`: "rank",
		`{}`: "capacity",
	} {
		p := trouble(t, w.Do("POST", wire.PathPoolSync("lab", "m1"), text, bearer(own)), http.StatusUnprocessableEntity)
		said := p.Detail
		for _, e := range p.Errors {
			said += " " + e.Location + " " + e.Message
		}
		if !strings.Contains(said, field) {
			t.Errorf("%s: %s", text, said)
		}
	}
}

func TestSyncOrdersTaskWithToken(t *testing.T) {
	w, own := lab(t)
	job := w.Submit(apitest.Training())
	o := answer[wire.PoolOrders](t, w.Do("POST", wire.PathPoolSync("lab", "m1"), report(wire.PoolReport{}), bearer(own)), http.StatusOK)
	if len(o.Agents) != 1 || o.Agents[0].Job != job || o.Agents[0].Token == "" || o.Agents[0].Hold.CPUs != 8 {
		t.Fatalf("%+v", o)
	}
	hello := w.Do("POST", wire.PathHello, `{"address":"10.0.0.1","version":"v1"}`, bearer(o.Agents[0].Token))
	if work := answer[wire.Work](t, hello, http.StatusOK); work.Command != wire.Run {
		t.Errorf("its agent gets %+v", work)
	}
	running := report(wire.PoolReport{Running: []wire.PoolAgent{o.Agents[0].PoolAgent}})
	if o = answer[wire.PoolOrders](t, w.Do("POST", wire.PathPoolSync("lab", "m1"), running, bearer(own)), http.StatusOK); len(o.Agents) != 1 || o.Agents[0].Token != "" {
		t.Errorf("a running agent gets another token: %+v", o)
	}
	if m := pools(t, w)[0].Machines[0]; len(m.Tasks) != 1 || m.Used.CPUs != 8 || m.State != "busy" {
		t.Errorf("%+v", m)
	}
}

func TestPoolsUnsupportedAnswers501(t *testing.T) {
	w := apitest.New(t, func(c *api.Config) { c.Machines = nil })
	answer[apitypes.PoolView](t, w.Request("PUT", "/v1/pools/lab", `{}`), http.StatusOK)
	trouble(t, w.Request("POST", "/v1/pools/lab/token", ""), http.StatusNotImplemented)
	trouble(t, w.Do("POST", wire.PathPoolSync("lab", "m1"), "{}", bearer("x")), http.StatusNotImplemented)
}

func TestGetPoolReadsOnlyThatPool(t *testing.T) {
	w := apitest.New(t)
	reads := func(pools int) apitest.Reads {
		for i := range pools {
			if err := w.Broker.Users.SetPool(t.Context(), fmt.Sprint("pool-", i), record.PoolSettings{}); err != nil {
				t.Fatal(err)
			}
		}
		w.Store.Take()
		if res := w.Request("POST", "/v1/pools/pool-0/token", ""); res.StatusCode != http.StatusOK {
			t.Fatal(res.Status)
		}
		return w.Store.Take()
	}
	if one, many := reads(1), reads(20); one != many {
		t.Errorf("one pool: %+v read; one of 20 pools: %+v read", one, many)
	}
}
