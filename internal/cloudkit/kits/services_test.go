package kits_test

import (
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/tradewind-broker/tradewind/internal/cloudkit"
	"github.com/tradewind-broker/tradewind/internal/cloudkit/kits"
	"github.com/tradewind-broker/tradewind/internal/emulator"
)

func kit(t *testing.T, name string) cloudkit.Kit {
	t.Helper()
	for _, k := range kits.All() {
		if k.Name == name {
			return k
		}
	}
	t.Fatalf("no kit %s", name)
	return cloudkit.Kit{}
}

// Only the services that the settings name are opened. A service of another cloud, or one without its prerequisites,
// must be refused.
func TestSettingsNameServices(t *testing.T) {
	const role = "arn:aws:iam::123456789012:role/spark"
	for name, c := range map[string]struct {
		cloud string
		s     cloudkit.Settings
		open  string // the opened services
		error string
	}{
		"none":         {cloud: "aws"},
		"EMR":          {cloud: "aws", s: cloudkit.Settings{Services: []string{"emr"}}, open: "emr"},
		"both of AWS":  {cloud: "aws", s: cloudkit.Settings{Services: []string{"emr", "emr-serverless"}, JobRole: role}, open: "emr,emr-serverless"},
		"no job role":  {cloud: "aws", s: cloudkit.Settings{Services: []string{"emr-serverless"}}, error: "--job-role"},
		"other cloud":  {cloud: "aws", s: cloudkit.Settings{Services: []string{"dataproc"}}, error: `aws has no service "dataproc"`},
		"Dataproc":     {cloud: "gcp", s: google("dataproc", "us-central1"), open: "dataproc"},
		"batches":      {cloud: "gcp", s: google("dataproc-serverless", "us-central1"), open: "dataproc-serverless"},
		"no regions":   {cloud: "gcp", s: google("dataproc", ""), error: "--regions"},
		"not any more": {cloud: "lambda", s: cloudkit.Settings{Services: []string{"emr"}}, error: "no services of lambda"},
	} {
		t.Run(name, func(t *testing.T) {
			k := kit(t, c.cloud)
			var err error
			if c.cloud != "lambda" { // Lambda's cloud would need a key first
				err = k.Ready(c.s, os.Getenv)
			}
			var opened *cloudkit.Services
			if err == nil {
				opened, err = k.OpenServices(t.Context(), cloudkit.Request{Settings: c.s, Deployment: "test"})
			}
			if c.error != "" {
				if err == nil || !strings.Contains(err.Error(), c.error) {
					t.Errorf("error %v, want %q", err, c.error)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			names := slices.Sorted(maps.Keys(opened.Of))
			if got := strings.Join(names, ","); got != c.open {
				t.Errorf("opened %q, want %q", got, c.open)
			}
			for _, n := range names {
				if opened.Of[n].Name() != n {
					t.Errorf("%s is %s", n, opened.Of[n].Name())
				}
			}
		})
	}
}

func google(service, region string) cloudkit.Settings {
	s := cloudkit.Settings{Project: "demo", Services: []string{service}, Endpoint: "http://127.0.0.1:1"}
	if region != "" {
		s.Regions = []string{region}
	}
	return s
}

// The check must name what is missing: a bucket, or an API that does not answer.
func TestCheckOfServicesNamesWhatIsMissing(t *testing.T) {
	for _, kv := range emulator.Env(emulator.Moto(t)) {
		name, value, _ := strings.Cut(kv, "=")
		t.Setenv(name, value)
	}
	t.Setenv("AWS_MAX_ATTEMPTS", "1")
	lacks := func(s cloudkit.Settings) string {
		opened, err := kit(t, "aws").OpenServices(t.Context(), cloudkit.Request{Settings: s, Deployment: "test"})
		if err != nil {
			t.Fatal(err)
		}
		var all []string
		for _, l := range opened.Lacks(t.Context()) {
			if l.Fatal {
				t.Errorf("machines can still be bought: %+v", l)
			}
			all = append(all, l.What)
		}
		return strings.Join(all, "; ")
	}
	s := cloudkit.Settings{Services: []string{"emr"}, Stores: map[string]string{"us-east-1": "b"}}
	if got := lacks(s); got != "" {
		t.Errorf("nothing is missing, but %s", got)
	}
	s.Stores = nil
	if got := lacks(s); !strings.Contains(got, "only buckets of their cloud") {
		t.Errorf("without a bucket: %q", got)
	}
	t.Setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
	if got := lacks(s); !strings.Contains(got, "emr: ") {
		t.Errorf("without the API: %q", got)
	}
}
