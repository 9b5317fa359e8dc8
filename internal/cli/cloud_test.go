package cli

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/tradewind-broker/tradewind/internal/cli/clouds"
	"github.com/tradewind-broker/tradewind/internal/cli/command"
	"github.com/tradewind-broker/tradewind/internal/cloud/driver"
	"github.com/tradewind-broker/tradewind/internal/cloud/lambdalabs"
	"github.com/tradewind-broker/tradewind/internal/cloudkit"
	"github.com/tradewind-broker/tradewind/internal/cloudkit/lambdakit"
	"github.com/tradewind-broker/tradewind/internal/emulator/lambdacloud"
	"github.com/tradewind-broker/tradewind/internal/host"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
)

// cloudProgram returns a program and an emulated account of Lambda's cloud, with its key in a file.
func cloudProgram(t *testing.T) (p *program, account *lambdacloud.Cloud, keyFile string) {
	t.Helper()
	account = lambdacloud.New(lambdacloud.Config{Fault: func(err error) {
		// An agent of another test, whose broker was killed, may look for it at the port that this server got.
		if !strings.Contains(err.Error(), " /v1/agent/") {
			t.Error(err)
		}
	}})
	server := httptest.NewServer(account)
	t.Cleanup(server.Close)
	keyFile = filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(keyFile, []byte(lambdacloud.DefaultKey), 0o600); err != nil {
		t.Fatal(err)
	}
	p = newProgram(t)
	p.environ = append(p.environ, lambdakit.EnvURL+"="+server.URL)
	return p, account, keyFile
}

func printed[T any](t *testing.T, text string) (v T) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	return v
}

func entry(l clouds.CloudList, name string) clouds.CloudEntry {
	for _, e := range l.Clouds {
		if e.Name == name {
			return e
		}
	}
	return clouds.CloudEntry{}
}

func TestCloudAddCheckRemove(t *testing.T) {
	p, account, keyFile := cloudProgram(t)
	if e := entry(printed[clouds.CloudList](t, p.ok(t, "cloud", "list", "-o", "json").out), "lambda"); e.Added || !strings.Contains(e.Lacks, "cloud add lambda --key-file") {
		t.Errorf("before: %+v", e)
	}
	r := p.ok(t, "cloud", "add", "lambda", "--key-file", keyFile, "--regions", "us-east-1,us-west-1")
	if !strings.Contains(r.err, "tradewind up --clouds lambda") {
		t.Errorf("%s%s", r.out, r.err)
	}
	e := entry(printed[clouds.CloudList](t, p.ok(t, "cloud", "list", "-o", "json").out), "lambda")
	if !e.Added || e.Lacks != "" || e.Account != "key in "+keyFile || strings.Join(e.Regions, ",") != "us-east-1,us-west-1" {
		t.Errorf("after: %+v", e)
	}
	body, err := os.ReadFile(filepath.Join(p.state, cloudkit.FileName))
	info, statErr := os.Stat(filepath.Join(p.state, cloudkit.FileName))
	if errors.Join(err, statErr) != nil || strings.Contains(string(body), lambdacloud.DefaultKey) || info.Mode().Perm() != 0o600 {
		t.Errorf("settings %v %v: %s", err, info, body)
	}
	p.ok(t, "cloud", "add", "lambda", "--key-file", keyFile, "--regions", "us-east-1,us-west-1")
	if again, _ := os.ReadFile(filepath.Join(p.state, cloudkit.FileName)); string(again) != string(body) {
		t.Errorf("a second time changes the settings: %s", again)
	}
	c := printed[clouds.CloudCheck](t, p.ok(t, "cloud", "check", "-o", "json").out)
	if !c.OK || len(c.Clouds) != 1 || len(c.Clouds[0].Regions) != 2 || c.Public != nil {
		t.Errorf("check: %+v", c)
	}

	machine := launchOne(t, p, keyFile)
	if r := p.run("cloud", "remove", "lambda"); r.code != command.ExitFailed || !strings.Contains(r.err, machine) {
		t.Errorf("with a machine: exit %d %s", r.code, r.err)
	}
	if err := account.Preempt(machine); err != nil {
		t.Fatal(err)
	}
	p.hosts.running = &host.Running{URL: "http://127.0.0.1:1", Clouds: []string{"lambda"}}
	if r := p.run("cloud", "remove", "lambda"); r.code != command.ExitFailed || !strings.Contains(r.err, "is buying on lambda") {
		t.Errorf("with a broker: exit %d %s", r.code, r.err)
	}
	p.hosts.running = nil
	p.ok(t, "cloud", "remove", "lambda")
	if r := p.run("cloud", "remove", "lambda"); r.code != command.ExitBadInput {
		t.Errorf("a second time: exit %d %s", r.code, r.err)
	}
}

