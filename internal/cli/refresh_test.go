package cli

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/tradewind-broker/tradewind/internal/cli/clouds"
	"github.com/tradewind-broker/tradewind/internal/cli/command"
	"github.com/tradewind-broker/tradewind/internal/cli/planning"
	"github.com/tradewind-broker/tradewind/internal/cloud/driver"
	"github.com/tradewind-broker/tradewind/internal/cloudkit"
	"github.com/tradewind-broker/tradewind/internal/cloudkit/kits"
	"github.com/tradewind-broker/tradewind/internal/host"
)

// silent returns a kit of a cloud that does not answer.
func silent(name string) cloudkit.Kit {
	return cloudkit.Kit{
		Name: name, Title: name, Ready: func(cloudkit.Settings, cloudkit.Lookup) error { return nil },
		Account: func(cloudkit.Settings, cloudkit.Lookup) string { return "" }, Flags: func(*pflag.FlagSet, *cloudkit.Settings) {},
		Open: func(context.Context, cloudkit.Request) (*cloudkit.Opened, error) {
			return &cloudkit.Opened{Refresh: func(context.Context, driver.Snapshots) (driver.Refreshed, error) {
				return driver.Refreshed{}, context.DeadlineExceeded
			}}, nil
		},
	}
}

func TestCatalogRefreshShowsChanges(t *testing.T) {
	p, _, keyFile := cloudProgram(t)
	if r := p.run("catalog", "refresh"); r.code != command.ExitBadInput || !strings.Contains(r.err, "cloud add") {
		t.Errorf("without clouds: exit %d %s", r.code, r.err)
	}
	p.ok(t, "cloud", "add", "lambda", "--key-file", keyFile, "--regions", "us-east-1,us-west-1")
	r := printed[clouds.CatalogRefresh](t, p.ok(t, "catalog", "refresh", "-o", "json").out)
	if !r.OK || len(r.Clouds) != 1 || !r.Clouds[0].Renewed || r.Clouds[0].Offers == 0 || r.Clouds[0].New+r.Clouds[0].Gone+r.Clouds[0].Dearer+r.Clouds[0].Cheaper == 0 {
		t.Errorf("%+v", r)
	}
	again := printed[clouds.CatalogRefresh](t, p.ok(t, "catalog", "refresh", "-o", "json").out)
	if c := again.Clouds[0]; c.New+c.Gone+c.Dearer+c.Cheaper != 0 || c.Offers != r.Clouds[0].Offers {
		t.Errorf("a second time: %+v", c)
	}
	before, err := os.ReadFile(filepath.Join(p.state, "catalog.snapshot"))
	if err != nil {
		t.Fatal(err)
	}
	p.clouds.Kits = slices.DeleteFunc(kits.All(), func(k cloudkit.Kit) bool { return k.Name == "gcp" })
	p.clouds.Kits = append(p.clouds.Kits, silent("gcp"))
	down := p.run("catalog", "refresh", "--cloud", "gcp")
	after, _ := os.ReadFile(filepath.Join(p.state, "catalog.snapshot"))
	if down.code != command.ExitFailed || !strings.Contains(down.err, "gcp keeps its old data") || string(after) != string(before) {
		t.Errorf("exit %d %s%s", down.code, down.out, down.err)
	}
	if r := p.run("catalog", "refresh", "--cloud", "lamda"); r.code != command.ExitBadInput || !strings.Contains(r.err, `did you mean "lambda"`) {
		t.Errorf("exit %d %s", r.code, r.err)
	}
}

const smallJob = "apiVersion: tradewind/v1\nname: job\ntasks: {a: {run: x, time: 1h, resources: {cpus: 2+}}}\n"

func TestPlanUsesEnabledClouds(t *testing.T) {
	p, _, keyFile := cloudProgram(t)
	file := filepath.Join(t.TempDir(), "job.yaml")
	if err := os.WriteFile(file, []byte(smallJob), 0o600); err != nil {
		t.Fatal(err)
	}
	plan := func(args ...string) (planning.PlanResult, string) {
		t.Helper()
		r := p.ok(t, append([]string{"plan", file, "-o", "json"}, args...)...)
		return printed[planning.PlanResult](t, r.out), r.err
	}
	if r, said := plan(); len(r.Clouds) < 4 || !strings.Contains(said, "no cloud was added") {
		t.Errorf("on %v: %s", r.Clouds, said)
	}
	p.ok(t, "cloud", "add", "lambda", "--key-file", keyFile, "--regions", "us-west-1")
	if r, said := plan(); len(r.Clouds) != 1 || r.Tasks[0].Cloud != "lambda" || r.Tasks[0].Region != "us-west-1" || !strings.Contains(said, "planned on lambda") {
		t.Errorf("on %v: %+v %s", r.Clouds, r.Tasks, said)
	}
	if r, said := plan("--cloud", "azure"); r.Tasks[0].Cloud != "azure" || !strings.Contains(said, "no broker here can buy on azure") {
		t.Errorf("on %v: %+v %s", r.Clouds, r.Tasks, said)
	}
	p.hosts.running = &host.Running{URL: "http://127.0.0.1:1", PID: 7, Clouds: []string{"aws"}}
	if r, said := plan(); len(r.Clouds) != 1 || r.Tasks[0].Cloud != "aws" || !strings.Contains(said, "pid 7") {
		t.Errorf("on %v: %+v %s", r.Clouds, r.Tasks, said)
	}
	p.hosts.running = nil
	for _, words := range [][]string{{"plan", file}, {"run", file}, {"submit", file}} {
		if r := p.run(append(words, "--cloud", "azur")...); r.code != command.ExitBadInput || !strings.Contains(r.err, `did you mean "azure"`) {
			t.Errorf("%v: exit %d %s", words, r.code, r.err)
		}
	}
}
