package deploy_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/ssm"
	ssmtypes "github.com/aws/aws-sdk-go-v2/service/ssm/types"

	"github.com/tradewind-broker/tradewind/internal/deploy"
	"github.com/tradewind-broker/tradewind/internal/deploy/deploytest"
	"github.com/tradewind-broker/tradewind/internal/emulator"
)

// template returns a template with a table, a work bucket and some queues.
func template(name string, queues ...string) string {
	all := map[string]any{
		"Table": map[string]any{"Type": "AWS::DynamoDB::Table", "Properties": map[string]any{
			"TableName": name, "BillingMode": "PAY_PER_REQUEST",
			"KeySchema":            []any{map[string]any{"AttributeName": "pk", "KeyType": "HASH"}},
			"AttributeDefinitions": []any{map[string]any{"AttributeName": "pk", "AttributeType": "S"}},
		}},
		"Work": map[string]any{"Type": "AWS::S3::Bucket", "Properties": map[string]any{
			"BucketName": map[string]any{"Fn::Sub": name + "-work-${AWS::AccountId}-${AWS::Region}"},
		}},
	}
	for _, q := range queues {
		all[q] = map[string]any{"Type": "AWS::SQS::Queue", "Properties": map[string]any{"QueueName": name + "-" + q}}
	}
	raw, err := json.Marshal(map[string]any{"Resources": all, "Outputs": map[string]any{
		"WorkBucket": map[string]any{"Value": map[string]any{"Ref": "Work"}},
	}})
	if err != nil {
		panic(err)
	}
	return string(raw)
}

// rig deploys an assembly to moto.
type rig struct {
	*testing.T
	*deploytest.Assembly
	target *deploy.Target
	cfg    aws.Config
	steps  []deploy.Step
}

func newRig(t *testing.T, name string) *rig {
	t.Helper()
	r := &rig{T: t, cfg: emulator.Config(emulator.Moto(t)), Assembly: deploytest.New(t, name)}
	var err error
	if r.target, err = deploy.Open(t.Context(), r.cfg); err != nil {
		t.Fatal(err)
	}
	r.target.Look, r.target.Progress = 10*time.Millisecond, func(s deploy.Step) { r.steps = append(r.steps, s) }
	return r
}

func (r *rig) stack() deploy.Stack {
	r.Helper()
	a, err := deploy.ReadAssembly(r.Dir)
	if err != nil {
		r.Fatal(err)
	}
	return a.Stacks[0]
}

// deploy deploys, and returns the changes, such as "Add Queue".
func (r *rig) deploy() ([]string, error) {
	r.Helper()
	set, err := r.target.Deploy(r.Context(), r.stack(), r.Assets)
	return changes(set), err
}

func changes(set *deploy.ChangeSet) []string {
	var out []string
	if set != nil {
		for _, c := range set.Changes {
			out = append(out, c.Action+" "+c.ID)
		}
	}
	slices.Sort(out)
	return out
}

func (r *rig) agents(bucket string) int {
	r.Helper()
	client := s3.NewFromConfig(r.cfg, func(o *s3.Options) { o.UsePathStyle = true })
	out, err := client.ListObjectsV2(r.Context(), &s3.ListObjectsV2Input{Bucket: &bucket, Prefix: aws.String("agent/")})
	if err != nil {
		r.Fatal(err)
	}
	return len(out.Contents)
}