// launchOne buys a machine like a broker on the program's state folder.
func launchOne(t *testing.T, p *program, keyFile string) (id string) {
	t.Helper()
	name, err := host.DeploymentOf(p.state)
	if err != nil {
		t.Fatal(err)
	}
	url := strings.TrimPrefix(p.environ[len(p.environ)-1], lambdakit.EnvURL+"=")
	c := lambdalabs.New(lambdalabs.Config{Deployment: name, Endpoint: url, Key: lambdalabs.KeyFile(keyFile), Agents: driver.Agents{"": strings.Repeat("a", 64)}})
	machines, err := c.Launch(t.Context(), cloud.LaunchSpec{Cluster: "c", Nodes: 1,
		Offer:     apitypes.Offer{Cloud: "lambda", Region: "us-east-1", InstanceType: "gpu_1x_a10"},
		Bootstrap: cloud.Bootstrap{Endpoint: "https://broker.example", Tokens: []string{"t"}}})
	if err != nil {
		t.Fatal(err)
	}
	return machines[0].ID
}

func TestCloudAddStoresNothingOnRefusal(t *testing.T) {
	p, account, keyFile := cloudProgram(t)
	if r := p.run("cloud", "add", "lambda"); r.code != command.ExitBadInput || !strings.Contains(r.err, "--key-file") {
		t.Errorf("without a key: exit %d %s", r.code, r.err)
	}
	if err := os.Chmod(keyFile, 0o644); err != nil {
		t.Fatal(err)
	}
	if r := p.run("cloud", "add", "lambda", "--key-file", keyFile); r.code != command.ExitBadInput || !strings.Contains(r.err, "chmod 600 "+keyFile) {
		t.Errorf("a key for all to read: exit %d %s", r.code, r.err)
	}
	_ = os.Chmod(keyFile, 0o600)
	account.Revoke(true)
	r := p.run("cloud", "add", "lambda", "--key-file", keyFile)
	if r.code != command.ExitFailed || !strings.Contains(r.out, "API key was invalid") || !strings.Contains(r.out, "api-keys") {
		t.Errorf("a revoked key: exit %d %s%s", r.code, r.out, r.err)
	}
	if _, err := os.Stat(filepath.Join(p.state, cloudkit.FileName)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("it is kept: %v", err)
	}
	if r := p.run("cloud", "check", "lamda"); r.code != command.ExitBadInput || !strings.Contains(r.err, "lambda") {
		t.Errorf("a slip: exit %d %s", r.code, r.err)
	}
	if r := p.run("cloud", "check"); r.code != command.ExitBadInput || !strings.Contains(r.err, "cloud add") {
		t.Errorf("none: exit %d %s", r.code, r.err)
	}
}

// doctor with the name of a cloud reports each lack of the account in one line, with the command that fixes it.
func TestCloudAddRefusesUnknownRegion(t *testing.T) {
	p := newProgram(t)
	for _, c := range []struct{ args, says string }{
		{"aws --regions us-east-1,us-esat-2", `has no region "us-esat-2"` + "\nhint: did you mean \"us-east-2\"?"},
		{"gcp --project demo --regions us-centrl1", `did you mean "us-central1"?`},
		{"azure --subscription s --regions west-us2", `did you mean "westus2"?`},
		{"aws --regions paris", "hint: one of af-south-1, "},
	} {
		r := p.run(strings.Fields("cloud add " + c.args)...)
		if r.code != command.ExitBadInput || !strings.Contains(r.err, c.says) {
			t.Errorf("%s: exit %d\n%s", c.args, r.code, r.err)
		}
	}
}

