package cli

import (
	"context"
	"maps"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/tradewind-broker/tradewind/internal/cli/clouds"
	"github.com/tradewind-broker/tradewind/internal/cloudkit"
	"github.com/tradewind-broker/tradewind/internal/cloudkit/kits"
	"github.com/tradewind-broker/tradewind/internal/emulator/arm"
	"github.com/tradewind-broker/tradewind/internal/emulator/gce"
)

// TestCloudAddForFunctions: for a deployment on AWS, `cloud add` sets up a cloud once and prints the settings as a flag
// of `deploy aws`. This computer does not buy there. `cloud remove` removes the setup.
func TestCloudAddForFunctions(t *testing.T) {
	google, err := gce.New(gce.Config{})
	if err != nil {
		t.Fatal(err)
	}
	endpoints := map[string]string{}
	for name, server := range map[string]*httptest.Server{
		"gcp": httptest.NewServer(google), "azure": httptest.NewServer(arm.New(arm.Config{Group: "other"})),
	} {
		t.Cleanup(server.Close)
		endpoints[name] = server.URL
	}
	p := newProgram(t)
	p.clouds.Kits = nil
	for _, k := range kits.All() {
		if at, make, open := endpoints[k.Name], k.Setup, k.Open; at != "" {
			k.Setup = func(ctx context.Context, r cloudkit.Request) (cloudkit.Setup, error) {
				r.Settings.Endpoint = at
				return make(ctx, r)
			}
			k.Open = func(ctx context.Context, r cloudkit.Request) (*cloudkit.Opened, error) {
				r.Settings.Endpoint = at
				return open(ctx, r)
			}
			if services, roles := k.Services, k.Roles; services != nil {
				k.Services = func(ctx context.Context, r cloudkit.Request) (*cloudkit.Services, error) {
					r.Settings.Endpoint = at
					return services(ctx, r)
				}
				k.Roles = func(ctx context.Context, r cloudkit.Request) (cloudkit.Roles, error) {
					r.Settings.Endpoint = at
					return roles(ctx, r)
				}
			}
		}
		p.clouds.Kits = append(p.clouds.Kits, k)
	}
	const issuer = "https://8d10da13.tokens.sts.global.api.aws"
	for name, c := range map[string]struct {
		flags string
		want  map[string]string // expected settings; "*" matches anything
	}{
		"gcp": {
			"--project demo --regions us-central1 --services dataproc,dataproc-serverless", map[string]string{
				"project": "demo", "regions": "us-central1", "network": "tradewind-prod",
				"services": "dataproc+dataproc-serverless", "sparkAccount": "prod-spark@demo.iam.gserviceaccount.com",
				"serviceAccount": "prod-machines@demo.iam.gserviceaccount.com",
				"impersonate":    "prod-broker@demo.iam.gserviceaccount.com", "provider": "*",
			},
		},
		"azure": {
			"--subscription " + arm.DefaultSubscription + " --regions eastus,westeurope --aws-issuer " + issuer, map[string]string{
				"subscription": arm.DefaultSubscription, "regions": "eastus+westeurope", "client": "*", "tenant": "*",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			add := "cloud add " + name + " " + c.flags + " --aws-account 123456789012 --aws-deployment prod"
			if r := p.run(strings.Fields(add + " --print")...); r.code != 0 || !strings.Contains(r.out, "prod-cloud-"+name) {
				t.Fatalf("%+v", r)
			}
			first := p.run(strings.Fields(add + " -o json")...)
			if first.code != 0 || !strings.Contains(first.err, ": made") {
				t.Fatalf("%+v", first)
			}
			text, ok := strings.CutPrefix(printed[clouds.CloudForFunctions](t, first.out).Cloud, name+":")
			got := map[string]string{}
			for pair := range strings.SplitSeq(text, ",") {
				k, v, _ := strings.Cut(pair, "=")
				if k == "endpoint" {
					continue
				}
				if got[k] = v; c.want[k] == "*" && v != "" {
					got[k] = "*"
				}
			}
			if !ok || !maps.Equal(got, c.want) {
				t.Errorf("%q", text)
			}
			if _, err := cloudkit.FromPairs(got); err != nil {
				t.Errorf("no function reads it: %v", err)
			}
			second := p.run(strings.Fields(add)...)
			if second.code != 0 || strings.Contains(second.err, ": made") || !strings.HasPrefix(second.out, "tradewind deploy aws --name prod --cloud "+name+":") {
				t.Errorf("a second time: %+v", second)
			}
			if list := p.run("cloud", "list", "-o", "json"); entry(printed[clouds.CloudList](t, list.out), name).Added {
				t.Error("this computer buys there, too")
			}
			remove := "cloud remove " + name + " --aws-account 123456789012 --aws-deployment prod"
			if r := p.run(strings.Fields(remove)...); r.code != 0 || !strings.Contains(r.err, ": removed") {
				t.Errorf("%+v", r)
			}
			if r := p.run(strings.Fields(remove)...); r.code == 0 || !strings.Contains(r.err, "has no record") {
				t.Errorf("again: %+v", r)
			}
		})
	}
	for _, c := range []struct{ flags, want string }{
		{"gcp --project demo --aws-account 12", "twelve digits"},
		{"azure --subscription s --regions eastus --aws-account 123456789012", "--aws-issuer"},
	} {
		if r := p.run(strings.Fields("cloud add " + c.flags)...); r.code != 2 || !strings.Contains(r.err, c.want) {
			t.Errorf("%s: %+v", c.flags, r)
		}
	}
}

// TestTPUsNeedTheirAPIAndRights: with --tpus, `cloud add gcp` enables the API of TPUs and its role may buy them.
func TestTPUsNeedTheirAPIAndRights(t *testing.T) {
	p := newProgram(t)
	for flags, want := range map[string]bool{"": false, " --tpus": true} {
		r := p.ok(t, strings.Fields("cloud add gcp --project demo --member user:ada@example.com --print"+flags)...)
		for _, part := range []string{"tpu.googleapis.com", "tpu.nodes.create"} {
			if strings.Contains(r.out, part) != want {
				t.Errorf("cloud add gcp --print%s: %s is there: %v\n%s", flags, part, !want, r.out)
			}
		}
	}
}