func TestStackLifecycle(t *testing.T) {
	r := newRig(t, "deploy-a")
	r.Template(template("deploy-a", "one"))
	set, err := r.target.Diff(t.Context(), r.stack())
	if got := changes(set); err != nil || !slices.Equal(got, []string{"Add Table", "Add Work", "Add one"}) || !set.New {
		t.Fatalf("diff: %v, %v", got, err)
	}
	if _, err := r.target.Outputs(t.Context(), "deploy-a"); !errors.Is(err, deploy.ErrNoStack) {
		t.Errorf("the diff left a stack: %v", err)
	}
	if got, err := r.deploy(); err != nil || len(got) != 3 {
		t.Fatalf("deploy: %v, %v", got, err)
	}
	// moto has no outputs of stacks that change sets made
	if _, err := r.target.Outputs(t.Context(), "deploy-a"); err != nil {
		t.Fatal(err)
	}
	work := r.target.WorkBucket("deploy-a")
	if n := r.agents(work); n != 1 {
		t.Errorf("%d agents", n)
	}
	r.Template(template("deploy-a", "one", "two"))
	r.Agent("two")
	if got, err := r.deploy(); err != nil || !slices.Equal(got, []string{"Add two"}) {
		t.Errorf("second: %v, %v", got, err)
	}
	if n := r.agents(work); n != 2 { // running machines may still fetch the first one
		t.Errorf("%d agents", n)
	}
	r.steps = nil
	if _, err := r.deploy(); err != nil {
		t.Errorf("again: %v", err)
	}
	for _, s := range r.steps {
		if s.What == "upload" {
			t.Errorf("%v was uploaded again", s)
		}
	}
	if err := r.target.Destroy(t.Context(), "deploy-a", "deploy-a"); err != nil {
		t.Fatal(err)
	}
	if err := r.target.Destroy(t.Context(), "deploy-a", "deploy-a"); !errors.Is(err, deploy.ErrNoStack) {
		t.Errorf("destroyed twice: %v", err)
	}
}

func TestDeployRejectsDataLoss(t *testing.T) {
	r := newRig(t, "deploy-b")
	r.Template(template("deploy-b", "one"))
	if _, err := r.deploy(); err != nil {
		t.Fatal(err)
	}
	r.Template(strings.Replace(template("deploy-b", "one", "two"), `"Table":`, `"OtherTable":`, 1))
	if got, err := r.deploy(); !errors.Is(err, deploy.ErrData) || !strings.Contains(err.Error(), "Table") {
		t.Errorf("%v, %v", got, err)
	}
	// No change was made.
	r.Template(template("deploy-b", "one"))
	if set, err := r.target.Diff(t.Context(), r.stack()); err != nil || len(set.Changes) > 0 {
		t.Errorf("%v, %v", changes(set), err)
	}
}

