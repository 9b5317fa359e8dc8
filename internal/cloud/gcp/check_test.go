package gcp_test

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/oauth2"
	"google.golang.org/api/option"

	"github.com/tradewind-broker/tradewind/internal/cloud/driver"
	"github.com/tradewind-broker/tradewind/internal/cloud/gcp"
	"github.com/tradewind-broker/tradewind/internal/emulator/gce"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
)

func (w *world) check() driver.Report {
	w.Helper()
	r, err := w.gcp.Check(w.Context())
	if err != nil {
		w.Fatal(err)
	}
	return r
}

func TestCheckReportsIdentityAndQuotas(t *testing.T) {
	w := newWorld(t, func(c *gcp.Config) { c.Regions = []string{"us-central1", "us-west1"} })
	w.gce.SetQuota("us-west1", "CPUS", 24)
	w.launch(spec("a", 2, onDemand))
	r := w.check()
	if r.Identity != "broker@demo.iam.gserviceaccount.com" || r.Account != "demo" || len(r.Missing) != 0 ||
		!slices.Equal(r.Regions, []string{"us-central1", "us-west1"}) {
		t.Errorf("%+v", r)
	}
	for _, want := range []driver.Quota{
		{Name: "CPUS", Region: "us-west1", Limit: 24}, {Name: "CPUS", Region: "us-central1", Limit: 10_000, Used: 4},
		{Name: "GPUS_ALL_REGIONS", Limit: 10_000},
	} {
		if !slices.Contains(r.Quotas, want) {
			t.Errorf("no %+v in %+v", want, r.Quotas)
		}
	}
}

// key generates a service account's key file, and returns it as an option of the client.
func key(t *testing.T, url string) option.ClientOption {
	t.Helper()
	private, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	file, err := json.Marshal(map[string]string{
		"type": "service_account", "project_id": "demo", "private_key_id": "1", "client_id": "2",
		"private_key":  string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})),
		"client_email": "broker@demo.iam.gserviceaccount.com", "token_uri": url + "/token",
	})
	if err != nil {
		t.Fatal(err)
	}
	return option.WithAuthCredentialsJSON(option.ServiceAccount, file)
}

// expired returns a person's credentials whose refresh token has expired.
func expired(t *testing.T) option.ClientOption {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusBadRequest)
		_, _ = io.WriteString(w, `{"error": "invalid_grant", "error_description": "Token has been expired or revoked."}`)
	}))
	t.Cleanup(server.Close)
	o := &oauth2.Config{ClientID: "id", Endpoint: oauth2.Endpoint{TokenURL: server.URL}}
	return option.WithTokenSource(o.TokenSource(t.Context(), &oauth2.Token{RefreshToken: "old"}))
}

