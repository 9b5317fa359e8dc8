package identity_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/tradewind-broker/tradewind/internal/agent/bootstrap/imdstest"
	"github.com/tradewind-broker/tradewind/internal/agent/wire"
	"github.com/tradewind-broker/tradewind/internal/identity"
)

func authority(t testing.TB) *imdstest.Authority {
	t.Helper()
	a, err := imdstest.NewAuthority()
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func verifier(t testing.TB, certificates string) *identity.AWSVerifier {
	t.Helper()
	v, err := identity.NewAWS(certificates)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func proofs(a *imdstest.Authority) func(wire.Machine, string) string {
	return func(m wire.Machine, _ string) string {
		return (&imdstest.Machine{ID: m.ID, Region: m.Region, Account: m.Account, Signer: a}).Proof()
	}
}

var machine = wire.Machine{Cloud: "aws", Account: "123456789012", Region: "eu-west-1", ID: "i-0abc"}

func TestAWSConformance(t *testing.T) {
	own, other := authority(t), authority(t)
	testConformance(t, verifier(t, own.Certificates()), cloud{Machine: machine, Prove: proofs(own),
		Forge: proofs(other)})
}

func TestDefaultTrustsOnlyAWS(t *testing.T) {
	v := verifier(t, "")
	for region, want := range map[string]string{"eu-west-1": "signature is not AWS's", "mars-1": "no certificate is known"} {
		m := machine
		m.Region = region
		_, err := v.Verify(t.Context(), proofs(authority(t))(m, ""), "")
		if !errors.Is(err, identity.ErrInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", region, err, want)
		}
	}
}

func TestCertificatesAreValidOnlyForTheirRegion(t *testing.T) {
	a, b := authority(t), authority(t)
	v := verifier(t, "# eu-west-1\n"+a.Certificates()+"# us-east-1\n"+b.Certificates())
	for _, c := range []struct {
		region string
		signer *imdstest.Authority
		good   bool
	}{{"eu-west-1", a, true}, {"us-east-1", b, true}, {"eu-west-1", b, false}, {"us-east-1", a, false}, {"us-west-2", a, false}} {
		m := machine
		m.Region = c.region
		if _, err := v.Verify(t.Context(), proofs(c.signer)(m, ""), ""); (err == nil) != c.good {
			t.Errorf("%s: %v", c.region, err)
		}
	}
}

// A message contains a certificate of its sender. It proves nothing, so the check must not use it.
func TestVerifyIgnoresCertificatesInMessage(t *testing.T) {
	forged := proofs(authority(t))(machine, "")
	if m, err := verifier(t, authority(t).Certificates()).Verify(t.Context(), forged, ""); err == nil {
		t.Errorf("a message with its own certificate proves %+v", m)
	}
}

func TestVerifyRejectsIncompleteDocuments(t *testing.T) {
	a := authority(t)
	v := verifier(t, a.Certificates())
	for _, text := range []string{`{}`, `[]`, `{"instanceId":"i-1","region":"r"}`, `{"instanceId":"i-1","accountId":"1"}`, `{"accountId":"1","region":"r"}`} {
		signed, err := a.Sign([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		if m, err := v.Verify(t.Context(), signed, ""); !errors.Is(err, identity.ErrInvalid) {
			t.Errorf("%s: %+v, %v", text, m, err)
		}
	}
}

func TestNewRejectsTextWithoutCertificates(t *testing.T) {
	for _, text := range []string{"x", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"} {
		if _, err := identity.NewAWS(text); !errors.Is(err, identity.ErrCertificates) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func FuzzAWSVerify(f *testing.F) {
	a := authority(f)
	v := verifier(f, authority(f).Certificates())
	f.Add(proofs(a)(machine, ""))
	f.Add("-----BEGIN PKCS7-----\nMAA=\n-----END PKCS7-----")
	f.Fuzz(func(t *testing.T, text string) {
		if m, err := v.Verify(t.Context(), text, ""); !errors.Is(err, identity.ErrInvalid) {
			t.Errorf("%+v, %v", m, err)
		}
	})
}
