package identity_test

import (
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/tradewind-broker/tradewind/internal/agent/wire"
	"github.com/tradewind-broker/tradewind/internal/identity"
)

// cloud simulates a cloud whose proofs a verifier checks.
type cloud struct {
	// Machine is a machine for which the cloud can sign a proof. It has all fields that a proof contains.
	Machine wire.Machine
	// Prove signs a proof like the metadata service. Forge does the same with the keys of an attacker who uses the
	// cloud's name.
	Prove, Forge func(m wire.Machine, nonce string) string
	// Nonced states whether the signature includes the nonce.
	Nonced bool
}

// testConformance is the conformance suite of identity.Verifier.
func testConformance(t *testing.T, v identity.Verifier, c cloud) {
	const nonce = "NONCE7NONCE7NONCE7NONCE7"
	refused := func(t *testing.T, document, nonce string) {
		t.Helper()
		m, err := v.Verify(t.Context(), document, nonce)
		if !errors.Is(err, identity.ErrInvalid) || m != (wire.Machine{}) {
			t.Errorf("%+v, %v, want %v", m, err, identity.ErrInvalid)
		}
	}
	genuine := c.Prove(c.Machine, nonce)
	t.Run("a genuine proof names the machine", func(t *testing.T) {
		if m, err := v.Verify(t.Context(), genuine, nonce); err != nil || m != c.Machine {
			t.Errorf("%+v, %v, want %+v", m, err, c.Machine)
		}
		if c.Machine.Cloud == "" || c.Machine.ID == "" {
			t.Error("a proof must contain at least cloud and ID")
		}
	})
	t.Run("a forged proof is rejected", func(t *testing.T) { refused(t, c.Forge(c.Machine, nonce), nonce) })
	t.Run("a proof with another nonce is rejected if the nonce is signed", func(t *testing.T) {
		if !c.Nonced {
			t.Skip("this cloud signs no nonce")
		}
		refused(t, genuine, "another")
		refused(t, genuine, "")
		refused(t, c.Prove(c.Machine, ""), "")
	})
	t.Run("malformed proofs are rejected", func(t *testing.T) {
		for _, text := range []string{"", " ", "x", "{}", "bm9uZQ==", "a.b.c", strings.Repeat("A", 10_000),
			genuine[:len(genuine)/2], `{"encoding":"pkcs7","signature":""}`, "MAA=",
			"MIAGCSqGSIb3DQEHAqCAMIACAQExADAL"} {
			refused(t, text, nonce)
		}
	})
	t.Run("a changed proof never proves another machine", func(t *testing.T) { changed(t, v, c, genuine, nonce) })
	t.Run("concurrent calls", func(t *testing.T) {
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				if m, err := v.Verify(t.Context(), genuine, nonce); err != nil || m != c.Machine {
					t.Errorf("%+v, %v", m, err)
				}
			})
		}
		wg.Wait()
	})
}

// changed changes single characters at about 300 positions of a proof. Each changed proof must be refused.
func changed(t *testing.T, v identity.Verifier, c cloud, genuine, nonce string) {
	step := max(len(genuine)/300, 1)
	for i := 0; i < len(genuine); i += step {
		other := byte('A')
		if genuine[i] == other {
			other = 'B'
		}
		text := genuine[:i] + string(other) + genuine[i+1:]
		m, err := v.Verify(t.Context(), text, nonce)
		switch {
		case err == nil && m != c.Machine:
			t.Fatalf("with %q at %d it proves %+v", other, i, m)
		case err != nil && !errors.Is(err, identity.ErrInvalid):
			t.Fatalf("with %q at %d: %v", other, i, err)
		}
	}
}