func TestDestroyRejectsRunningMachines(t *testing.T) {
	r := newRig(t, "deploy-c")
	r.Template(template("deploy-c"))
	if _, err := r.deploy(); err != nil {
		t.Fatal(err)
	}
	ctx, client, store := t.Context(), ec2.NewFromConfig(r.cfg), ssm.NewFromConfig(r.cfg)
	tags := func(of types.ResourceType) []types.TagSpecification {
		return []types.TagSpecification{{ResourceType: of, Tags: []types.Tag{{Key: aws.String("tradewind:deployment"), Value: aws.String("deploy-c")}}}}
	}
	run, err := client.RunInstances(ctx, &ec2.RunInstancesInput{
		ImageId: aws.String("ami-12c6146b"), MinCount: aws.Int32(1), MaxCount: aws.Int32(1), TagSpecifications: tags(types.ResourceTypeInstance),
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.CreateSecurityGroup(ctx, &ec2.CreateSecurityGroupInput{
		GroupName: aws.String("deploy-c-machines"), Description: aws.String("x"), TagSpecifications: tags(types.ResourceTypeSecurityGroup),
	}); err != nil {
		t.Fatal(err)
	}
	if _, err := store.PutParameter(ctx, &ssm.PutParameterInput{
		Name: aws.String("/deploy-c/token-key"), Value: aws.String("k"), Type: ssmtypes.ParameterTypeSecureString,
	}); err != nil {
		t.Fatal(err)
	}
	id := aws.ToString(run.Instances[0].InstanceId)
	if err := r.target.Destroy(ctx, "deploy-c", "deploy-c"); !errors.Is(err, deploy.ErrMachines) || !strings.Contains(err.Error(), id) {
		t.Fatal(err)
	}
	if _, err := r.target.Outputs(ctx, "deploy-c"); err != nil {
		t.Fatalf("it was touched: %v", err)
	}
	if _, err := client.TerminateInstances(ctx, &ec2.TerminateInstancesInput{InstanceIds: []string{id}}); err != nil {
		t.Fatal(err)
	}
	if err := r.target.Destroy(ctx, "deploy-c", "deploy-c"); err != nil {
		t.Fatal(err)
	}
	groups, err := client.DescribeSecurityGroups(ctx, &ec2.DescribeSecurityGroupsInput{Filters: []types.Filter{
		{Name: aws.String("group-name"), Values: []string{"deploy-c-machines"}},
	}})
	if err != nil || len(groups.SecurityGroups) > 0 {
		t.Errorf("the security group is left: %v", err)
	}
	if _, err := store.GetParameter(ctx, &ssm.GetParameterInput{Name: aws.String("/deploy-c/token-key")}); err == nil {
		t.Error("the key is left")
	}
}

func TestReadAssemblyErrors(t *testing.T) {
	dir := t.TempDir()
	if _, err := deploy.ReadAssembly(dir); !errors.Is(err, deploy.ErrAssembly) {
		t.Error(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "manifest.json"), []byte(`{"artifacts":{}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := deploy.ReadAssembly(dir); !errors.Is(err, deploy.ErrAssembly) || !strings.Contains(err.Error(), "no stack") {
		t.Error(err)
	}
	if _, err := deploy.FindSource(dir); !errors.Is(err, deploy.ErrNoSource) {
		t.Error(err)
	}
	if root, err := deploy.FindSource("."); err != nil || filepath.Base(filepath.Dir(filepath.Dir(absolute(t)))) != filepath.Base(root) {
		t.Errorf("%s, %v", root, err)
	}
}

func absolute(t *testing.T) string {
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestOpenWithoutCredentialsOrRegion(t *testing.T) {
	cfg := emulator.Config("http://127.0.0.1:1")
	cfg.Region = ""
	if _, err := deploy.Open(t.Context(), cfg); !errors.Is(err, deploy.ErrNoRegion) {
		t.Error(err)
	}
	cfg.Region, cfg.Credentials = "us-east-1", aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
		return aws.Credentials{}, fmt.Errorf("none")
	})
	if _, err := deploy.Open(t.Context(), cfg); !errors.Is(err, deploy.ErrNoCredentials) {
		t.Error(err)
	}
}

func TestBuildErrorIncludesOutput(t *testing.T) {
	bin := t.TempDir()
	for name, script := range map[string]string{"go": "#!/bin/sh\necho \"$@\" >>" + bin + "/calls\necho it does not compile >&2\nexit 1\n", "node": "#!/bin/sh\n"} {
		if err := os.WriteFile(filepath.Join(bin, name), []byte(script), 0o700); err != nil { //nolint:gosec // a program
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", bin)
	var log bytes.Buffer
	b := &deploy.Builder{Source: t.TempDir(), Log: &log}
	if _, err := b.Build(t.Context(), deploy.Settings{Architecture: "x86_64"}); !errors.Is(err, deploy.ErrBuild) ||
		!strings.Contains(err.Error(), "functions") || !strings.Contains(err.Error(), "it does not compile") || log.Len() == 0 {
		t.Error(err)
	}
	if calls, err := os.ReadFile(filepath.Join(bin, "calls")); err != nil || !strings.Contains(string(calls), "-arch amd64") {
		t.Errorf("%s, %v", calls, err)
	}
	t.Setenv("PATH", t.TempDir())
	if _, err := b.Build(t.Context(), deploy.Settings{}); !errors.Is(err, deploy.ErrNoTool) {
		t.Error(err)
	}
}

func TestBuildPassesKeysToTemplate(t *testing.T) {
	bin, source := t.TempDir(), t.TempDir()
	for name, script := range map[string]string{
		"go":   "#!/bin/sh\necho \"$@\" >>" + bin + "/calls\ncase \"$2\" in .) exit 1;; esac\n",
		"node": "#!/bin/sh\n",
	} {
		if err := os.WriteFile(filepath.Join(bin, name), []byte(script), 0o700); err != nil { //nolint:gosec // a program
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(source, "infra"), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin)
	const keys = "arn:aws:kms:eu-west-1:111122223333:key/a,arn:aws:kms:us-east-1:111122223333:key/b"
	_, err := (&deploy.Builder{Source: source}).Build(t.Context(), deploy.Settings{KMSKeys: strings.Split(keys, ",")})
	calls, readErr := os.ReadFile(filepath.Join(bin, "calls"))
	if !errors.Is(err, deploy.ErrBuild) || readErr != nil || !strings.Contains(string(calls), " -kms-keys="+keys) {
		t.Errorf("%s, %v, %v", calls, err, readErr)
	}
}