func TestDoctorChecksNamedClouds(t *testing.T) {
	p, account, keyFile := cloudProgram(t)
	p.ok(t, "cloud", "add", "lambda", "--key-file", keyFile)
	r := p.run("doctor", "lambda", "--catalog", "testdata/catalog")
	if !strings.Contains(r.out, "ok    lambda") {
		t.Errorf("exit %d\n%s%s", r.code, r.out, r.err)
	}
	account.Revoke(true)
	r = p.run("doctor", "lambda", "--catalog", "testdata/catalog", "-o", "json")
	var got DoctorResult
	if err := json.Unmarshal([]byte(r.out), &got); err != nil || r.code != command.ExitFailed || got.OK {
		t.Fatalf("exit %d, %v\n%s%s", r.code, err, r.out, r.err)
	}
	last := got.Checks[len(got.Checks)-1]
	if last.Name != "lambda" || last.Verdict != Fail || !strings.Contains(last.Detail, "API key was invalid") ||
		!strings.Contains(last.Hint, "api-keys") {
		t.Errorf("%+v", last)
	}
	if r := p.run("doctor", "lamda"); r.code != command.ExitBadInput || !strings.Contains(r.err, "lambda") {
		t.Errorf("a slip: exit %d %s", r.code, r.err)
	}
}

func TestCloudRemoveForget(t *testing.T) {
	p, account, keyFile := cloudProgram(t)
	p.ok(t, "cloud", "add", "lambda", "--key-file", keyFile)
	account.Revoke(true)
	if r := p.run("cloud", "check"); r.code != command.ExitFailed || !strings.Contains(r.out, "fail  lambda") {
		t.Errorf("check: exit %d %s", r.code, r.out)
	}
	if r := p.run("cloud", "remove", "lambda"); r.code != command.ExitFailed || !strings.Contains(r.err, "--forget") {
		t.Errorf("exit %d %s", r.code, r.err)
	}
	p.ok(t, "cloud", "remove", "lambda", "--forget")
}

func TestInvalidCloudSettingsNameLine(t *testing.T) {
	p, _, _ := cloudProgram(t)
	if err := os.MkdirAll(p.state, 0o700); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(p.state, cloudkit.FileName)
	if err := os.WriteFile(file, []byte("{\"clouds\": {\n\"aws\": {\"regoins\": []}}}"), 0o600); err != nil {
		t.Fatal(err)
	}
	if r := p.run("cloud", "list"); r.code == command.ExitDone || !strings.Contains(r.err, file+", line 2") || !strings.Contains(r.err, "regoins") {
		t.Errorf("exit %d %s", r.code, r.err)
	}
}

func TestCloudCheckProbesPublicURL(t *testing.T) {
	p, _, _ := cloudProgram(t)
	for name, c := range map[string]struct {
		answer http.HandlerFunc
		ok     bool
	}{
		"a broker": {func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, `{"status":"ok","version":"v1"}`)
		}, true},
		"a web page": {func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, `<html>ok</html>`) }, false},
		"a refusal":  {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusMisdirectedRequest) }, false},
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Authorization") != "" {
				t.Error("a token is sent to it")
			}
			c.answer(w, r)
		}))
		r := p.run("cloud", "check", "--public-url", server.URL, "-o", "json")
		server.Close()
		if got := printed[clouds.CloudCheck](t, r.out); got.Public == nil || got.Public.Answers != c.ok || got.OK != c.ok || (r.code == 0) != c.ok {
			t.Errorf("%s: exit %d %+v", name, r.code, got.Public)
		}
	}
	if r := p.run("cloud", "check", "--public-url", "http://example.org", "-o", "json"); r.code != 1 || !strings.Contains(r.out, "not https") {
		t.Errorf("exit %d %s", r.code, r.out)
	}
}

func TestUpRejectsInvalidClouds(t *testing.T) {
	p, _, keyFile := cloudProgram(t)
	agents := filepath.Join(t.TempDir(), "amd64")
	if err := os.MkdirAll(agents, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(agents, "tradewind-agent"), []byte("agent"), 0o700); err != nil {
		t.Fatal(err)
	}
	with, public := "--agents="+filepath.Dir(agents), "--public-url=https://b.example"
	for want, args := range map[string][]string{
		`unknown cloud "azur"`:                {"--clouds", "lambda,azur"},
		"--public-url must name":              {"--clouds", "lambda"},
		"is not https":                        {"--clouds", "lambda", "--public-url", "http://b.example"},
		"is not https://HOST":                 {"--clouds", "lambda", "--public-url", "https://b.example/path"},
		"real time":                           {"--clouds", "lambda", public, with, "--time-scale", "0.1"},
		"--scenario, --seed and --boot-times": {"--clouds", "lambda", public, with, "--seed", "1"},
		"make agent":                          {"--clouds", "lambda", public, "--agents", t.TempDir()},
		"cloud add lambda --key-file":         {"--clouds", "lambda", public, with},
		"--public-url needs a cloud":          {public},
		"--public-url needs a cloud ":         {"--clouds", "local", public},
		"--boot-within needs a cloud":         {"--boot-within", "20m"},
		"--boot-within: 13h0m0s is not":       {"--clouds", "lambda", public, with, "--boot-within", "13h"},
		"tradewind cloud add lambda --k":      {"--clouds", "local,lambda", public, with},
	} {
		if r := p.run(append([]string{"up"}, args...)...); r.code != command.ExitBadInput || !strings.Contains(r.err, strings.TrimSpace(want)) {
			t.Errorf("%v: exit %d, %q is not in\n%s", args, r.code, want, r.err)
		}
	}
	p.ok(t, "cloud", "add", "lambda", "--key-file", keyFile)
	if p.hosts.open != 0 {
		t.Error("a broker was opened")
	}
}

