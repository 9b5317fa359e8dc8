package stack

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// clouds configures additional clouds, and creates the files of their functions.
func clouds(tb testing.TB, settings map[string]string) func(*Config) {
	return func(c *Config) {
		c.Clouds = settings
		binaries(tb, c)
	}
}

// binaries creates the files of all functions of a configuration.
func binaries(tb testing.TB, c *Config) {
	tb.Helper()
	for _, fn := range c.functionNames() {
		file := filepath.Join(c.code(fn), "bootstrap")
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			tb.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(fn), 0o600); err != nil {
			tb.Fatal(err)
		}
	}
}

// In this account a cloud's function may only record which clusters it ended; only the functions that buy may call
// it.
func TestCloudFunctionHasMinimalRights(t *testing.T) {
	d := synthesise(t, clouds(t, map[string]string{
		"gcp": "project=acme,regions=us-central1+europe-west4,serviceAccount=m@acme,stores=us-central1:acme-work,impersonate=b@acme", "azure": "subscription=s,regions=eastus,secrets=team/hf+team/wandb-*", "lambda": "regions=us-east-1",
	}))["tradewind"]
	_, f := d.named(t, "AWS::Lambda::Function", "FunctionName", "tradewind-cloud-gcp")
	if got := f.at("Environment", "Variables", "TRADEWIND_CLOUD"); !strings.HasPrefix(fmt.Sprint(got), "project=acme,") {
		t.Errorf("its settings are %v", got)
	}
	_, p := d.named(t, "AWS::Lambda::Function", "FunctionName", "tradewind-provision")
	if got := p.at("Environment", "Variables", "TRADEWIND_CLOUDS"); got != "aws,azure,gcp,lambda" {
		t.Errorf("provision buys on %v", got)
	}
	want := "azure:eastus,gcp:us-central1,gcp:europe-west4,lambda:us-east-1"
	if got := p.at("Environment", "Variables", "TRADEWIND_CLOUD_REGIONS"); got != want {
		t.Errorf("in %v", got)
	}
	if got := p.at("Environment", "Variables", "TRADEWIND_STORES"); got != "gcp:us-central1=gs://acme-work" {
		t.Errorf("stores are %v", got)
	}
	if got := p.at("Environment", "Variables", "TRADEWIND_SECRET_CLOUDS"); got != "azure" {
		t.Errorf("secrets are fetched by %v", got)
	}
	if got := p.at("Environment", "Variables", "TRADEWIND_CLOUD"); got != nil {
		t.Errorf("provision has the settings %v", got)
	}
	callers := map[string]bool{}
	for _, s := range d.statements() {
		if slices.Contains(s.actions, "lambda:InvokeFunction") && strings.Contains(fmt.Sprint(s.resources), "Cloud") {
			callers[s.role] = true
			if (s.role == "tradewind-api" || s.role == "tradewind-submit") && len(s.resources) != 2 { // of the cloud with a store and of the one with secrets
				t.Errorf("%s calls %v", s.role, s.resources)
			}
		}
		if !strings.HasPrefix(s.role, "tradewind-cloud-") {
			continue
		}
		for _, a := range s.actions {
			switch {
			case strings.HasPrefix(a, "logs:"):
			case strings.HasPrefix(a, "dynamodb:"):
				keys := fmt.Sprint(s.condition)
				if want := "grave#" + strings.TrimPrefix(s.role, "tradewind-cloud-") + "#*"; !strings.Contains(keys, want) {
					t.Errorf("%s: %s of %s", s.role, a, keys)
				}
			case a == "ssm:GetParameter" && s.role == "tradewind-cloud-lambda":
				if len(s.resources) != 1 || !strings.HasSuffix(s.resources[0], "parameter/tradewind/clouds/lambda-key") {
					t.Errorf("%s reads %v", s.role, s.resources)
				}
			case a == "sts:GetWebIdentityToken" && s.role == "tradewind-cloud-azure":
				if !strings.Contains(fmt.Sprint(s.condition), "AzureADTokenExchange") {
					t.Errorf("%s may prove its identity to %v", s.role, s.condition)
				}
			default:
				t.Errorf("%s may %s", s.role, a)
			}
		}
	}
	if len(callers) != 5 || !callers["tradewind-provision"] || !callers["tradewind-reconcile"] || !callers["tradewind-refresh"] ||
		!callers["tradewind-api"] || !callers["tradewind-submit"] {
		t.Errorf("called by %v", callers)
	}
	for _, role := range deployed()(t).roles() {
		if strings.Contains(fmt.Sprint(role), "cloud-") {
			t.Errorf("without clouds there is %v", role)
		}
	}
}

