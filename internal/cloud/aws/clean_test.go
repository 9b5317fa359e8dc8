package aws_test

import (
	"errors"
	"net/http"
	"slices"
	"testing"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/tradewind-broker/tradewind/internal/cloud/aws"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
)

// groups returns those of the regions that have a security group with the deployment's tag.
func (w *world) groups(regions ...string) (in []string) {
	w.Helper()
	for _, region := range regions {
		out, err := w.straight.DescribeSecurityGroups(w.Context(), &ec2.DescribeSecurityGroupsInput{
			Filters: []types.Filter{{Name: awssdk.String("tag:tradewind:deployment"), Values: []string{w.cfg.Deployment}}},
		}, func(o *ec2.Options) { o.Region = region })
		if err != nil {
			w.Fatal(err)
		}
		for range out.SecurityGroups {
			in = append(in, region)
		}
	}
	return in
}

// Clean must delete the deployment's security groups in all regions. Machines were bought in two regions, of which
// the settings now name only one, and an organization forbids all calls to a third. EC2 refuses to delete a group
// while the network interface of its last machine exists.
func TestCleanDeletesSecurityGroupsOfAllRegions(t *testing.T) {
	w := newWorld(t, func(c *aws.Config) { c.Regions = []string{"us-east-1", "us-west-2"} })
	west := onDemand
	west.Region, west.Zone = "us-west-2", "usw2-az1"
	w.launch(w.spec("east", onDemand, 1))
	w.launch(w.spec("west", west, 1))
	w.terminate("east")
	w.terminate("west")
	regions := []string{"us-east-1", "us-west-2"}
	if in := w.groups(regions...); !slices.Equal(in, regions) {
		t.Fatalf("groups in %v", in)
	}
	other := newWorld(t, nil)
	other.launch(other.spec("c", onDemand, 1))

	w.cfg.Regions = regions[:1]
	w.aws = aws.New(w.sdk(), w.cfg)
	w.proxy.add(&rule{action: "DescribeSecurityGroups", region: "eu-west-1", times: -1,
		act: func(rw http.ResponseWriter, _ *http.Request, _ func(http.ResponseWriter)) {
			writeError(rw, "UnauthorizedOperation", "with an explicit deny in a service control policy", http.StatusForbidden, nil)
		}})
	w.proxy.refuse("DeleteSecurityGroup", 2, "DependencyViolation", "resource sg-1 has a dependent object", http.StatusBadRequest, nil)
	var deleted []string
	if err := w.aws.Clean(t.Context(), func(what string) { deleted = append(deleted, what) }); err != nil {
		t.Fatal(err)
	}
	slices.Sort(deleted)
	name := "security group " + w.cfg.Deployment + "-machines in "
	if want := []string{name + "us-east-1", name + "us-west-2"}; !slices.Equal(deleted, want) {
		t.Errorf("deleted %q, want %q", deleted, want)
	}
	if in := w.groups(regions...); len(in) > 0 {
		t.Errorf("groups are left in %v", in)
	}
	if in := other.groups(regions...); len(in) != 1 {
		t.Errorf("the other deployment has groups in %v", in)
	}
	if err := w.aws.Clean(t.Context(), func(what string) { t.Error(what) }); err != nil {
		t.Errorf("again: %v", err)
	}
}

// The right to delete is missing. Clean must report that, and must not report anything as deleted.
func TestCleanReportsMissingRight(t *testing.T) {
	w := newWorld(t, nil)
	w.launch(w.spec("c", onDemand, 1))
	w.terminate("c")
	w.proxy.refuse("DeleteSecurityGroup", -1, "UnauthorizedOperation", "You are not authorized", http.StatusForbidden, nil)
	err := w.aws.Clean(t.Context(), func(what string) { t.Error(what) })
	var refused *cloud.Error
	if !errors.As(err, &refused) || refused.Kind != cloud.Auth || refused.Code != "UnauthorizedOperation" {
		t.Error(err)
	}
}
