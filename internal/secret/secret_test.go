package secret_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/tradewind-broker/tradewind/internal/secret"
)

// kept is a source that has its secrets in a map.
type kept map[string]string

func (k kept) Fetch(_ context.Context, name string) (string, error) {
	if v, ok := k[name]; ok {
		return v, nil
	}
	return "", fmt.Errorf("%w: no such parameter", secret.ErrUnavailable)
}

func vault(keys ...string) *secret.Vault {
	return &secret.Vault{Keys: func() (out [][]byte, err error) {
		for _, k := range keys {
			out = append(out, bytes.Repeat([]byte(k), 32))
		}
		return out, nil
	}, Sources: map[string]secret.Source{secret.SSM: kept{"/team/hf": "kept there"}}}
}

func TestSealedSecretsOpenOnlyForTheirJob(t *testing.T) {
	ctx := t.Context()
	v := vault("k")
	sealed, err := v.Seal(ctx, "job-1", map[string]string{"TOKEN": "hunter2", "HF": "ssm:/team/hf", "OTHER": "x"})
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(sealed, []byte("hunter2")) || bytes.Contains(sealed, []byte("TOKEN")) {
		t.Error("it is not encrypted")
	}
	got, err := v.Open(ctx, "job-1", sealed, []string{"HF", "TOKEN"})
	if err != nil || len(got) != 2 || got["TOKEN"] != "hunter2" || got["HF"] != "kept there" {
		t.Errorf("%v %v", got, err)
	}
	if _, err := v.Open(ctx, "job-2", sealed, []string{"TOKEN"}); !errors.Is(err, secret.ErrDecrypt) {
		t.Errorf("another job can decrypt it: %v", err)
	}
	if _, err := vault("n").Open(ctx, "job-1", sealed, []string{"TOKEN"}); !errors.Is(err, secret.ErrDecrypt) {
		t.Errorf("another key can decrypt it: %v", err)
	}
	if got, err := vault("n", "k").Open(ctx, "job-1", sealed, []string{"TOKEN"}); err != nil || got["TOKEN"] != "hunter2" {
		t.Errorf("an older key cannot decrypt it: %v", err)
	}
	sealed[len(sealed)-1] ^= 1
	if _, err := v.Open(ctx, "job-1", sealed, []string{"TOKEN"}); !errors.Is(err, secret.ErrDecrypt) {
		t.Errorf("it can be decrypted after a change: %v", err)
	}
}

func TestSealRejectsBadReferenceByName(t *testing.T) {
	v := vault("k")
	for value, want := range map[string]string{
		"ssm:/team/none":       "A: ssm:/team/none: secret: not available: no such parameter",
		"secretsmanager:thing": "A: secret: not available: this broker does not read secretsmanager",
	} {
		_, err := v.Seal(t.Context(), "job", map[string]string{"A": value, "B": "hunter2"})
		var refused *secret.Unavailable
		if !errors.As(err, &refused) || !errors.Is(err, secret.ErrUnavailable) || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
	_, err := v.Seal(t.Context(), "job", map[string]string{"A": strings.Repeat("x", secret.MaxBytes)})
	if !errors.Is(err, secret.ErrLarge) {
		t.Errorf("%v", err)
	}
}

func TestReferenceRecognition(t *testing.T) {
	for value, want := range map[string]bool{
		"ssm:/a/b": true, "ssm:/a:3": true, "secretsmanager:team/hf": true, "ssm:a": true, "ssm:": false,
		"ssm:/a b": false, "gcpsm:projects/p/secrets/s": true, "keyvault:v/n": true, "kubernetes:a/b/c": true, "gcpsm:projects": true,
		"kubernetes:hunter2": true, "keyvault: /x": false, "hunter2": false, "https://x": false, "SSM:/a": false, "": false,
	} {
		if _, _, got := secret.Reference(value); got != want {
			t.Errorf("%q: %v", value, got)
		}
	}
}

// Any values must be the same after sealing and opening, and no error may show them.
func TestSealOpenRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.MapOf(rapid.StringMatching(`[A-Z]{1,5}`), rapid.StringMatching(`(?s).{1,30}`)).Draw(t, "values")
		var names []string
		for name, value := range values {
			if _, _, ok := secret.Reference(value); ok {
				t.Skip("kept elsewhere")
			}
			names = append(names, name)
		}
		v := vault("k")
		sealed, err := v.Seal(t.Context(), "job", values)
		if err != nil {
			t.Fatal(err)
		}
		got, err := v.Open(t.Context(), "job", sealed, names)
		if err != nil || len(got) != len(values) {
			t.Fatal(err)
		}
		for name, value := range values {
			if got[name] != value {
				t.Fatalf("%s: %q, was %q", name, got[name], value)
			}
		}
	})
}
