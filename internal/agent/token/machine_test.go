package token_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"pgregory.net/rapid"

	"github.com/tradewind-broker/tradewind/internal/agent/token"
	"github.com/tradewind-broker/tradewind/internal/agent/wire"
)

var machine = wire.PoolClaims{Pool: "lab", Machine: "m1", Joined: now, Expires: now.Add(time.Hour)}

func mintPool(t *testing.T, c wire.PoolClaims) string {
	t.Helper()
	s, err := token.MintPool(key, c)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func samePool(a, b wire.PoolClaims) bool {
	return a.Pool == b.Pool && a.Machine == b.Machine && a.Joined.Equal(b.Joined) && a.Expires.Equal(b.Expires)
}

func TestMintVerifyPoolRoundTrip(t *testing.T) {
	join := machine
	join.Machine = ""
	for _, c := range []wire.PoolClaims{machine, join} {
		s := mintPool(t, c)
		if got, err := token.VerifyPool(key, s, now.Add(59*time.Minute)); err != nil || !samePool(got, c) {
			t.Errorf("VerifyPool = %+v, %v; want %+v", got, err, c)
		}
		if got, err := token.ReadPool(s); err != nil || !samePool(got, c) {
			t.Errorf("ReadPool = %+v, %v; want %+v", got, err, c)
		}
		if _, err := token.VerifyPool(key, s, c.Expires.Add(token.Skew+time.Second)); !errors.Is(err, token.ErrExpired) {
			t.Errorf("after its time: %v", err)
		}
	}
}

func TestTokensAreBoundToAudience(t *testing.T) {
	if _, err := token.VerifyPool(key, mint(t, claims), now); !errors.Is(err, token.ErrForged) {
		t.Errorf("a node's token was accepted as a machine's: %v", err)
	}
	if _, err := token.Verify(key, mintPool(t, machine), now); !errors.Is(err, token.ErrForged) {
		t.Errorf("a machine's token was accepted as a node's: %v", err)
	}
	sign := func(audience, machine string, spoil func(jwt.MapClaims)) string {
		c := jwt.MapClaims{"pool": "lab", "aud": audience, "iat": now.Unix(), "exp": now.Add(time.Hour).Unix()}
		if machine != "" {
			c["machine"] = machine
		}
		if spoil != nil {
			spoil(c)
		}
		s, err := jwt.NewWithClaims(jwt.SigningMethodHS256, c).SignedString(key)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	for name, tc := range map[string]struct {
		token string
		want  error
	}{
		"a machine's":                   {sign("tradewind-pool-machine", "m1", nil), nil},
		"one to join with":              {sign("tradewind-pool-join", "", nil), nil},
		"to join, that names a machine": {sign("tradewind-pool-join", "m1", nil), token.ErrForged},
		"a machine's, that names none":  {sign("tradewind-pool-machine", "", nil), token.ErrForged},
		"both":                          {sign("", "m1", func(c jwt.MapClaims) { c["aud"] = []string{"tradewind-pool-join", "tradewind-pool-machine"} }), token.ErrForged},
		"of no pool":                    {sign("tradewind-pool-machine", "m1", func(c jwt.MapClaims) { delete(c, "pool") }), token.ErrMalformed},
		"of no time":                    {sign("tradewind-pool-machine", "m1", func(c jwt.MapClaims) { delete(c, "iat") }), token.ErrMalformed},
		"that never expires":            {sign("tradewind-pool-machine", "m1", func(c jwt.MapClaims) { delete(c, "exp") }), token.ErrMalformed},
		"of a machine that joins later": {sign("tradewind-pool-machine", "m1", func(c jwt.MapClaims) { c["iat"] = now.Add(time.Hour).Unix() }), token.ErrForged},
		"megabytes":                     {strings.Repeat("a", 1<<20), token.ErrMalformed},
	} {
		if _, err := token.VerifyPool(key, tc.token, now); !errors.Is(err, tc.want) {
			t.Errorf("%s: %v, want %v", name, err, tc.want)
		}
	}
	for _, c := range []wire.PoolClaims{{}, {Pool: "lab"}, {Pool: "lab", Joined: now}, {Pool: "lab", Expires: now}} {
		if _, err := token.MintPool(key, c); !errors.Is(err, token.ErrMalformed) {
			t.Errorf("%+v: %v", c, err)
		}
	}
	if _, err := token.MintPool(key[:31], machine); !errors.Is(err, token.ErrKey) {
		t.Errorf("a key of 31 bytes: %v", err)
	}
}

func TestVerifyPoolDetectsAnyChange(t *testing.T) {
	s := mintPool(t, machine)
	rapid.Check(t, func(t *rapid.T) {
		b := []byte(s)
		i := rapid.IntRange(0, len(b)-1).Draw(t, "position")
		c := rapid.SampledFrom([]byte("ABab01-_.")).Draw(t, "character")
		if b[i] == c {
			t.Skip("unchanged")
		}
		b[i] = c
		if got, err := token.VerifyPool(key, string(b), now); err == nil {
			t.Fatalf("accepted with character %d changed: %+v", i, got)
		}
	})
}

func FuzzVerifyPool(f *testing.F) {
	s, err := token.MintPool(key, machine)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(s)
	f.Add("..")
	f.Fuzz(func(t *testing.T, s2 string) {
		if c, err := token.VerifyPool(key, s2, now); err == nil && !samePool(c, machine) {
			t.Fatalf("%q proves %+v", s2, c)
		}
		if c, err := token.ReadPool(s2); err == nil && c.Pool == "" {
			t.Fatalf("%q read as %+v", s2, c)
		}
	})
}
