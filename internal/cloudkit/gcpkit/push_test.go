package gcpkit_test

import (
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/tradewind-broker/tradewind/internal/cloud/driver"
	"github.com/tradewind-broker/tradewind/internal/cloud/gcp"
	"github.com/tradewind-broker/tradewind/internal/cloud/push"
	"github.com/tradewind-broker/tradewind/internal/cloudkit"
	"github.com/tradewind-broker/tradewind/internal/cloudkit/gcpkit"
	"github.com/tradewind-broker/tradewind/internal/emulator/gce"
	"github.com/tradewind-broker/tradewind/internal/identity"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
)

const (
	broker  = "https://broker.example"
	account = "tradewind-push@demo.iam.gserviceaccount.com"
)

// google starts a server with the public key of a token signer. It returns the server's URL and the signer.
func google(t *testing.T) (keys string, sign func(jwt.MapClaims) string) {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	number := func(n *big.Int) string { return base64.RawURLEncoding.EncodeToString(n.Bytes()) }
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(map[string]any{"keys": []any{map[string]string{
			"kty": "RSA", "kid": "k", "n": number(key.N), "e": number(big.NewInt(int64(key.E)))}}})
	}))
	t.Cleanup(server.Close)
	return server.URL, func(changed jwt.MapClaims) string {
		claims := jwt.MapClaims{
			"iss": identity.GoogleIssuer, "aud": broker + "/v1/push/gcp", "iat": time.Now().Unix(),
			"exp":   time.Now().Add(time.Hour).Unix(),
			"email": account, "email_verified": true,
		}
		for k, v := range changed {
			claims[k] = v
		}
		token := jwt.NewWithClaims(jwt.SigningMethodRS256, claims)
		token.Header["kid"] = "k"
		text, err := token.SignedString(key)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
}

// pushOf returns the body of a push that contains an audit log entry about a machine.
func pushOf(name, number string) []byte {
	entry := fmt.Sprintf(`{"insertId":"e1","timestamp":"2026-03-01T10:00:00Z","protoPayload":{"serviceName":"compute.googleapis.com",
		"methodName":%q,"resourceName":"projects/demo/zones/us-central1-a/instances/%s"},"resource":{"type":"gce_instance","labels":{"instance_id":%q}}}`,
		gcp.Preempted, name, number)
	body, _ := json.Marshal(map[string]any{"subscription": "s", "message": map[string]any{"messageId": "1", "data": []byte(entry)}})
	return body
}