func TestCheckReportsWhatIsMissing(t *testing.T) {
	for name, c := range map[string]struct {
		spoil       func(*world)
		what, mend  string
		also        int // number of further missing permissions
		fatal, auth bool
	}{
		"a project that is not there": {func(w *world) {
			w.gcp = w.another(func(c *gcp.Config) { c.Project = "nope" })
		}, "'projects/nope' was not found", "gcloud projects list", 0, true, true},
		"no right at all": {func(w *world) { w.gce.Deny("compute.projects.get", true) },
			"Required 'compute.projects.get' permission", "--role roles/compute.instanceAdmin.v1", 0, true, false},
		"a right that is missing": {func(w *world) { w.gce.Deny("compute.instances.create", true) },
			"broker@demo.iam.gserviceaccount.com lacks compute.instances.create in project demo",
			"gcloud projects add-iam-policy-binding demo --member serviceAccount:broker@demo.iam.gserviceaccount.com", 0, true, true},
		"an API that is off": {func(w *world) { w.gce.Disable("compute.googleapis.com", true) },
			"Compute Engine API has not been used in project demo", "gcloud services enable compute.googleapis.com --project demo", 0, true, true},
		"a region that is not open": {func(w *world) {
			w.gcp = w.another(func(c *gcp.Config) { c.Regions = []string{"us-central1", "moon-east1"} })
		}, "region moon-east1 is not open", "gcloud compute regions list", 0, false, false},
		"no region that is open": {func(w *world) {
			w.gcp = w.another(func(c *gcp.Config) { c.Regions = []string{"moon-east1"} })
		}, "region moon-east1 is not open", "gcloud compute regions list", 0, true, false},
		"a region that is down": {func(w *world) {
			w.gce.Down("us-west1")
			w.gcp = w.another(func(c *gcp.Config) { c.Regions = []string{"us-central1", "us-west1"} })
		}, "region us-west1 is not open", "gcloud compute regions list", 0, false, false},
		"no network": {func(w *world) {
			w.gcp = w.another(func(c *gcp.Config) { c.Network = "mine" })
		}, "network mine is not in project demo", "gcloud compute networks create mine", 0, true, false},
		"no service account": {func(w *world) {
			w.gcp = w.another(func(c *gcp.Config) { c.ServiceAccount = "" })
		}, "no service account", "gcloud iam service-accounts create", 0, false, false},
		"no right to the machines' account": {func(w *world) { w.gce.Deny("iam.serviceAccounts.actAs", true) },
			"broker@demo.iam.gserviceaccount.com lacks iam.serviceAccounts.actAs on machines@demo.iam.gserviceaccount.com",
			"gcloud iam service-accounts add-iam-policy-binding", 0, true, true},
		"no quota project": {func(w *world) { w.gce.Users(true) },
			"charged to 764086051850", "gcloud auth application-default set-quota-project demo", 0, false, false},
		"the API of rights is off": {func(w *world) { w.gce.Disable("cloudresourcemanager.googleapis.com", true) },
			"cloudresourcemanager.googleapis.com", "gcloud services enable cloudresourcemanager.googleapis.com --project demo", 0, false, false},
		"no GPUs": {func(w *world) { w.gce.SetQuota("", "GPUS_ALL_REGIONS", 0) },
			"GPUS_ALL_REGIONS is 0", "gcloud beta quotas preferences create --service compute.googleapis.com --project demo " +
				"--preferred-value 8 --quota-id GPUS-ALL-REGIONS-per-project", 0, false, false},
		"no processors": {func(w *world) { w.gce.SetQuota("us-central1", "CPUS", 0) }, "CPUS is 0 in us-central1",
			"--quota-id CPUS-per-project-region --dimensions region=us-central1", 0, false, false},
		"no billing account": {func(w *world) {
			w.gce.Refuse("compute.projects.get", gce.Fault{Code: 403, Reason: "BILLING_DISABLED",
				Message: "This API method requires billing to be enabled. Please enable billing on project #demo."})
		}, "requires billing to be enabled", "gcloud billing projects link demo --billing-account ACCOUNT", 0, true, false},
		"a clock ten minutes behind": {func(w *world) {
			w.gce.Skew(10 * time.Minute)
			w.gcp = w.another(func(cfg *gcp.Config) { cfg.Client = []option.ClientOption{key(w.T, w.url)} })
		}, "clock differs from Google's: Invalid JWT: Token must be a short-lived token", "timedatectl", 0, true, true},
		"an expired login": {func(w *world) {
			w.gcp = w.another(func(cfg *gcp.Config) { cfg.Client = []option.ClientOption{expired(w.T)} })
		}, "Token has been expired or revoked.", "gcloud auth application-default login", 0, true, true},
		"no credentials": {func(w *world) {
			t.Setenv("GOOGLE_APPLICATION_CREDENTIALS", "/nowhere.json")
			w.gcp = w.another(func(cfg *gcp.Config) { cfg.Client = nil })
		}, "/nowhere.json", "gcloud auth application-default login", 0, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, nil)
			c.spoil(w)
			r := w.check()
			if len(r.Missing) != 1+c.also {
				t.Fatalf("%+v", r.Missing)
			}
			l := r.Missing[0]
			if !strings.Contains(l.What, c.what) || !strings.Contains(l.Mend, c.mend) || l.Fatal != c.fatal ||
				strings.Contains(l.What+l.Mend, "\n") {
				t.Errorf("%+v", l)
			}
			// A launch returns an error of the same kind, so that the job is planned in another cloud.
			if _, err := w.gcp.Launch(t.Context(), spec("a", 1, onDemand)); c.auth && cloud.KindOf(err) != cloud.Auth {
				t.Errorf("launch: %v", err)
			}
		})
	}
}

// With a quota project, a user's calls must be charged to the project of the machines.
func TestUserCallsAreChargedToQuotaProject(t *testing.T) {
	w := newWorld(t, func(c *gcp.Config) {
		c.Client = []option.ClientOption{
			option.WithTokenSource(oauth2.StaticTokenSource(&oauth2.Token{AccessToken: "user"})), option.WithQuotaProject(c.Project),
		}
	})
	w.gce.Users(true)
	if r := w.check(); len(r.Missing) > 0 {
		t.Errorf("%+v", r.Missing)
	}
}

func TestCheckEndsWithItsContext(t *testing.T) {
	w := newWorld(t, nil)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := w.gcp.Check(ctx); err == nil {
		t.Error("the check succeeded")
	}
}