func TestValidateRejectsInvalidClouds(t *testing.T) {
	for name, settings := range map[string]string{
		"gpc": "", "aws": "", "gcp": "project=p,regions=r", "azure": "subscription=s,regions=r,stores=r:work", "lambda": "regions=r,stores=r:work",
	} {
		c := Default()
		c.Clouds = map[string]string{name: settings}
		if err := c.Validate(); err == nil || !strings.HasPrefix(err.Error(), "-cloud") {
			t.Errorf("%s:%s: %v", name, settings, err)
		}
	}
}

// If a cloud is configured to push notices, the API has a push route without IAM, and may call that cloud's function to verify them.
func TestPushRouteExistsIfConfigured(t *testing.T) {
	d := synthesise(t, clouds(t, map[string]string{
		"gcp":    "project=acme,regions=us-central1,serviceAccount=m@acme,pushAccount=push@acme.iam.gserviceaccount.com",
		"lambda": "regions=us-east-1",
	}))["tradewind"]
	for _, s := range d.statements() {
		if s.role == "tradewind-hook" && slices.Contains(s.actions, "lambda:InvokeFunction") {
			t.Error("without a bucket of job files hook calls a cloud")
		}
	}
	routes := map[string]string{}
	for _, r := range d.of("AWS::ApiGatewayV2::Route") {
		routes[fmt.Sprint(r.at("RouteKey"))] = fmt.Sprint(r.at("AuthorizationType"))
	}
	if routes["POST /v1/push/{proxy+}"] != "NONE" || routes["$default"] != "AWS_IAM" || len(routes) != 3 {
		t.Errorf("routes %v", routes)
	}
	_, api := d.named(t, "AWS::Lambda::Function", "FunctionName", "tradewind-api")
	if got := api.at("Environment", "Variables", "TRADEWIND_PUSH_CLOUDS"); got != "gcp" {
		t.Errorf("api has the settings %v", got)
	}
	for _, s := range d.statements() {
		if s.role == "tradewind-api" && slices.Contains(s.actions, "lambda:InvokeFunction") && strings.Contains(fmt.Sprint(s.resources), "Cloud") &&
			(len(s.resources) != 1 || !strings.Contains(fmt.Sprint(s.resources), "Gcp") && !strings.Contains(fmt.Sprint(s.resources), "gcp")) {
			t.Errorf("api calls %v", s.resources)
		}
	}
}

// That cloud's function reads job files in a bucket of another cloud and writes error files there.
func TestCloudFunctionReadsItsDagBucket(t *testing.T) {
	const gcp = "project=acme,regions=us-central1,serviceAccount=m@acme,dags=gs://acme-jobs/dags"
	d := synthesise(t, clouds(t, map[string]string{"gcp": gcp + ",pushAccount=push@acme.iam.gserviceaccount.com"}))["tradewind"]
	for _, fn := range []string{"submit", "hook"} {
		_, f := d.named(t, "AWS::Lambda::Function", "FunctionName", "tradewind-"+fn)
		if got := f.at("Environment", "Variables", "TRADEWIND_DAG_BUCKETS"); got != "gcp=gs://acme-jobs" {
			t.Errorf("%s has the settings %v", fn, got)
		}
		if !slices.ContainsFunc(d.statements(), func(s statement) bool {
			return s.role == "tradewind-"+fn && slices.Contains(s.actions, "lambda:InvokeFunction")
		}) {
			t.Errorf("%s may not call the cloud's function", fn)
		}
	}
	for _, bad := range []string{gcp, "project=p,regions=r,serviceAccount=m,dags=gs://A,pushAccount=p", "project=p,regions=r,serviceAccount=m,dags=s3://b,pushAccount=p"} {
		c := Default()
		c.Clouds = map[string]string{"gcp": bad}
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), "dags") {
			t.Errorf("%s: %v", bad, err)
		}
	}
}

// The hook function may call the cloud that publishes on topics of jobs, and only if the deployment asks for it.
func TestHookAnnouncesIfConfigured(t *testing.T) {
	for settings, may := range map[string]bool{"": false, ",announce=true": true} {
		d := synthesise(t, clouds(t, map[string]string{
			"gcp": "project=acme,regions=us-central1,serviceAccount=m@acme" + settings, "lambda": "regions=us-east-1",
		}))["tradewind"]
		called := 0
		for _, s := range d.statements() {
			if s.role == "tradewind-hook" && slices.Contains(s.actions, "lambda:InvokeFunction") {
				called += len(s.resources)
			}
		}
		if (called == 1) != may || called > 1 {
			t.Errorf("%q: hook may call %d functions", settings, called)
		}
	}
}
