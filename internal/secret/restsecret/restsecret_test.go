package restsecret_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/tradewind-broker/tradewind/internal/emulator/vault"
	"github.com/tradewind-broker/tradewind/internal/kubetest"
	"github.com/tradewind-broker/tradewind/internal/secret"
	"github.com/tradewind-broker/tradewind/internal/secret/restsecret"
)

// manager is a Secret Manager with some secrets.
func manager(t *testing.T, kept vault.Secrets, sum func([]byte) uint32) restsecret.Google {
	t.Helper()
	g, err := vault.NewGoogle(kept)
	if err != nil {
		t.Fatal(err)
	}
	if sum != nil {
		g.Sum = sum
	}
	server := httptest.NewServer(g)
	t.Cleanup(server.Close)
	return restsecret.Google{Endpoint: server.URL, Client: anybody}
}

func anybody(context.Context) (*http.Client, error) { return http.DefaultClient, nil }

func TestGoogleSecretManager(t *testing.T) {
	g := manager(t, vault.Secrets{
		"projects/p/secrets/hf/versions/latest":   {Value: "hunter2"},
		"projects/p/secrets/hf/versions/3":        {Value: "older"},
		"projects/p/secrets/off/versions/latest":  {Status: http.StatusBadRequest, Message: "Secret Version is in DISABLED state."},
		"projects/p/secrets/busy/versions/latest": {Status: http.StatusServiceUnavailable, Message: "The service is currently unavailable."},
	}, nil)
	check(t, g, map[string]string{
		"projects/p/secrets/hf": "hunter2", "projects/p/secrets/hf/versions/3": "older",
		"projects/p/secrets/none":   "!Secret [projects/p/secrets/none/versions/latest] not found",
		"projects/p/secrets/off":    "!DISABLED",
		"projects/p/secrets/busy":   "?currently unavailable",
		"p/hf":                      "!the format is gcpsm:projects/PROJECT/secrets/NAME",
		"projects/p/secrets/a/../b": "!the format is",
	})
	damaged := manager(t, vault.Secrets{"projects/p/secrets/hf/versions/latest": {Value: "x"}}, func([]byte) uint32 { return 7 })
	check(t, damaged, map[string]string{"projects/p/secrets/hf": "?checksum"})
}

// check fetches each name. Its value must be the expected one; "!" means a final error and "?" a temporary one.
func check(t *testing.T, source secret.Source, names map[string]string) {
	t.Helper()
	for name, want := range names {
		got, err := source.Fetch(t.Context(), name)
		words, refused := strings.CutPrefix(want, "!")
		words, passes := strings.CutPrefix(words, "?")
		switch {
		case !refused && !passes:
			if got != want || err != nil {
				t.Errorf("%s: %q %v, want %q", name, got, err, want)
			}
		case err == nil || got != "" || errors.Is(err, secret.ErrUnavailable) != refused || !strings.Contains(err.Error(), words):
			t.Errorf("%s: %q %v, want %s", name, got, err, want)
		}
	}
}

// bearer sends a token.
type bearer string

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+string(b))
	return http.DefaultTransport.RoundTrip(r)
}

func TestAzureKeyVault(t *testing.T) {
	version := strings.Repeat("0a", 16)
	server := httptest.NewServer(vault.NewAzure(vault.Secrets{
		"team/hf": {Value: "hunter2"}, "team/hf/" + version: {Value: "older"},
		"closed/hf": {Status: http.StatusForbidden, Message: "Caller is not authorized to perform action on resource."},
	}, "mine"))
	t.Cleanup(server.Close)
	as := func(token string) restsecret.KeyVault {
		return restsecret.KeyVault{
			Client:   func(context.Context) (*http.Client, error) { return &http.Client{Transport: bearer(token)}, nil },
			Endpoint: func(vault string) string { return server.URL + "/" + vault },
		}
	}
	check(t, as("mine"), map[string]string{
		"team/hf": "hunter2", "team/hf/" + version: "older",
		"team/none": "!was not found in this key vault", "closed/hf": "!Caller is not authorized",
		"evil.example/hf#": "!the format is keyvault:VAULT/NAME", "evil.example/hf": "!the format is",
		"team/hf?x": "!the format is",
	})
	check(t, as("other"), map[string]string{"team/hf": "!not authorized"})
}

// TestKubernetesSecrets reads secrets from a real control plane.
func TestKubernetesSecrets(t *testing.T) {
	c := kubetest.New(t, "secrets")
	if err := c.Namespace(t.Context(), "ml", "baseline"); err != nil {
		t.Fatal(err)
	}
	for name, labels := range map[string]map[string]string{"own": nil, "hf": {restsecret.ForJobs: "true"}} {
		_, err := c.Client.CoreV1().Secrets("ml").Create(t.Context(), &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}, StringData: map[string]string{"token": "hunter2"},
		}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
	}
	client, err := rest.HTTPClientFor(c.Config)
	if err != nil {
		t.Fatal(err)
	}
	of := func(labelled bool) restsecret.Kubernetes {
		return restsecret.Kubernetes{Cluster: func(context.Context) (string, *http.Client, bool, error) {
			return c.Config.Host, client, labelled, nil
		}}
	}
	check(t, of(false), map[string]string{
		"ml/hf/token": "hunter2", "ml/own/token": "hunter2", "ml/hf/none": `!no key "none": it has token`,
		"ml/none/token": `!secrets "none" not found`, "ml/hf": "!the format is kubernetes:NAMESPACE/NAME/KEY",
		"ml/../x": "!the format is",
	})
	check(t, of(true), map[string]string{
		"ml/hf/token": "hunter2", "ml/own/token": "!kubectl label secret -n ml own tradewind.dev/for-jobs=true",
	})
}
