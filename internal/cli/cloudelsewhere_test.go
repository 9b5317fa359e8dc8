package cli

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/tradewind-broker/tradewind/internal/cli/clouds"
	"github.com/tradewind-broker/tradewind/internal/cli/command"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/client"
)

// A remote broker reports on its clouds, and its address is tried from here as a machine would.
func TestCloudCheckOfRemoteBroker(t *testing.T) {
	p := newProgram(t)
	p.hosts.clouds = apitypes.CloudReports{Clouds: []apitypes.CloudReport{
		{Name: "aws", Identity: "arn:aws:sts::1:assumed-role/tradewind-refresh", Account: "1", Regions: []string{"us-east-1"},
			Missing: []apitypes.CloudLack{}, Machines: 3, Quotas: []apitypes.CloudQuota{{Name: "standard vCPUs", Limit: 64}}},
		{Name: "gcp", Missing: []apitypes.CloudLack{{What: "compute.googleapis.com is not switched on",
			Mend: "gcloud services enable compute.googleapis.com", Fatal: true}}},
	}}
	endpoint, _ := elsewhere(t, p)
	p.environ = []string{client.EnvToken + "=" + testToken}
	r := p.run("cloud", "check", "--endpoint", endpoint, "-o", "json")
	got := printed[clouds.CloudCheck](t, r.out)
	if r.code != command.ExitFailed || got.OK || len(got.Clouds) != 2 || got.Clouds[0].Machines != 3 ||
		got.Clouds[0].Title == "aws" ||
		got.Clouds[1].Missing[0].Mend != "gcloud services enable compute.googleapis.com" {
		t.Errorf("exit %d: %s%s", r.code, r.out, r.err)
	}
	if got.Public == nil || got.Public.URL != endpoint || !got.Public.Answers {
		t.Errorf("the address: %+v", got.Public)
	}
	if r := p.run("cloud", "check", "aws", "--endpoint", endpoint); r.code != command.ExitDone ||
		!strings.Contains(r.out, "3 machines") || strings.Contains(r.out, "gcp") {
		t.Errorf("exit %d: %s%s", r.code, r.out, r.err)
	}
	if r := p.run("cloud", "check", "azure", "--endpoint", endpoint); r.code != command.ExitBadInput ||
		!strings.Contains(r.err, "does not buy on azure, but on aws, gcp") {
		t.Errorf("exit %d: %s%s", r.code, r.out, r.err)
	}
	p.hosts.clouds.Clouds = append(p.hosts.clouds.Clouds[:1],
		apitypes.CloudReport{Name: "azure", Missing: []apitypes.CloudLack{}, Played: true})
	if r := p.run("cloud", "check", "--endpoint", endpoint); r.code != command.ExitDone ||
		!strings.Contains(r.out, "note  azure") || !strings.Contains(r.out, "nothing is bought there") {
		t.Errorf("one of two is simulated: exit %d: %s%s", r.code, r.out, r.err)
	}
	r = p.run("cloud", "check", "azure", "--endpoint", endpoint, "-o", "json")
	if got := printed[clouds.CloudCheck](t, r.out); r.code != command.ExitFailed || got.OK || !got.Clouds[0].Played {
		t.Errorf("the simulated one: exit %d: %s%s", r.code, r.out, r.err)
	}
	played := p.hosts.clouds.Clouds
	p.hosts.clouds.Clouds = played[1:]
	if r := p.run("cloud", "check", "--endpoint", endpoint); r.code != command.ExitFailed ||
		!strings.Contains(r.out, "fail  azure") {
		t.Errorf("all are simulated: exit %d: %s%s", r.code, r.out, r.err)
	}
	p.hosts.clouds.Clouds = played
	gate := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusForbidden)
	}))
	t.Cleanup(gate.Close)
	if r := p.run("cloud", "check", "aws", "--endpoint", endpoint, "--public-url", gate.URL); r.code != command.ExitFailed ||
		!strings.Contains(r.out, "refuses machines (HTTP 403)") {
		t.Errorf("exit %d: %s%s", r.code, r.out, r.err)
	}
}
