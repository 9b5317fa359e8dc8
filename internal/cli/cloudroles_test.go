package cli

import (
	"crypto/rand"
	"crypto/rsa"
	"net/http/httptest"
	"strings"
	"testing"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/spf13/pflag"

	"github.com/tradewind-broker/tradewind/internal/cloudkit"
	"github.com/tradewind-broker/tradewind/internal/cloudkit/kits"
	"github.com/tradewind-broker/tradewind/internal/emulator"
	"github.com/tradewind-broker/tradewind/internal/emulator/gce"
	"github.com/tradewind-broker/tradewind/internal/emulator/gcs"
	"github.com/tradewind-broker/tradewind/internal/grant/servers"
	"github.com/tradewind-broker/tradewind/internal/host"
)

// rolesStory adds a cloud with services, checks it after lose has deleted one role, adds it again, and removes it.
type rolesStory struct {
	add     string // the command without --print
	prints  []string
	lose    func(deployment string)
	missing func(deployment string) []string // what the check then shows
	left    func() []string                  // the roles and accounts that exist
}

func (s rolesStory) run(t *testing.T, p *program) {
	t.Helper()
	deployment, err := host.DeploymentOf(p.state)
	if err != nil {
		t.Fatal(err)
	}
	name := strings.Fields(s.add)[2]
	before := len(s.left())
	printed := p.ok(t, strings.Fields(s.add+" --print")...)
	for _, want := range s.prints {
		if !strings.Contains(printed.out, want) {
			t.Errorf("--print lacks %q:\n%s", want, printed.out)
		}
	}
	if now := s.left(); len(now) > before {
		t.Errorf("--print has created %v", now)
	}
	if r := p.ok(t, strings.Fields(s.add)...); strings.Count(r.err, ": made\n") < 3 || strings.Contains(r.out, " is missing") {
		t.Errorf("added: %s%s", r.err, r.out)
	}
	if r := p.ok(t, strings.Fields(s.add)...); strings.Contains(r.err, ": made\n") {
		t.Errorf("added again: %s", r.err)
	}
	if r := p.ok(t, "cloud", "check", name); strings.Contains(r.out, " is missing") || strings.Contains(r.out, "not known") {
		t.Errorf("check: %s", r.out)
	}
	s.lose(deployment)
	for _, command := range []string{"cloud check " + name, "doctor " + name} {
		r := p.run(strings.Fields(command)...)
		for _, want := range s.missing(deployment) {
			if !strings.Contains(r.out, want) {
				t.Errorf("%s lacks %q:\n%s%s", command, want, r.out, r.err)
			}
		}
	}
	if r := p.ok(t, strings.Fields(s.add)...); strings.Count(r.err, ": made\n") == 0 {
		t.Errorf("added a third time: %s", r.err)
	}
	if r := p.ok(t, "cloud", "remove", name); strings.Count(r.err, ": removed\n") < 3 {
		t.Errorf("removed: %s", r.err)
	}
	if now := s.left(); len(now) > before {
		t.Errorf("left: %v", now)
	}
}

func TestCloudAddCreatesRolesOfServicesOnAWS(t *testing.T) {
	endpoint := emulator.OwnMoto(t)
	for _, kv := range emulator.Env(endpoint) {
		name, value, _ := strings.Cut(kv, "=")
		t.Setenv(name, value)
	}
	t.Setenv("AWS_MAX_ATTEMPTS", "1") // moto lacks some services
	client := iam.NewFromConfig(emulator.Config(endpoint))
	p := newProgram(t)
	p.clouds.Kits = kits.All()
	rolesStory{
		add: "cloud add aws --services emr,emr-serverless",
		prints: []string{"aws iam create-role --role-name ", "aws iam put-role-policy ", "aws iam create-instance-profile ",
			"elasticmapreduce.amazonaws.com", "emr-serverless.amazonaws.com", "aws s3 mb s3://"},
		lose: func(deployment string) {
			role := awssdk.String(deployment + "-spark")
			_, err := client.DeleteRolePolicy(t.Context(), &iam.DeleteRolePolicyInput{RoleName: role, PolicyName: awssdk.String("tradewind")})
			if err == nil {
				_, err = client.DeleteRole(t.Context(), &iam.DeleteRoleInput{RoleName: role})
			}
			if err != nil {
				t.Error(err)
			}
		},
		missing: func(deployment string) []string {
			return []string{"role " + deployment + "-spark is missing", "tradewind cloud add aws --services emr,emr-serverless"}
		},
		left: func() (all []string) {
			roles, err := client.ListRoles(t.Context(), &iam.ListRolesInput{})
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range roles.Roles {
				all = append(all, *r.RoleName)
			}
			return all
		},
	}.run(t, p)
}

func TestCloudAddCreatesRolesOfServicesOnGoogle(t *testing.T) {
	google, err := gce.New(gce.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(google.Close)
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	const signer = "broker@demo.iam.gserviceaccount.com"
	gate, err := gcs.New(servers.FakeGCS(t), signer, key)
	if err != nil {
		t.Fatal(err)
	}
	api, storage := httptest.NewServer(google), httptest.NewServer(gate)
	t.Cleanup(api.Close)
	t.Cleanup(storage.Close)
	p := newProgram(t)
	p.clouds.Kits = nil
	for _, k := range kits.All() {
		if flags := k.Flags; k.Name == "gcp" {
			k.Flags = func(f *pflag.FlagSet, s *cloudkit.Settings) {
				flags(f, s)
				s.Endpoint, s.Storage = api.URL, storage.URL
			}
		}
		p.clouds.Kits = append(p.clouds.Kits, k)
	}
	rolesStory{
		add: "cloud add gcp --project demo --regions us-central1 --member user:ada@example.com --impersonate " + signer +
			" --services dataproc,dataproc-serverless",
		prints: []string{"gcloud services enable dataproc.googleapis.com", "gcloud iam service-accounts create ",
			"--role roles/dataproc.worker", "dataproc.clusters.create,"},
		lose: func(string) { google.DisableService("dataproc.googleapis.com") },
		missing: func(string) []string {
			return []string{"service dataproc.googleapis.com is missing", "gcloud services enable dataproc.googleapis.com --project demo"}
		},
		left: func() (all []string) {
			for what, there := range google.Created() {
				if there && !strings.HasPrefix(what, "service ") {
					all = append(all, what)
				}
			}
			return all
		},
	}.run(t, p)
}
