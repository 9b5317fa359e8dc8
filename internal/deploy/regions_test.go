package deploy_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/tradewind-broker/tradewind/internal/deploy"
	"github.com/tradewind-broker/tradewind/internal/deploy/deploytest"
	"github.com/tradewind-broker/tradewind/internal/emulator"
)

// The next deployment does not name a region any more. The region's stack must be removed, because it would forward
// notices for ever.
func TestDroppedRegionLosesItsStack(t *testing.T) {
	cfg := emulator.Config(deploytest.Rewriting(t, emulator.Moto(t), deploytest.WithRegions("deploy-d", "us-east-1,eu-west-1,us-west-2")))
	r := &rig{T: t, cfg: cfg, Assembly: deploytest.New(t, "deploy-d")}
	var err error
	if r.target, err = deploy.Open(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	r.target.Look = 10 * time.Millisecond
	r.Template(template("deploy-d"))
	if _, err := r.deploy(); err != nil {
		t.Fatal(err)
	}
	far := r.stack()
	far.Name = "deploy-d-notices-eu-west-1"
	if _, err := r.target.In("eu-west-1").Deploy(t.Context(), far, ""); err != nil {
		t.Fatal(err)
	}
	next := &deploy.Assembly{Stacks: []deploy.Stack{{Name: "deploy-d"}, {Name: "x", Region: "us-west-2"}}}
	dropped, err := r.target.Dropped(t.Context(), next)
	if err != nil || !slices.Equal(dropped, []string{"eu-west-1"}) {
		t.Fatalf("dropped %v, %v", dropped, err)
	}
	client := ec2.NewFromConfig(cfg, func(o *ec2.Options) { o.Region = "eu-west-1" })
	run, err := client.RunInstances(t.Context(), &ec2.RunInstancesInput{
		ImageId: aws.String("ami-12c6146b"), MinCount: aws.Int32(1), MaxCount: aws.Int32(1),
		TagSpecifications: []types.TagSpecification{{ResourceType: types.ResourceTypeInstance,
			Tags: []types.Tag{{Key: aws.String("tradewind:deployment"), Value: aws.String("deploy-d")}}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	id := aws.ToString(run.Instances[0].InstanceId)
	if err := r.target.CheckDropped(t.Context(), "deploy-d", dropped); !errors.Is(err, deploy.ErrMachines) ||
		!strings.Contains(err.Error(), id+" in eu-west-1") {
		t.Errorf("with a machine there: %v", err)
	}
	if _, err := client.TerminateInstances(t.Context(), &ec2.TerminateInstancesInput{InstanceIds: []string{id}}); err != nil {
		t.Fatal(err)
	}
	if err := r.target.CheckDropped(t.Context(), "deploy-d", dropped); err != nil {
		t.Error(err)
	}
	for range 2 { // and again after the deletion
		if err := r.target.Drop(t.Context(), "deploy-d", "eu-west-1"); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := r.target.In("eu-west-1").Outputs(t.Context(), far.Name); !errors.Is(err, deploy.ErrNoStack) {
		t.Errorf("the stack is left: %v", err)
	}
}
