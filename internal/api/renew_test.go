package api_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/internal/agent/wire"
	"github.com/tradewind-broker/tradewind/internal/api/apitest"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
)

// TestTokenRenewedWhileAttemptRuns: a task runs for four days, and its token is replaced before it expires. The API
// must refuse an expired token, and every token after the end of the attempt.
func TestTokenRenewedWhileAttemptRuns(t *testing.T) {
	w := apitest.New(t)
	job := w.Submit(apitest.Wide("long", 1))
	node := w.Node(job, "split", 0).Start()
	claims := wire.Claims{Job: job, Cluster: node.Attempt(), Expires: w.Clock.Now().Add(24 * time.Hour)}
	first := w.Mint(claims)
	token, renewals := first, 0
	poll := func(token string) *http.Response {
		return w.Do("GET", wire.PathWork+"?seen=9&wait=0s", "", bearer(token))
	}
	for range 96 {
		w.Clock.Advance(time.Hour)
		if got := answer[wire.Work](t, poll(token), http.StatusOK); got.Token != "" {
			token = got.Token
			renewals++
		}
	}
	if renewals < 4 || renewals > 9 {
		t.Errorf("the token was renewed %d times in four days", renewals)
	}
	if res := poll(first); res.StatusCode != http.StatusUnauthorized {
		t.Errorf("status %d for the first token, which has expired", res.StatusCode)
	}
	if err := w.Broker.Users.Cancel(t.Context(), job, "enough"); err != nil {
		t.Fatal(err)
	}
	w.Drain()
	if got, err := w.Broker.Agents.Work(t.Context(), claims, 9); err == nil || got.Token != "" {
		t.Errorf("after the end of the attempt: %+v, %v, want %v", got, err, record.ErrGone)
	}
}

// A machine's boot token is in its user data, which its tasks can read. So it must be valid only for the hello of one
// agent.
func TestBootTokenValidOnce(t *testing.T) {
	w := apitest.New(t)
	job := w.Submit(apitest.Wide("one", 1))
	claims := wire.Claims{Job: job, Cluster: w.Node(job, "split", 0).Attempt(), Expires: w.Clock.Now().Add(100 * time.Hour), Boot: true}
	boot := w.Mint(claims)
	hello := func(nonce string) *http.Response {
		return w.Do("POST", wire.PathHello, toJSON(t, wire.Hello{Address: "10.0.0.1", Nonce: nonce}), bearer(boot))
	}
	for _, p := range agentPaths() {
		if p[1] != wire.PathHello && p[0] == "POST" {
			trouble(t, w.Do(p[0], p[1], "{}", bearer(boot)), http.StatusForbidden)
		}
	}
	trouble(t, w.Do("GET", wire.PathWork, "", bearer(boot)), http.StatusForbidden)
	var session string
	for range 2 { // the second call is a retry
		work := answer[wire.Work](t, hello("the agent's"), http.StatusOK)
		if session = work.Token; session == "" || session == boot || work.Command != wire.Run {
			t.Fatalf("hello is answered with %+v", work)
		}
	}
	trouble(t, hello("a task's"), http.StatusGone)
	trouble(t, hello(""), http.StatusGone)
	trouble(t, w.Do("GET", wire.PathWork, "", bearer(boot)), http.StatusForbidden)
	answer[wire.Work](t, w.Do("GET", wire.PathWork+"?seen=9&wait=0s", "", bearer(session)), http.StatusOK)
	if again := answer[wire.Work](t, w.Do("GET", wire.PathWork+"?seen=9&wait=0s", "", bearer(session)), http.StatusOK); again.Token != "" {
		t.Error("a fresh token is renewed")
	}
}

// A node waits for other nodes. It must get a renewed token in its first response already.
func TestWaitingNodeGetsTokenAtOnce(t *testing.T) {
	w := apitest.New(t)
	spec := apitest.Wide("wide", 1)
	spec.Tasks[0].Nodes = 2
	job := w.Submit(spec)
	boot := w.Mint(wire.Claims{Job: job, Cluster: w.Node(job, "split", 0).Attempt(), Expires: w.Clock.Now().Add(100 * time.Hour), Boot: true})
	got := answer[wire.Work](t, w.Do("POST", wire.PathHello, toJSON(t, wire.Hello{Address: "10.0.0.1", Nonce: "n"}), bearer(boot)), http.StatusOK)
	if got.Token == "" || got.Command != wire.None {
		t.Errorf("hello is answered with %+v", got)
	}
	answer[wire.Work](t, w.Do("GET", wire.PathWork+"?seen=0&wait=0s", "", bearer(got.Token)), http.StatusOK)
}
