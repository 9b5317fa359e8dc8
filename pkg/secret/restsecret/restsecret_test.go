package restsecret_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/tradewind-broker/tradewind/internal/kubetest"
	"github.com/tradewind-broker/tradewind/pkg/secret"
	"github.com/tradewind-broker/tradewind/pkg/secret/restsecret"
)

// described is what is needed of Google's description of Secret Manager: testdata/secretmanager.v1.json is an excerpt
// of the discovery document in google-api-python-client.
type described struct {
	RootURL string
	Access  struct{ HTTPMethod, Path, Name string }
	Schemas map[string]map[string]struct {
		Type, Format string
		Ref          string `json:"$ref"`
	}
}

// manager is Secret Manager, as far as it is described: a request that is not is refused, and its answers have the
// fields that are.
func manager(t *testing.T, sum func([]byte) uint32, kept map[string]string) restsecret.Google {
	t.Helper()
	body, err := os.ReadFile("testdata/secretmanager.v1.json")
	if err != nil {
		t.Fatal(err)
	}
	var d described
	if err := json.Unmarshal(body, &d); err != nil {
		t.Fatal(err)
	}
	if d.RootURL != restsecret.GoogleAPI+"/" {
		t.Errorf("it is at %s", d.RootURL)
	}
	payload := d.Schemas[d.Schemas["AccessSecretVersionResponse"]["payload"].Ref]
	if payload["data"].Format != "byte" || payload["dataCrc32c"].Format != "int64" {
		t.Fatalf("a payload is %v", payload)
	}
	prefix, suffix, _ := strings.Cut(d.Access.Path, "{+name}")
	name := regexp.MustCompile(d.Access.Name)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked := strings.TrimSuffix(strings.TrimPrefix(r.URL.Path, "/"+prefix), suffix)
		value, ok := kept[asked]
		switch {
		case r.Method != d.Access.HTTPMethod || r.URL.Path != "/"+prefix+asked+suffix || !name.MatchString(asked):
			refuse(w, http.StatusNotImplemented, "not described: "+r.URL.Path)
		case !ok:
			refuse(w, http.StatusNotFound, "Secret ["+asked+"] not found or has no versions.")
		case value == "busy":
			refuse(w, http.StatusServiceUnavailable, "The service is currently unavailable.")
		case value == "disabled":
			refuse(w, http.StatusBadRequest, "Secret Version is in DISABLED state.")
		default:
			_ = json.NewEncoder(w).Encode(map[string]any{"name": asked, "payload": map[string]string{
				"data":       base64.StdEncoding.EncodeToString([]byte(value)),
				"dataCrc32c": strconv.FormatUint(uint64(sum([]byte(value))), 10),
			}})
		}
	}))
	t.Cleanup(server.Close)
	return restsecret.Google{Endpoint: server.URL, Client: anybody}
}

func refuse(w http.ResponseWriter, code int, message string) {
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(map[string]any{"error": map[string]any{"code": code, "message": message}})
}

func anybody(context.Context) (*http.Client, error) { return http.DefaultClient, nil }

func castagnoli(b []byte) uint32 { return crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli)) }

func TestGoogleSecretManager(t *testing.T) {
	g := manager(t, castagnoli, map[string]string{
		"projects/p/secrets/hf/versions/latest": "hunter2", "projects/p/secrets/hf/versions/3": "older",
		"projects/p/secrets/off/versions/latest": "disabled", "projects/p/secrets/busy/versions/latest": "busy",
	})
	check(t, g, map[string]string{
		"projects/p/secrets/hf": "hunter2", "projects/p/secrets/hf/versions/3": "older",
		"projects/p/secrets/none":   "!Secret [projects/p/secrets/none/versions/latest] not found",
		"projects/p/secrets/off":    "!DISABLED",
		"projects/p/secrets/busy":   "?currently unavailable",
		"p/hf":                      "!it is to be written gcpsm:projects/PROJECT/secrets/NAME",
		"projects/p/secrets/a/../b": "!it is to be written",
	})
	damaged := manager(t, func([]byte) uint32 { return 7 }, map[string]string{"projects/p/secrets/hf/versions/latest": "x"})
	check(t, damaged, map[string]string{"projects/p/secrets/hf": "?checksum"})
}

// check fetches each name and wants its value, or an error that stays (!) or passes (?).
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
		case err == nil || got != "" || errors.Is(err, secret.ErrReference) != refused || !strings.Contains(err.Error(), words):
			t.Errorf("%s: %q %v, want %s", name, got, err, want)
		}
	}
}

// TestAzureKeyVault is on a server that does what the REST reference of Key Vault 7.4 says of Get Secret.
func TestAzureKeyVault(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Query().Get("api-version") != "7.4":
			refuse(w, http.StatusBadRequest, "api-version must be specified")
		case r.URL.Path == "/team/secrets/hf" || r.URL.Path == "/team/secrets/hf/"+strings.Repeat("0a", 16):
			_, _ = fmt.Fprintf(w, `{"value":"hunter2","id":"https://team.vault.azure.net/secrets/hf/1","attributes":{}}`)
		case strings.HasPrefix(r.URL.Path, "/closed/"):
			refuse(w, http.StatusForbidden, "Caller is not authorized to perform action on resource.")
		default:
			refuse(w, http.StatusNotFound, "A secret with (name/id) none was not found in this key vault.")
		}
	}))
	t.Cleanup(server.Close)
	k := restsecret.KeyVault{Client: anybody, Endpoint: func(vault string) string { return server.URL + "/" + vault }}
	check(t, k, map[string]string{
		"team/hf": "hunter2", "team/hf/" + strings.Repeat("0a", 16): "hunter2",
		"team/none": "!was not found in this key vault", "closed/hf": "!Caller is not authorized",
		"evil.example/hf#": "!it is to be written keyvault:VAULT/NAME", "evil.example/hf": "!it is to be written",
		"team/hf?x": "!it is to be written",
	})
}

// TestKubernetesSecrets is on a real control plane.
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
		"ml/none/token": `!secrets "none" not found`, "ml/hf": "!it is to be written kubernetes:NAMESPACE/NAME/KEY",
		"ml/../x": "!it is to be written",
	})
	check(t, of(true), map[string]string{
		"ml/hf/token": "hunter2", "ml/own/token": "!kubectl label secret -n ml own tradewind.dev/for-jobs=true",
	})
}
