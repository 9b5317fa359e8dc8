package cli

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/tradewind-broker/tradewind/internal/cli/command"
	"github.com/tradewind-broker/tradewind/internal/cli/deployment"
	"github.com/tradewind-broker/tradewind/internal/deploy"
	"github.com/tradewind-broker/tradewind/internal/deploy/deploytest"
	"github.com/tradewind-broker/tradewind/internal/emulator"
)

// withAWS makes the SDK use an emulator and no credentials of this computer.
func withAWS(t *testing.T, endpoint string) {
	t.Helper()
	for _, kv := range emulator.Env(endpoint) {
		name, value, _ := strings.Cut(kv, "=")
		t.Setenv(name, value)
	}
	t.Setenv("AWS_ENDPOINT_URL", "") // only the flag sets the endpoint
	t.Setenv("AWS_PROFILE", "")
}

const queueTemplate = `{"Resources":{
	"Work":{"Type":"AWS::S3::Bucket","Properties":{"BucketName":{"Fn::Sub":"cli-work-${AWS::AccountId}-${AWS::Region}"}}},
	"Queue":{"Type":"AWS::SQS::Queue","Properties":{"QueueName":"NAME"}}}}`

func TestDeployAWS(t *testing.T) {
	endpoint := emulator.Moto(t)
	withAWS(t, endpoint)
	a := deploytest.New(t, "cli")
	a.Template(strings.Replace(queueTemplate, "NAME", "cli-one", 1))
	p := newProgram(t)
	with := []string{"deploy", "aws", "--endpoint-url", endpoint, "--assembly", a.Dir, "--assets", a.Assets}
	run := func(more ...string) result { return p.run(append(with[:len(with):len(with)], more...)...) }
	if r := run("--diff"); r.code != command.ExitDone || !strings.Contains(r.out, "AWS::SQS::Queue") || !strings.Contains(r.out, "2 resources would change") {
		t.Fatalf("diff: exit %d\n%s\n%s", r.code, r.out, r.err)
	}
	var d deployment.Deployment
	r := run("-o", "json")
	if err := json.Unmarshal([]byte(r.out), &d); err != nil || r.code != command.ExitDone || len(d.Stacks) != 1 || len(d.Stacks[0].Changes) != 2 || !d.Stacks[0].New {
		t.Fatalf("exit %d, %v\n%s\n%s", r.code, err, r.out, r.err)
	}
	// Amazon S3 User Guide, "Enabling Amazon EventBridge": it takes around five minutes. The emulator needs no time.
	if !strings.Contains(r.err, "S3 reports files in a new bucket from about") {
		t.Errorf("it does not say from when files are seen\n%s", r.err)
	}
	if !strings.Contains(r.err, "agent for amd64") || strings.Contains(r.err, "IN_PROGRESS") {
		t.Errorf("progress\n%s", r.err)
	}
	if r = run("--diff"); r.code != command.ExitDone || r.out != "nothing would change\n" {
		t.Errorf("diff of nothing: exit %d\n%s\n%s", r.code, r.out, r.err)
	}
	destroy := []string{"deploy", "aws", "--endpoint-url", endpoint, "--name", "cli", "--destroy"}
	if r = p.run(destroy...); r.code != command.ExitBadInput || !strings.Contains(r.err, "--yes") {
		t.Errorf("destroy unasked: exit %d\n%s", r.code, r.err)
	}
	if r = p.run(append(destroy, "--yes")...); r.code != command.ExitDone || !strings.Contains(r.out, "deleted cli") {
		t.Errorf("destroy: exit %d\n%s\n%s", r.code, r.out, r.err)
	}
	left := leftGroup(t, endpoint, "cli") // as if a machine that was still ending had blocked its deletion
	if r = p.run(append(destroy, "--yes")...); r.code != command.ExitBadInput || !strings.Contains(r.err, "no such stack: cli") {
		t.Errorf("destroy again: exit %d\n%s\n%s", r.code, r.out, r.err)
	}
	if left() {
		t.Errorf("the security group is left\n%s", r.err)
	}
}

// A rollback sets the properties of the changed resources again, like the update before it: polling and schedules go to
// sleep (AWS CloudFormation user guide, "Understand update behaviors of stack resources").
func TestFailedUpdateWakesTheDeployment(t *testing.T) {
	var woken atomic.Bool
	endpoint := deploytest.Rewriting(t, emulator.Moto(t), func(request, answer string) string {
		if strings.Contains(request, "reconcile-deploy-") {
			woken.Store(true)
		}
		return strings.ReplaceAll(answer, "UPDATE_COMPLETE", "UPDATE_ROLLBACK_COMPLETE")
	})
	withAWS(t, endpoint)
	a := deploytest.New(t, "cli-r")
	p := newProgram(t)
	deployed := func(queue string) result {
		text := strings.ReplaceAll(strings.Replace(queueTemplate, "NAME", queue, 1), "cli-work", "cli-r-work")
		a.Template(text)
		return p.run("deploy", "aws", "--endpoint-url", endpoint, "--assembly", a.Dir, "--assets", a.Assets)
	}
	if r := deployed("cli-r-one"); r.code != command.ExitDone || woken.Load() {
		t.Fatalf("exit %d, woken %v\n%s", r.code, woken.Load(), r.err)
	}
	if r := deployed("cli-r-two"); r.code == command.ExitDone || !strings.Contains(r.err, "UPDATE_ROLLBACK_COMPLETE") {
		t.Errorf("exit %d\n%s", r.code, r.err)
	}
	if !woken.Load() {
		t.Error("reconcile was not invoked after the rollback")
	}
}

