package api_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/internal/agent/bootstrap/imdstest"
	"github.com/tradewind-broker/tradewind/internal/agent/wire"
	"github.com/tradewind-broker/tradewind/internal/api"
	"github.com/tradewind-broker/tradewind/internal/api/apitest"
	"github.com/tradewind-broker/tradewind/internal/identity"
)

// The API must compare the proof in a machine's hello with the launched machine. If it refuses the proof, it must
// give the reason.
func TestHelloProvesMachineIdentity(t *testing.T) {
	ours, other := authority(t), authority(t)
	v, err := identity.NewAWS(ours.Certificates())
	if err != nil {
		t.Fatal(err)
	}
	w := apitest.New(t, func(c *api.Config) { c.Identity = identity.Verifiers{"aws": v} })
	job := w.Submit(apitest.Wide("one", 1))
	cluster := w.Node(job, "split", 0).Attempt()
	boot := w.Mint(wire.Claims{Job: job, Cluster: cluster, Expires: w.Clock.Now().Add(time.Hour), Boot: true})
	machines, err := w.Cloud.Machines(t.Context(), cluster)
	if err != nil || len(machines) != 1 {
		t.Fatal(machines, err)
	}
	launched := machines[0]
	say := func(cloud string, m *imdstest.Machine) *http.Response {
		h := wire.Hello{Address: "10.0.0.1", Nonce: "n", Proof: &wire.Proof{Cloud: cloud, Document: m.Proof()}}
		return w.Do("POST", wire.PathHello, toJSON(t, h), bearer(boot))
	}
	genuine := &imdstest.Machine{ID: launched.ID, Region: launched.Offer.Region, Account: "42", Signer: ours}
	for name, spoil := range map[string]func(*imdstest.Machine){
		"it is i-other":                     func(m *imdstest.Machine) { m.ID = "i-other" },
		"it is in region mars-1":            func(m *imdstest.Machine) { m.Region = "mars-1" },
		"signature is not":                  func(m *imdstest.Machine) { m.Signer = other },
		"proven to be the launched machine": func(m *imdstest.Machine) { m.ID = "" },
	} {
		m := &imdstest.Machine{ID: genuine.ID, Region: genuine.Region, Account: "42", Signer: ours}
		spoil(m)
		if p := trouble(t, say("aws", m), http.StatusForbidden); !strings.Contains(p.Detail, name) {
			t.Errorf("%q is the answer, want %q in it", p.Detail, name)
		}
	}
	long := wire.Hello{Nonce: "n", Proof: &wire.Proof{Cloud: "aws", Document: strings.Repeat("A", wire.MaxProof+1)}}
	trouble(t, w.Do("POST", wire.PathHello, toJSON(t, long), bearer(boot)), http.StatusForbidden)
	if work := answer[wire.Work](t, say("aws", genuine), http.StatusOK); work.Token == "" || work.Command != wire.Run {
		t.Errorf("the genuine machine gets %+v", work)
	}
}

func authority(t *testing.T) *imdstest.Authority {
	t.Helper()
	a, err := imdstest.NewAuthority()
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// away is a verifier that is unavailable.
type away struct{}

func (away) Verify(context.Context, string, string) (wire.Machine, error) {
	return wire.Machine{}, fmt.Errorf("%w: no keys", identity.ErrUnavailable)
}

// The verifier of proofs is unavailable. The API must not answer as if it had refused the proof, because a refused
// agent ends.
func TestUncheckableProofAnswers503(t *testing.T) {
	w := apitest.New(t, func(c *api.Config) { c.Identity = identity.Verifiers{"gcp": away{}} })
	job := w.Submit(apitest.Wide("one", 1))
	node := w.Node(job, "split", 0)
	h := wire.Hello{Address: "10.0.0.1", Nonce: "n", Proof: &wire.Proof{Cloud: "gcp", Document: "x"}}
	res := w.Do("POST", wire.PathHello, toJSON(t, h), bearer(node.Token))
	if res.Header.Get("Retry-After") == "" {
		t.Error("the response does not say when to retry")
	}
	trouble(t, res, http.StatusServiceUnavailable)
}
