package token_test

import (
	"bytes"
	"encoding/base64"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"pgregory.net/rapid"

	"github.com/tradewind-broker/tradewind/internal/agent/token"
	"github.com/tradewind-broker/tradewind/internal/agent/wire"
)

var (
	key    = bytes.Repeat([]byte("k"), token.MinKeyBytes)
	now    = time.Date(2026, 5, 20, 12, 0, 0, 0, time.UTC)
	claims = wire.Claims{Job: "j-1", Cluster: "c-1", Rank: 3, Issued: now, Expires: now.Add(time.Hour)}
)

func mint(t *testing.T, c wire.Claims) string {
	t.Helper()
	s, err := token.Mint(key, c)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func same(a, b wire.Claims) bool {
	return a.Job == b.Job && a.Cluster == b.Cluster && a.Rank == b.Rank && a.Boot == b.Boot && a.Ranks == b.Ranks && a.Expires.Equal(b.Expires) && a.Issued.Equal(b.Issued)
}

func TestMintVerifyRoundTrip(t *testing.T) {
	s := mint(t, claims)
	got, err := token.Verify(key, s, now.Add(59*time.Minute))
	if err != nil || !same(got, claims) {
		t.Errorf("Verify = %+v, %v; want %+v", got, err, claims)
	}
	if got, err := token.Read(s); err != nil || !same(got, claims) {
		t.Errorf("Read = %+v, %v; want %+v", got, err, claims)
	}
	all := claims
	all.Boot, all.Ranks = true, 1000
	if got, err := token.Verify(key, mint(t, all), now); err != nil || !same(got, all) {
		t.Errorf("Verify = %+v, %v; want %+v", got, err, all)
	}
}

func TestTokenExpires(t *testing.T) {
	_, err := token.Verify(key, mint(t, claims), claims.Expires.Add(token.Skew+time.Second))
	if !errors.Is(err, token.ErrExpired) {
		t.Errorf("after its time: %v", err)
	}
}

func TestVerifyRejectsForgeries(t *testing.T) {
	sign := func(m jwt.SigningMethod, k any, c jwt.MapClaims) string {
		s, err := jwt.NewWithClaims(m, c).SignedString(k)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	good := func() jwt.MapClaims {
		return jwt.MapClaims{"cluster": "c-1", "rank": 0, "aud": "tradewind-agent", "exp": now.Add(time.Hour).Unix()}
	}
	with := func(k string, v any) jwt.MapClaims { c := good(); c[k] = v; return c }
	without := func(k string) jwt.MapClaims { c := good(); delete(c, k); return c }
	hs := jwt.SigningMethodHS256
	if _, err := token.Verify(key, sign(hs, key, good()), now); err != nil {
		t.Fatalf("the unmodified token is not valid: %v", err)
	}
	for name, tc := range map[string]struct {
		token string
		want  error
	}{
		"another key":           {sign(hs, bytes.Repeat([]byte("x"), 32), good()), token.ErrForged},
		"no algorithm":          {sign(jwt.SigningMethodNone, jwt.UnsafeAllowNoneSignatureType, good()), token.ErrForged},
		"another HMAC":          {sign(jwt.SigningMethodHS512, key, good()), token.ErrForged},
		"another audience":      {sign(hs, key, with("aud", "someone-else")), token.ErrForged},
		"issued in the future":  {sign(hs, key, with("iat", now.Add(time.Hour).Unix())), token.ErrForged},
		"expired, wrong key":    {sign(hs, bytes.Repeat([]byte("x"), 32), with("exp", 1)), token.ErrForged},
		"no audience":           {sign(hs, key, without("aud")), token.ErrMalformed},
		"no time to expire":     {sign(hs, key, without("exp")), token.ErrMalformed},
		"no cluster":            {sign(hs, key, without("cluster")), token.ErrMalformed},
		"negative rank":         {sign(hs, key, with("rank", -1)), token.ErrMalformed},
		"rank that is a string": {sign(hs, key, with("rank", "0")), token.ErrMalformed},
		"empty":                 {"", token.ErrMalformed},
		"two parts":             {"a.b", token.ErrMalformed},
		"megabytes":             {strings.Repeat("a", 1<<20), token.ErrMalformed},
	} {
		if _, err := token.Verify(key, tc.token, now); !errors.Is(err, tc.want) {
			t.Errorf("%s: %v, want %v", name, err, tc.want)
		}
	}
}

func TestVerifyDetectsAnyChange(t *testing.T) {
	s := mint(t, claims)
	rapid.Check(t, func(t *rapid.T) {
		b := []byte(s)
		i := rapid.IntRange(0, len(b)-1).Draw(t, "position")
		c := rapid.SampledFrom([]byte("ABab01-_.")).Draw(t, "character")
		if b[i] == c {
			t.Skip("unchanged")
		}
		b[i] = c
		if got, err := token.Verify(key, string(b), now); err == nil {
			t.Fatalf("accepted with character %d changed: %+v", i, got)
		}
	})
}

func TestMintRejectsWeakKeysAndEmptyClaims(t *testing.T) {
	if _, err := token.Mint(key[:31], claims); !errors.Is(err, token.ErrKey) {
		t.Errorf("a key of 31 bytes: %v", err)
	}
	if _, err := token.Verify(nil, mint(t, claims), now); !errors.Is(err, token.ErrKey) {
		t.Errorf("no key: %v", err)
	}
	for _, c := range []wire.Claims{{}, {Cluster: "c"}, {Cluster: "c", Rank: -1, Expires: now},
		{Cluster: "c", Ranks: 2, Expires: now}} {
		if _, err := token.Mint(key, c); !errors.Is(err, token.ErrMalformed) {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

func FuzzVerify(f *testing.F) {
	s, err := token.Mint(key, claims)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(s)
	f.Add("..")
	f.Add(base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"none"}`)) + "." + base64.RawURLEncoding.EncodeToString([]byte(`{}`)) + ".")
	f.Fuzz(func(t *testing.T, s2 string) {
		if c, err := token.Verify(key, s2, now); err == nil && !same(c, claims) {
			t.Fatalf("%q proves %+v", s2, c)
		}
		if c, err := token.Read(s2); err == nil && c.Cluster == "" {
			t.Fatalf("%q read as %+v", s2, c)
		}
	})
}
