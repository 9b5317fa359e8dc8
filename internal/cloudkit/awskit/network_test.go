package awskit_test

import (
	"encoding/base64"
	"encoding/xml"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/spf13/pflag"

	"github.com/tradewind-broker/tradewind/internal/cloud/driver"
	"github.com/tradewind-broker/tradewind/internal/cloudkit"
	"github.com/tradewind-broker/tradewind/internal/cloudkit/awskit"
	"github.com/tradewind-broker/tradewind/internal/emulator"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
)

// flagged returns the settings that `cloud add aws` makes from the given flags.
func flagged(t *testing.T, args ...string) (s cloudkit.Settings) {
	t.Helper()
	f := pflag.NewFlagSet("add", pflag.ContinueOnError)
	awskit.Kit().Flags(f, &s)
	if err := f.Parse(args); err != nil {
		t.Fatal(err)
	}
	if err := awskit.Kit().Ready(s, os.Getenv); err != nil {
		t.Fatal(err)
	}
	s.Regions = []string{"us-east-1"}
	return s
}

// bought launches one machine and returns EC2's description of it and its boot script.
func bought(t *testing.T, client *ec2.Client, s cloudkit.Settings, image string) (types.Instance, string) {
	t.Helper()
	name := fmt.Sprintf("net-%d", time.Now().UnixNano())
	o, err := awskit.Kit().Open(t.Context(), cloudkit.Request{Settings: s, Deployment: name, Lookup: os.Getenv,
		Agents: driver.Agents{"": strings.Repeat("0123456789abcdef", 4)}})
	if err != nil {
		t.Fatal(err)
	}
	machines, err := o.Cloud.Launch(t.Context(), cloud.LaunchSpec{
		Cluster: name, Nodes: 1, Image: image, Offer: apitypes.Offer{Cloud: "aws", Region: "us-east-1", Zone: "use1-az1",
			InstanceType: "t3.micro", USDPerHour: 0.0104},
		Bootstrap: cloud.Bootstrap{Endpoint: "https://broker.example", Tokens: []string{"token"}},
	})
	if err != nil || len(machines) != 1 {
		t.Fatalf("%v, %v", machines, err)
	}
	out, err := client.DescribeInstances(t.Context(),
		&ec2.DescribeInstancesInput{InstanceIds: []string{machines[0].ID}})
	if err != nil {
		t.Fatal(err)
	}
	data, err := client.DescribeInstanceAttribute(t.Context(), &ec2.DescribeInstanceAttributeInput{
		InstanceId: &machines[0].ID, Attribute: types.InstanceAttributeNameUserData,
	})
	if err != nil {
		t.Fatal(err)
	}
	script, err := base64.StdEncoding.DecodeString(awssdk.ToString(data.UserData.Value))
	if err != nil {
		t.Fatal(err)
	}
	return out.Reservations[0].Instances[0], string(script)
}

// makeProfile creates an instance profile and returns its ARN. This is the only IAM call in the tests, so it needs no
// IAM client.
func makeProfile(t *testing.T, name string) string {
	t.Helper()
	form := url.Values{"Action": {"CreateInstanceProfile"}, "Version": {"2010-05-08"}, "InstanceProfileName": {name}}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, emulator.Moto(t),
		strings.NewReader(form.Encode()))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential=test/20260101/us-east-1/iam/aws4_request")
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	var out struct {
		ARN string `xml:"CreateInstanceProfileResult>InstanceProfile>Arn"`
	}
	if err := xml.NewDecoder(res.Body).Decode(&out); err != nil || out.ARN == "" {
		t.Fatalf("%s: %+v, %v", res.Status, out, err)
	}
	return out.ARN
}

