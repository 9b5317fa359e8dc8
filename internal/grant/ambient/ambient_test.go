package ambient

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/pkg/grant"
)

// alone hides the credentials of the test's environment.
func alone(t *testing.T) {
	t.Helper()
	home := t.TempDir()
	for name, value := range map[string]string{
		"HOME": home, "AWS_EC2_METADATA_DISABLED": "true", "AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": "",
		"AWS_SESSION_TOKEN": "", "AWS_PROFILE": "", "AWS_REGION": "", "AWS_ENDPOINT_URL": "http://127.0.0.1:1",
		"AWS_CONFIG_FILE": home + "/none", "AWS_SHARED_CREDENTIALS_FILE": home + "/none",
		"GOOGLE_APPLICATION_CREDENTIALS": "", "AZURE_STORAGE_ACCOUNT": "", "AZURE_STORAGE_KEY": "",
	} {
		t.Setenv(name, value)
	}
}

func sign(t *testing.T, uri string) (grant.Grant, error) {
	t.Helper()
	grants, err := Stores().Sign(t.Context(), grant.Want{Op: grant.Get, URI: uri, For: time.Minute})
	if err != nil {
		return grant.Grant{}, err
	}
	return grants[0], nil
}

func TestSignWithoutCredentialsNamesWhatIsMissing(t *testing.T) {
	alone(t)
	t.Setenv("GOOGLE_APPLICATION_CREDENTIALS", filepath.Join(t.TempDir(), "user.json"))
	user := `{"type":"authorized_user","client_id":"i","client_secret":"s","refresh_token":"r"}`
	if err := os.WriteFile(os.Getenv("GOOGLE_APPLICATION_CREDENTIALS"), []byte(user), 0o600); err != nil {
		t.Fatal(err)
	}
	for uri, words := range map[string]string{
		"s3://b/x": "", "gs://b/x": "GOOGLE_APPLICATION_CREDENTIALS", "azblob://c/x": "AZURE_STORAGE_ACCOUNT",
	} {
		if g, err := sign(t, uri); !errors.Is(err, grant.ErrCredentials) || !strings.Contains(err.Error(), words) {
			t.Errorf("%s: %v, %v", uri, g, err)
		}
	}
}

// A job file mounts or creates buckets, and there are no credentials for them. This is checked at submission, and
// must not look like a temporary error.
func TestBucketsNeedCredentials(t *testing.T) {
	alone(t)
	stores := Stores()
	if _, err := stores.List(t.Context(), "s3://bucket/x/", ""); !errors.Is(err, grant.ErrCredentials) {
		t.Error(err)
	}
	if _, err := grant.Lend(t.Context(), stores, grant.Loan{Prefix: "s3://bucket/x/", For: time.Minute}); !errors.Is(
		err, grant.ErrCredentials) {
		t.Error(err)
	}
}

func TestEnvironmentCredentialsSign(t *testing.T) {
	alone(t)
	t.Setenv("AWS_ACCESS_KEY_ID", "AKIA")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	t.Setenv("AZURE_STORAGE_ACCOUNT", "account")
	t.Setenv("AZURE_STORAGE_KEY", base64.StdEncoding.EncodeToString([]byte("secret")))
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	file, err := json.Marshal(map[string]string{
		"type": "service_account", "client_email": "broker@p.iam.gserviceaccount.com", "token_uri": "http://127.0.0.1:1",
		"private_key": string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("GOOGLE_APPLICATION_CREDENTIALS", filepath.Join(t.TempDir(), "key.json"))
	if err := os.WriteFile(os.Getenv("GOOGLE_APPLICATION_CREDENTIALS"), file, 0o600); err != nil {
		t.Fatal(err)
	}
	for uri, want := range map[string]string{
		"s3://b/x": "http://127.0.0.1:1/b/x?", "gs://b/x": "https://storage.googleapis.com/b/x?",
		"azblob://c/x": "https://account.blob.core.windows.net/c/x?",
	} {
		if g, err := sign(t, uri); err != nil || !strings.HasPrefix(g.URL, want) {
			t.Errorf("%s: %v, %v", uri, g, err)
		}
	}
}