// fitted is a cloud that needs a setup.
type fitted struct{ made, removed bool }

func (f *fitted) Print(w io.Writer) error {
	_, err := io.WriteString(w, "fit make\n")
	return err
}

func (f *fitted) Make(_ context.Context, tell func(string)) (cloudkit.Settings, error) {
	tell("a network is made")
	f.made = true
	return cloudkit.Settings{Project: "made"}, nil
}

func (f *fitted) Remove(context.Context, func(string)) error {
	f.removed = true
	return nil
}

// empty is a cloud that allows everything. Its only machines have ended or are about to.
type empty struct {
	cloud.Cloud
	last  *cloud.State
	clean func(tell func(string)) error
}

func (e empty) Clean(_ context.Context, tell func(string)) error {
	if *e.last != cloud.Terminated {
		return errors.New("machines use it")
	}
	return e.clean(tell)
}

func (e empty) Machines(context.Context, string) ([]cloud.Machine, error) {
	return []cloud.Machine{{ID: "m-1", State: *e.last}}, nil
}

func (empty) Check(context.Context) (driver.Report, error) {
	return driver.Report{Identity: "me"}, nil
}

func TestCloudSetupIsCreatedPrintedAndRemoved(t *testing.T) {
	p, f, last := newProgram(t), &fitted{}, cloud.Terminating
	refused := true
	clean := func(tell func(string)) error {
		if refused {
			return cloud.Errorf("aws", cloud.Auth, "UnauthorizedOperation", "ec2:DeleteSecurityGroup")
		}
		tell("security group g")
		return nil
	}
	p.clouds.Kits = []cloudkit.Kit{{
		Name: "aws", Title: "A cloud", Flags: func(fs *pflag.FlagSet, s *cloudkit.Settings) { fs.StringVar(&s.Project, "project", "", "project") },
		Ready:   func(cloudkit.Settings, cloudkit.Lookup) error { return nil },
		Account: func(s cloudkit.Settings, _ cloudkit.Lookup) string { return s.Project },
		Setup:   func(context.Context, cloudkit.Request) (cloudkit.Setup, error) { return f, nil },
		Open: func(context.Context, cloudkit.Request) (*cloudkit.Opened, error) {
			return &cloudkit.Opened{Cloud: empty{last: &last, clean: clean}, Checker: empty{}}, nil
		},
	}}
	if r := p.ok(t, "cloud", "add", "aws", "--print"); r.out != "fit make\n" || f.made {
		t.Errorf("%q, made: %v", r.out, f.made)
	}
	if r := p.ok(t, "cloud", "add", "aws", "--project", "p"); !f.made || !strings.Contains(r.err, "a network is made") {
		t.Errorf("%s, made: %v", r.err, f.made)
	}
	if l := printed[clouds.CloudList](t, p.ok(t, "cloud", "list", "-o", "json").out); l.Clouds[0].Account != "made" {
		t.Errorf("%+v", l)
	}
	if r := p.run("cloud", "remove", "aws"); r.code != command.ExitFailed || !strings.Contains(r.err, "m-1") || f.removed {
		t.Errorf("with a machine that is stopped: exit %d %s, removed: %v", r.code, r.err, f.removed)
	}
	last = cloud.Terminated
	if r := p.run("cloud", "remove", "aws"); r.code != command.ExitFailed || !strings.Contains(r.err, "ec2:DeleteSecurityGroup") || f.removed {
		t.Errorf("without the right to delete what launches have created: exit %d %s, removed: %v", r.code, r.err, f.removed)
	}
	refused = false
	if r := p.ok(t, "cloud", "remove", "aws"); !f.removed || !strings.Contains(r.err, "security group g: removed\n") {
		t.Errorf("removed: %v\n%s", f.removed, r.err)
	}
}
