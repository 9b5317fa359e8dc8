package main_test

import (
	"bytes"
	"errors"
	"testing"
	"time"

	awsevents "github.com/aws/aws-lambda-go/events"

	"github.com/tradewind-broker/tradewind/functions/authorizer"
	"github.com/tradewind-broker/tradewind/internal/agent/token"
	"github.com/tradewind-broker/tradewind/internal/agent/wire"
)

var now = time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)

// ring verifies tokens of one key.
type ring struct{ key []byte }

func (r ring) Verify(text string) (wire.Claims, error) { return token.Verify(r.key, text, now) }
func (r ring) VerifyPool(text string) (wire.PoolClaims, error) {
	return token.VerifyPool(r.key, text, now)
}

// locked is a ring whose keys cannot be read.
type locked struct{}

var errKeys = errors.New("no answer")

func (locked) Verify(string) (wire.Claims, error)         { return wire.Claims{}, errKeys }
func (locked) VerifyPool(string) (wire.PoolClaims, error) { return wire.PoolClaims{}, errKeys }

func TestOnlyTokensOfThisDeploymentAreAdmitted(t *testing.T) {
	mine, other := bytes.Repeat([]byte("k"), 32), bytes.Repeat([]byte("o"), 32)
	mint := func(key []byte, expires time.Time) string {
		text, err := token.Mint(key, wire.Claims{Job: "j", Cluster: "j.0.1", Issued: now, Expires: expires})
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	machine, err := token.MintPool(mine, wire.PoolClaims{Pool: "lab", Machine: "m1", Joined: now, Expires: now.Add(time.Hour)})
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		header string
		want   bool
	}{
		"an agent":                    {"Bearer " + mint(mine, now.Add(time.Hour)), true},
		"a pool machine":              {"Bearer " + machine, true},
		"expired":                     {"Bearer " + mint(mine, now.Add(-time.Hour)), false},
		"signed by another":           {"Bearer " + mint(other, now.Add(time.Hour)), false},
		"no token":                    {"", false},
		"nonsense":                    {"Bearer x.y.z", false},
		"a token of another kind":     {"Basic " + mint(mine, now.Add(time.Hour)), false},
		"a changed token of an agent": {"Bearer " + mint(mine, now.Add(time.Hour)) + "x", false},
	} {
		out, err := main.New(ring{mine})(t.Context(), awsevents.APIGatewayV2CustomAuthorizerV2Request{
			Headers: map[string]string{"authorization": c.header}})
		if err != nil || out.IsAuthorized != c.want {
			t.Errorf("%s: %v, %v", name, out.IsAuthorized, err)
		}
	}
}

// TestUnreadableKeysAreNoRefusal: a refusal would end the agent's work.
func TestUnreadableKeysAreNoRefusal(t *testing.T) {
	out, err := main.New(locked{})(t.Context(), awsevents.APIGatewayV2CustomAuthorizerV2Request{
		Headers: map[string]string{"authorization": "Bearer x.y.z"}})
	if !errors.Is(err, errKeys) || out.IsAuthorized {
		t.Errorf("%v, %v", out.IsAuthorized, err)
	}
}
