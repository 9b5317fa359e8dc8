package keys_test

import (
	"context"
	"encoding/base64"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ssm"
	"github.com/aws/aws-sdk-go-v2/service/ssm/types"

	"github.com/tradewind-broker/tradewind/internal/agent/token"
	"github.com/tradewind-broker/tradewind/internal/agent/wire"
	"github.com/tradewind-broker/tradewind/internal/lambdahost/keys"
)

// parameter is SSM with one parameter.
type parameter struct {
	mu         sync.Mutex
	value      string
	gets, puts int
	err        error
	barrier    *sync.WaitGroup // number of requests that found nothing
}

func (p *parameter) GetParameter(context.Context, *ssm.GetParameterInput, ...func(*ssm.Options)) (*ssm.GetParameterOutput, error) {
	p.mu.Lock()
	p.gets++
	value, err := p.value, p.err
	p.mu.Unlock()
	switch {
	case err != nil:
		return nil, err
	case value == "":
		if p.barrier != nil {
			p.barrier.Done()
			p.barrier.Wait()
		}
		return nil, &types.ParameterNotFound{}
	}
	return &ssm.GetParameterOutput{Parameter: &types.Parameter{Value: &value}}, nil
}

func (p *parameter) PutParameter(_ context.Context, in *ssm.PutParameterInput, _ ...func(*ssm.Options)) (*ssm.PutParameterOutput, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.puts++
	if p.value != "" && !aws.ToBool(in.Overwrite) {
		return nil, &types.ParameterAlreadyExists{}
	}
	if in.Type != types.ParameterTypeSecureString {
		return nil, errors.New("not a SecureString")
	}
	p.value = *in.Value
	return &ssm.PutParameterOutput{}, nil
}

var now = time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)

func clock() time.Time { return now }

var claims = wire.Claims{Job: "job-1", Cluster: "job-1.0.1", Expires: now.Add(time.Hour)}

func TestKeyIsMadeOnFirstUse(t *testing.T) {
	p := &parameter{}
	minting, verifying := keys.New(p, "/tw/token-key", clock), keys.New(p, "/tw/token-key", clock)
	if p.gets+p.puts > 0 {
		t.Error("SSM was called before anything was needed")
	}
	text, err := minting.Mint(claims)
	if err != nil {
		t.Fatal(err)
	}
	got, err := verifying.Verify(text)
	if err != nil || got.Cluster != claims.Cluster {
		t.Errorf("%+v %v", got, err)
	}
	for range 10 {
		if _, err := verifying.Verify(text); err != nil {
			t.Fatal(err)
		}
	}
	if p.puts != 1 || p.gets != 2 {
		t.Errorf("%d puts, %d gets", p.puts, p.gets)
	}
}

func TestConcurrentMakeYieldsOneKey(t *testing.T) {
	p := &parameter{barrier: &sync.WaitGroup{}}
	p.barrier.Add(2)
	var texts [2]string
	rings := [2]*keys.Ring{keys.New(p, "k", clock), keys.New(p, "k", clock)}
	var wg sync.WaitGroup
	for i := range rings {
		wg.Go(func() { texts[i], _ = rings[i].Mint(claims) })
	}
	wg.Wait()
	for i := range rings {
		if _, err := rings[1-i].Verify(texts[i]); err != nil {
			t.Error(err)
		}
	}
}

func key(b byte) string {
	return base64.StdEncoding.EncodeToString([]byte(strings.Repeat(string(b), 32)))
}

func TestKeyRotation(t *testing.T) {
	at := now
	p := &parameter{value: key('a')}
	ring := keys.New(p, "k", func() time.Time { return at })
	old, err := ring.Mint(claims)
	if err != nil {
		t.Fatal(err)
	}
	p.value = key('b') + ", " + key('a')
	fresh, err := keys.New(p, "k", clock).Mint(claims) // another sandbox already has it
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ring.Verify(fresh); !errors.Is(err, token.ErrForged) {
		t.Errorf("known too early: %v", err)
	}
	at = at.Add(2 * time.Minute)
	for name, text := range map[string]string{"new": fresh, "old": old} {
		if _, err := ring.Verify(text); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	p.value, at = key('b'), at.Add(2*time.Minute)
	if _, err := keys.New(p, "k", clock).Verify(old); !errors.Is(err, token.ErrForged) {
		t.Errorf("the old key is still good: %v", err)
	}
}

func TestPoolTokensUseSameKeys(t *testing.T) {
	at := now
	p := &parameter{value: key('a')}
	ring := keys.New(p, "k", func() time.Time { return at })
	machine := wire.PoolClaims{Pool: "lab", Machine: "m1", Joined: now, Expires: now.Add(time.Hour)}
	old, err := ring.MintPool(machine)
	if err != nil {
		t.Fatal(err)
	}
	p.value, at = key('b')+","+key('a'), at.Add(2*time.Minute)
	fresh, err := keys.New(p, "k", clock).MintPool(machine)
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"new": fresh, "old": old} {
		if got, err := ring.VerifyPool(text); err != nil || got.Machine != "m1" {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
		if _, err := ring.Verify(text); !errors.Is(err, token.ErrForged) {
			t.Errorf("%s, as an agent's: %v", name, err)
		}
	}
}

func TestVerifyErrors(t *testing.T) {
	p := &parameter{value: key('a')}
	ring := keys.New(p, "k", clock)
	expired := claims
	expired.Expires = now.Add(-time.Hour)
	late, err := ring.Mint(expired)
	if err != nil {
		t.Fatal(err)
	}
	forged, err := token.Mint([]byte(strings.Repeat("x", 32)), claims)
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]error{late: token.ErrExpired, forged: token.ErrForged, "no token": token.ErrMalformed} {
		if _, err := ring.Verify(text); !errors.Is(err, want) {
			t.Errorf("%v, want %v", err, want)
		}
	}
	gets := p.gets
	for range 100 { // forged tokens cause no calls to SSM
		_, _ = ring.Verify(forged)
	}
	if p.gets != gets {
		t.Errorf("%d calls for a hundred forgeries", p.gets-gets)
	}
}

func TestInvalidParameterIsNotQuoted(t *testing.T) {
	for _, value := range []string{"short", "c2hvcnQ=", key('a') + ",c2hvcnQ="} {
		_, err := keys.New(&parameter{value: value}, "/tw/token-key", clock).Mint(claims)
		if !errors.Is(err, keys.ErrKeys) || strings.Contains(err.Error(), value) || !strings.Contains(err.Error(), "/tw/token-key") {
			t.Errorf("%q: %v", value, err)
		}
	}
	away := errors.New("SSM is away")
	if _, err := keys.New(&parameter{err: away}, "k", clock).Mint(claims); !errors.Is(err, away) {
		t.Error(err)
	}
}