func TestLaunchAppliesNetworkSettings(t *testing.T) {
	account(t, nil)
	client := ec2.NewFromConfig(emulator.Config(emulator.Moto(t)))
	profile := fmt.Sprintf("tasks-%d", time.Now().UnixNano())
	arn := makeProfile(t, profile)
	image, err := client.RegisterImage(t.Context(), &ec2.RegisterImageInput{
		Name: &profile, Architecture: types.ArchitectureValuesX8664, RootDeviceName: awssdk.String("/dev/sda1"),
	})
	if err != nil {
		t.Fatal(err)
	}
	s := flagged(t, "--no-public-address", "--proxy", "http://proxy.example:3128", "--tag", "team=ml",
		"--tag", "cost-center=7", "--image", "amd64="+awssdk.ToString(image.ImageId), "--instance-profile", profile)
	i, script := bought(t, client, s, "")
	if len(i.NetworkInterfaces) != 1 || len(i.NetworkInterfaces[0].Groups) != 1 { // the interface has the security group
		t.Fatalf("network interfaces %+v", i.NetworkInterfaces)
	}
	if awssdk.ToString(i.PublicIpAddress) != "" || awssdk.ToString(i.PrivateIpAddress) == "" {
		t.Errorf("public %q, private %q", awssdk.ToString(i.PublicIpAddress), awssdk.ToString(i.PrivateIpAddress))
	}
	if i.IamInstanceProfile == nil ||
		awssdk.ToString(i.IamInstanceProfile.Arn) != arn {
		t.Errorf("instance profile %+v", i.IamInstanceProfile)
	}
	if awssdk.ToString(i.ImageId) != awssdk.ToString(image.ImageId) {
		t.Errorf("image %s", awssdk.ToString(i.ImageId))
	}
	for _, line := range []string{"HTTPS_PROXY", "https_proxy", "http://proxy.example:3128", "169.254.169.254"} {
		if !strings.Contains(script, line) {
			t.Errorf("the boot script has no %s", line)
		}
	}
	tagged(t, "machine", i.Tags)
	volumes, err := client.DescribeVolumes(t.Context(), &ec2.DescribeVolumesInput{Filters: []types.Filter{
		{Name: awssdk.String("attachment.instance-id"), Values: []string{awssdk.ToString(i.InstanceId)}}}})
	if err != nil || len(volumes.Volumes) == 0 {
		t.Fatalf("%+v, %v", volumes, err)
	}
	for _, v := range volumes.Volumes { // an account's policies may require tags on disks as well
		tagged(t, "disk", v.Tags)
	}

	// A profile may be given by its ARN. The image of a task takes precedence over the image in the settings.
	own, err := client.RegisterImage(t.Context(), &ec2.RegisterImageInput{
		Name: awssdk.String(profile + "-own"), Architecture: types.ArchitectureValuesX8664,
	})
	if err != nil {
		t.Fatal(err)
	}
	s.InstanceProfile = arn
	i, _ = bought(t, client, s, awssdk.ToString(own.ImageId))
	if i.IamInstanceProfile == nil || awssdk.ToString(i.IamInstanceProfile.Arn) != s.InstanceProfile ||
		awssdk.ToString(i.ImageId) != awssdk.ToString(own.ImageId) {
		t.Errorf("profile %+v, image %s", i.IamInstanceProfile, awssdk.ToString(i.ImageId))
	}
}

func TestLaunchUsesDefaultsWithoutSettings(t *testing.T) {
	account(t, nil)
	i, script := bought(t, ec2.NewFromConfig(emulator.Config(emulator.Moto(t))), flagged(t), "")
	if i.IamInstanceProfile != nil || strings.Contains(script, "PROXY") ||
		awssdk.ToString(i.PublicIpAddress) == "" {
		t.Errorf("profile %+v, address %q, script:\n%s", i.IamInstanceProfile,
			awssdk.ToString(i.PublicIpAddress), script)
	}
}

// tagged checks that a resource has the tags that the account's policy requires, and the deployment's tags.
func tagged(t *testing.T, what string, tags []types.Tag) {
	t.Helper()
	got := map[string]string{}
	for _, tag := range tags {
		got[awssdk.ToString(tag.Key)] = awssdk.ToString(tag.Value)
	}
	if got["team"] != "ml" || got["cost-center"] != "7" || got["tradewind:cluster"] == "" {
		t.Errorf("%s: %v", what, got)
	}
}