// Without --regions, the stack of a region that was named before is deleted.
func TestDeployAWSRemovesStackOfDroppedRegion(t *testing.T) {
	endpoint := deploytest.Rewriting(t, emulator.Moto(t), deploytest.WithRegions("cli-d", "us-east-1,eu-west-1"))
	withAWS(t, endpoint)
	a := deploytest.New(t, "cli-d")
	a.Template(strings.ReplaceAll(strings.Replace(queueTemplate, "NAME", "cli-d-one", 1), "cli-work", "cli-d-work"))
	p := newProgram(t)
	with := []string{"deploy", "aws", "--endpoint-url", endpoint, "--assembly", a.Dir, "--assets", a.Assets}
	if r := p.run(with...); r.code != command.ExitDone {
		t.Fatalf("exit %d\n%s", r.code, r.err)
	}
	target, err := deploy.Open(t.Context(), emulator.Config(endpoint))
	if err != nil {
		t.Fatal(err)
	}
	assembly, err := deploy.ReadAssembly(a.Dir)
	if err != nil {
		t.Fatal(err)
	}
	far := assembly.Stacks[0]
	far.Name = "cli-d-notices-eu-west-1"
	if _, err := target.In("eu-west-1").Deploy(t.Context(), far, ""); err != nil {
		t.Fatal(err)
	}
	if r := p.run(append(with, "--diff")...); !strings.Contains(r.out, "Remove") || !strings.Contains(r.out, far.Name) {
		t.Errorf("diff: exit %d\n%s\n%s", r.code, r.out, r.err)
	}
	if _, err := target.In("eu-west-1").Outputs(t.Context(), far.Name); err != nil {
		t.Errorf("the diff removed it: %v", err)
	}
	if r := p.run(with...); r.code != command.ExitDone {
		t.Errorf("exit %d\n%s", r.code, r.err)
	}
	if _, err := target.In("eu-west-1").Outputs(t.Context(), far.Name); !errors.Is(err, deploy.ErrNoStack) {
		t.Errorf("the stack is left: %v", err)
	}
}

// leftGroup creates the security group of a deployment's machines. left reports whether it still exists.
func leftGroup(t *testing.T, endpoint, name string) (left func() bool) {
	t.Helper()
	client := ec2.NewFromConfig(emulator.Config(endpoint))
	_, err := client.CreateSecurityGroup(t.Context(), &ec2.CreateSecurityGroupInput{
		GroupName: aws.String(name + "-machines"), Description: aws.String("x"),
		TagSpecifications: []types.TagSpecification{{ResourceType: types.ResourceTypeSecurityGroup,
			Tags: []types.Tag{{Key: aws.String("tradewind:deployment"), Value: &name}}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return func() bool {
		out, err := client.DescribeSecurityGroups(t.Context(), &ec2.DescribeSecurityGroupsInput{
			Filters: []types.Filter{{Name: aws.String("group-name"), Values: []string{name + "-machines"}}},
		})
		if err != nil {
			t.Fatal(err)
		}
		return len(out.SecurityGroups) > 0
	}
}

func TestDeployAWSErrors(t *testing.T) {
	withAWS(t, "http://127.0.0.1:1")
	for line, want := range map[string]string{
		"--diff --destroy":                    "leave out one of them",
		"--assembly x":                        "need each other",
		"--architecture mips":                 "arm64",
		"extra":                               "extra",
		"--profile nobody-has-it --region eu": "cannot read",
	} {
		p := newProgram(t)
		if r := p.run(append([]string{"deploy", "aws"}, strings.Fields(line)...)...); r.code != command.ExitBadInput || !strings.Contains(r.err, want) {
			t.Errorf("%s: exit %d\n%s", line, r.code, r.err)
		}
	}
	t.Setenv("AWS_ACCESS_KEY_ID", "")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "")
	p := newProgram(t)
	if r := p.run("deploy", "aws"); r.code != command.ExitFailed || !strings.Contains(r.err, "no AWS credentials") || !strings.Contains(r.err, "aws configure") {
		t.Errorf("exit %d\n%s", r.code, r.err)
	}
}

func TestDeployAWSNeedsClone(t *testing.T) {
	endpoint := emulator.Moto(t)
	withAWS(t, endpoint)
	p := newProgram(t)
	if r := p.run("deploy", "aws", "--endpoint-url", endpoint, "--source", t.TempDir()); r.code != command.ExitBadInput || !strings.Contains(r.err, "clone the repository") {
		t.Errorf("exit %d\n%s", r.code, r.err)
	}
	// A clone is found from any of its folders. Its build is the real one, so the test makes it fail at once.
	root := t.TempDir()
	for name, text := range map[string]string{"go.mod": "module github.com/tradewind-broker/tradewind\n", "infra/main.go": "package main\n", "docs/x": ""} {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", t.TempDir())
	if r := p.run("deploy", "aws", "--endpoint-url", endpoint, "--source", filepath.Join(root, "docs")); r.code != command.ExitFailed || !strings.Contains(r.err, "a tool is missing: go") {
		t.Errorf("exit %d\n%s", r.code, r.err)
	}
}
