package secret_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/tradewind-broker/tradewind/internal/secret"
)

type remoteKept map[string]string

func (k remoteKept) Fetch(_ context.Context, name string) (string, error) {
	switch v, ok := k[name]; {
	case v == "busy":
		return "", errors.New("try again")
	case !ok:
		return "", fmt.Errorf("%w: no such secret", secret.ErrUnavailable)
	default:
		return v, nil
	}
}

// A remote secret must arrive unchanged. Final errors must stay final, with the same message, and temporary errors
// temporary. Only configured names may be returned, in any version.
func TestFetchThroughCloudFunction(t *testing.T) {
	server := secret.Server{Sources: map[string]secret.Source{secret.GCPSM: secret.Restricted{
		Scheme: secret.GCPSM, Names: []string{"p/hf", "p/team-*"}, Source: remoteKept{
			"projects/p/secrets/hf": "hunter2", "projects/p/secrets/team-a/versions/3": "older", "projects/p/secrets/own": "closed",
			"projects/p/secrets/team-busy": "busy", "projects/p2/secrets/hf": "closed",
		},
	}}}
	c := secret.Remote(secret.GCPSM, server.Serve)
	for name, want := range map[string]string{
		"projects/p/secrets/hf": "hunter2", "projects/p/secrets/team-a/versions/3": "older",
		"projects/p/secrets/own":       "!secret: not available: this broker reads only p/hf, p/team-*",
		"projects/p2/secrets/hf":       "!secret: not available: this broker reads only p/hf, p/team-*",
		"projects/p/secrets/team-none": "!secret: not available: no such secret",
		"projects/p/secrets/team-busy": "?try again", "hf": "!secret: not available: no such secret",
	} {
		got, err := c.Fetch(t.Context(), name)
		words, lasts := strings.CutPrefix(want, "!")
		words, passes := strings.CutPrefix(words, "?")
		switch {
		case !lasts && !passes:
			if got != want || err != nil {
				t.Errorf("%s: %q, %v", name, got, err)
			}
		case got != "" || err == nil || err.Error() != words || errors.Is(err, secret.ErrUnavailable) != lasts:
			t.Errorf("%s: %q, %v, want %s", name, got, err, want)
		}
	}
	if _, err := secret.Remote(secret.KeyVault, server.Serve).Fetch(t.Context(), "v/n"); !errors.Is(err,
		secret.ErrUnavailable) {
		t.Errorf("of another cloud: %v", err)
	}
}

// An invalid answer may contain the secret. No error may show it.
func TestInvalidAnswerIsNotShown(t *testing.T) {
	c := secret.Remote(secret.GCPSM, func(context.Context, []byte) ([]byte, error) { return []byte("hunter2"), nil })
	if got, err := c.Fetch(t.Context(), "x"); err == nil || got != "" || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("%q, %v", got, err)
	}
	for message, ours := range map[string]bool{`{"secret":"gcpsm","name":"x"}`: true, `{"grant":"sign"}`: false, `{"op":"launch"}`: false, `x`: false} {
		if secret.IsCall([]byte(message)) != ours {
			t.Errorf("%s: %v", message, !ours)
		}
	}
}

func TestCheckNames(t *testing.T) {
	for name, good := range map[string]bool{"p/hf": true, "p/team-*": true, "p/*": true, "hf": false, "*/hf": false, "p/": false, "p/a*b": false, "p/a/b": false} {
		if err := secret.CheckNames([]string{name}); good != (err == nil) {
			t.Errorf("%s: %v", name, err)
		}
	}
	vault := secret.Restricted{Scheme: secret.KeyVault, Names: []string{"Team/hf"},
		Source: remoteKept{"team/HF": "hunter2"}}
	if got, err := vault.Fetch(t.Context(), "team/HF"); err != nil || got != "hunter2" { // names in Azure are case-insensitive
		t.Errorf("%q, %v", got, err)
	}
}