func TestPushedAcceptsOnlyPushAccount(t *testing.T) {
	keys, sign := google(t)
	emulator, err := gce.New(gce.Config{})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(emulator)
	t.Cleanup(server.Close)
	settings := cloudkit.Settings{Project: "demo", Endpoint: server.URL, Proofs: keys, PushAccount: account}
	o, err := gcpkit.Kit().Open(t.Context(), cloudkit.Request{Settings: settings, Deployment: "tw", PublicURL: broker,
		Agents: driver.Agents{"": strings.Repeat("a", 64)}})
	if err != nil {
		t.Fatal(err)
	}
	launched, err := o.Cloud.Launch(t.Context(), cloud.LaunchSpec{Cluster: "job.0.1", Nodes: 1,
		Offer:     apitypes.Offer{Cloud: "gcp", Region: "us-central1", Zone: "us-central1-a", InstanceType: "n2-standard-2", Spot: true},
		Bootstrap: cloud.Bootstrap{Endpoint: broker, Tokens: []string{"t"}}})
	if err != nil {
		t.Fatal(err)
	}
	id := launched[0].ID
	ours := pushOf(emulator.Bills()[0].Name, id)
	told, err := o.Pushed(t.Context(), sign(nil), ours)
	if n := told.Notice; err != nil || n == nil || n.Cluster != "job.0.1" || n.Machine != id || n.Kind != cloud.Interruption {
		t.Errorf("%v %+v", err, n)
	}
	if told, err := o.Pushed(t.Context(), sign(nil), pushOf("tw-other-0", "7")); err != nil || told != (push.News{}) {
		t.Errorf("of another deployment: %v %v", told, err)
	}
	for name, claims := range map[string]jwt.MapClaims{
		"another account":       {"email": "eve@demo.iam.gserviceaccount.com"},
		"an unverified address": {"email_verified": false},
		"no address":            {"email": ""},
		"another audience":      {"aud": broker},
		"another issuer":        {"iss": "https://eve.example"},
		"expired":               {"exp": time.Now().Add(-time.Hour).Unix()},
	} {
		if _, err := o.Pushed(t.Context(), sign(claims), ours); !errors.Is(err, identity.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := o.Pushed(t.Context(), "nonsense", ours); !errors.Is(err, identity.ErrInvalid) {
		t.Errorf("no token: %v", err)
	}
	if _, err := o.Pushed(t.Context(), sign(nil), []byte("{}")); !errors.Is(err, push.ErrNotice) {
		t.Errorf("not a notice: %v", err)
	}
	settings.PushAccount = ""
	if o, err := gcpkit.Kit().Open(t.Context(), cloudkit.Request{Settings: settings, Deployment: "tw", PublicURL: broker}); err != nil || o.Pushed != nil {
		t.Errorf("without an account pushes are accepted: %v", err)
	}
}

// A push about a file in a bucket needs a token like the others. Only files in the settings' folder may be accepted.
func TestPushedObjectsMustBeInDAGFolder(t *testing.T) {
	keys, sign := google(t)
	settings := cloudkit.Settings{Project: "demo", Endpoint: "http://127.0.0.1:1", Proofs: keys, PushAccount: account, DAGs: "gs://acme-jobs/dags"}
	o, err := gcpkit.Kit().Open(t.Context(), cloudkit.Request{Settings: settings, Deployment: "tw", PublicURL: broker})
	if err != nil {
		t.Fatal(err)
	}
	body := func(bucket, key string) []byte {
		object, err := json.Marshal(map[string]string{"bucket": bucket, "name": key, "generation": "7", "md5Hash": "x", "size": "3"})
		if err != nil {
			t.Fatal(err)
		}
		text, err := json.Marshal(map[string]any{"message": map[string]any{"data": object, "attributes": map[string]string{"eventType": "OBJECT_FINALIZE"}}})
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	told, err := o.Pushed(t.Context(), sign(nil), body("acme-jobs", "dags/a.yaml"))
	if want := (push.Object{Bucket: "gs://acme-jobs", Key: "dags/a.yaml", ETag: "md5:x", Version: "7", Size: 3}); err != nil || told.Object == nil || *told.Object != want {
		t.Errorf("%+v %v", told.Object, err)
	}
	if _, err := o.Pushed(t.Context(), sign(jwt.MapClaims{"aud": "https://eve.example"}), body("acme-jobs", "dags/a.yaml")); !errors.Is(err, identity.ErrInvalid) {
		t.Errorf("a token for another audience: %v", err)
	}
	for _, other := range [][2]string{{"others", "dags/a.yaml"}, {"acme-jobs", "dagsheets/a.yaml"}, {"acme-jobs", "dags/"}, {"acme-jobs", "dags/a.yaml.error.txt"}} {
		if told, err := o.Pushed(t.Context(), sign(nil), body(other[0], other[1])); err != nil || told != (push.News{}) {
			t.Errorf("%v: %+v %v", other, told, err)
		}
	}
	if _, _, err := o.Files.Read(t.Context(), "gs://others", "dags/a.yaml"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("another bucket was read: %v", err)
	}
	if err := o.Files.Remove(t.Context(), "gs://acme-jobs", "elsewhere"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("removed a file outside the folder: %v", err)
	}
	if err := o.Files.Write(t.Context(), "gs://acme-jobs", "elsewhere", nil); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("wrote a file outside the folder: %v", err)
	}
	settings.PushAccount = ""
	if _, err := gcpkit.Kit().Open(t.Context(), cloudkit.Request{Settings: settings, Deployment: "tw", PublicURL: broker}); err == nil || !strings.Contains(err.Error(), "--member") {
		t.Errorf("a bucket without notifications: %v", err)
	}
}
