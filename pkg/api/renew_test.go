package api_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/pkg/agent/wire"
	"github.com/tradewind-broker/tradewind/pkg/api/apitest"
	"github.com/tradewind-broker/tradewind/pkg/broker/record"
)

// TestATokenIsRenewedAsLongAsTheAttemptLives: a task that runs for four days is spoken for to its end, by a token that is
// new each time the old one is getting old; who comes too late is refused, and so is who comes after the end.
func TestATokenIsRenewedAsLongAsTheAttemptLives(t *testing.T) {
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
		t.Errorf("in four days it is renewed %d times", renewals)
	}
	if res := poll(first); res.StatusCode != http.StatusUnauthorized {
		t.Errorf("the first token, which has expired, is answered with %d", res.StatusCode)
	}
	if err := w.Broker.Cancel(t.Context(), job, "enough"); err != nil {
		t.Fatal(err)
	}
	w.Drain()
	if got, err := w.Broker.Work(t.Context(), claims, 9); err == nil || got.Token != "" {
		t.Errorf("after its end it is told %+v, %v, want %v", got, err, record.ErrGone)
	}
}
