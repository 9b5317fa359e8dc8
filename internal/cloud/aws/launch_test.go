package aws_test

import (
	"context"
	"encoding/base64"
	"errors"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/tradewind-broker/tradewind/internal/agent/bootstrap"
	"github.com/tradewind-broker/tradewind/internal/cloud/aws"
	"github.com/tradewind-broker/tradewind/internal/cloud/driver"
	"github.com/tradewind-broker/tradewind/internal/emulator"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
	"github.com/tradewind-broker/tradewind/pkg/store/mem"
)

func TestLaunchRequestMatchesSpec(t *testing.T) {
	w := newWorld(t, nil)
	spec := w.spec("c", spot, 2)
	spec.MaxUSDPerHour, spec.DiskGiB = 0.00123456, 77.2
	spec.Labels["task"] = "größe {1}"
	machines := w.launch(spec)
	for rank, m := range machines {
		want := spec.Offer
		if m.Rank != rank || m.Offer != want || m.State != cloud.Pending {
			t.Errorf("rank %d: %+v", rank, m)
		}
	}
	in := w.proxy.request("RunInstances")
	for field, want := range map[string]string{
		"MinCount": "2", "MaxCount": "2", "InstanceType": "t3.micro", "InstanceMarketOptions.MarketType": "spot",
		"InstanceMarketOptions.SpotOptions.MaxPrice": "0.001235", "InstanceMarketOptions.SpotOptions.SpotInstanceType": "one-time",
		"InstanceMarketOptions.SpotOptions.InstanceInterruptionBehavior": "terminate", "MetadataOptions.HttpTokens": "required",
		"InstanceInitiatedShutdownBehavior": "terminate", "BlockDeviceMapping.1.Ebs.VolumeSize": "78", "BlockDeviceMapping.1.Ebs.Encrypted": "true",
		"BlockDeviceMapping.1.DeviceName": "/dev/xvda",
	} {
		if got := in.Get(field); got != want {
			t.Errorf("%s is %q, want %q", field, got, want)
		}
	}
	if len(in.Get("ClientToken")) != 64 {
		t.Errorf("client token %q", in.Get("ClientToken"))
	}
	all, err := w.instances(t.Context(), "us-east-1")
	if err != nil || len(all) != 2 {
		t.Fatalf("%d instances, %v", len(all), err)
	}
	for _, i := range all {
		got := map[string]string{}
		for _, tag := range i.Tags {
			got[awssdk.ToString(tag.Key)] = awssdk.ToString(tag.Value)
		}
		for k, want := range map[string]string{
			"tradewind:deployment": w.cfg.Deployment, "tradewind:cluster": "c", "tradewind:job": "j-1", "tradewind:task": "gr--e -1-", "Name": "c",
			"tradewind:rank": strconv.Itoa(int(awssdk.ToInt32(i.AmiLaunchIndex))),
		} {
			if got[k] != want {
				t.Errorf("tag %s is %q, want %q", k, got[k], want)
			}
		}
		if awssdk.ToString(i.Placement.AvailabilityZone) != "us-east-1d" { // the account's name of use1-az4
			t.Errorf("in zone %s", awssdk.ToString(i.Placement.AvailabilityZone))
		}
	}
}

func TestUserDataContainsTokensAndAgentDigest(t *testing.T) {
	w := newWorld(t, nil)
	w.launch(w.spec("c", onDemand, 2))
	data, err := base64.StdEncoding.DecodeString(w.proxy.request("RunInstances").Get("UserData"))
	if err != nil {
		t.Fatal(err)
	}
	script, err := bootstrap.Plain(data)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"token-c-0", "token-c-1", digest, "https://api.example"} {
		if !strings.Contains(string(script), want) {
			t.Errorf("no %s in the user data", want)
		}
	}
	if token, secret := emulator.Config("").Credentials.Retrieve(t.Context()); secret != nil || strings.Contains(string(script), "'"+token.SecretAccessKey+"'") {
		t.Errorf("the broker's own keys are in the user data: %v", secret)
	}
}

func TestArmMachinesGetArmImagesAndAgents(t *testing.T) {
	armDigest := strings.Repeat("ab", 32)
	w := newWorld(t, func(c *aws.Config) {
		c.Agents = map[string]string{"amd64": c.Agents[""], "arm64": armDigest}
	})
	offer := onDemand
	offer.InstanceType = "t4g.small"
	w.launch(w.spec("c", offer, 1))
	in := w.proxy.request("RunInstances")
	out, err := w.straight.DescribeImages(t.Context(), &ec2.DescribeImagesInput{ImageIds: []string{in.Get("ImageId")}})
	if err != nil || len(out.Images) != 1 || out.Images[0].Architecture != types.ArchitectureValuesArm64 {
		t.Errorf("image %s: %v", in.Get("ImageId"), err)
	}
	if data, _ := base64.StdEncoding.DecodeString(in.Get("UserData")); !strings.Contains(string(data), armDigest) {
		t.Error("not the agent for arm64")
	}
	spec := w.spec("d", offer, 1)
	spec.Image = "ssm:/aws/service/ami-amazon-linux-latest/al2023-ami-kernel-default-x86_64"
	if _, err := w.aws.Launch(t.Context(), spec); cloud.KindOf(err) != cloud.Invalid || !strings.Contains(err.Error(), "x86_64") {
		t.Errorf("an image of another architecture: %v", err)
	}
	spec.Image = "docker:ubuntu"
	if _, err := w.aws.Launch(t.Context(), spec); cloud.KindOf(err) != cloud.Invalid || !strings.Contains(err.Error(), "ami-") {
		t.Errorf("no image: %v", err)
	}
}

// A launch of a burstable type must name its credit mode, because the plan's price holds only for that mode. The
// default differs: standard for T2, unlimited for T3, T3a and T4g (EC2 API reference, RunInstances,
// CreditSpecification).
func TestLaunchOfBurstableTypeNamesCreditMode(t *testing.T) {
	w := newWorld(t, nil)
	for name, want := range map[string]string{"t2.micro": "unlimited", "t3.micro": "unlimited", "m5.large": ""} {
		offer := onDemand
		offer.InstanceType = name
		w.launch(w.spec("credits-"+name[:2], offer, 1))
		if got := w.proxy.request("RunInstances").Get("CreditSpecification.CpuCredits"); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

// A launch must use an image that supports the machine type. Sources: see TestTypesWithoutDefaultImageAreRefused in
// internal/catalog/sellable.
func TestLaunchNeedsImageThatSupportsType(t *testing.T) {
	w := newWorld(t, nil)
	for name, why := range map[string]string{
		"a1.large": "Graviton 1", "inf1.xlarge": "no default image has a driver", "m5.metal": "bare metal",
	} {
		offer := onDemand
		offer.InstanceType = name
		_, err := w.aws.Launch(t.Context(), w.spec("c", offer, 1))
		if cloud.KindOf(err) != cloud.Capacity || !strings.Contains(err.Error(), why) || !strings.Contains(err.Error(), "--image") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if n := w.proxy.count("RunInstances"); n != 0 {
		t.Errorf("%d launches of machines that do not boot", n)
	}
	own := onDemand
	own.InstanceType = "a1.large"
	spec := w.spec("d", own, 1)
	spec.Image = "ssm:/aws/service/ami-amazon-linux-latest/al2023-ami-kernel-default-arm64"
	w.launch(spec) // an image that the task names is not checked
}

func TestAcceleratedMachinesGetTheImageWithTheDriver(t *testing.T) {
	gpu := onDemand
	gpu.InstanceType, gpu.Accelerator, gpu.AccelCount = "g4dn.xlarge", "T4", 1
	w := newWorld(t, nil)
	var typed *cloud.Error
	if _, err := w.aws.Launch(t.Context(), w.spec("c", gpu, 1)); !errors.As(err, &typed) || typed.Kind != cloud.Quota || !strings.Contains(typed.Message, "nvidia") {
		t.Errorf("a region without the image, like the emulator's: %v", err)
	}
	w = newWorld(t, func(c *aws.Config) {
		c.Images = map[string]string{"amd64-gpu": "ssm:/aws/service/ami-amazon-linux-latest/al2023-ami-kernel-default-x86_64"}
	})
	w.launch(w.spec("c", gpu, 1))
	listed, err := w.aws.Machines(t.Context(), "c")
	if err != nil || len(listed) != 1 || listed[0].Offer != gpu {
		t.Errorf("%+v, %v", listed, err)
	}
}

func TestMachinesHaveNoInstanceProfile(t *testing.T) {
	w := newWorld(t, nil)
	w.launch(w.spec("c", onDemand, 1))
	all, err := w.instances(t.Context(), "us-east-1")
	if err != nil || len(all) != 1 || all[0].IamInstanceProfile != nil {
		t.Errorf("%+v, %v", all, err)
	}
	for name := range w.proxy.request("RunInstances") {
		if strings.Contains(name, "IamInstanceProfile") {
			t.Errorf("the request has %s", name)
		}
	}
}

func TestParseAgents(t *testing.T) {
	a, b := strings.Repeat("a", 64), strings.Repeat("b", 64)
	got, err := driver.ParseAgents("amd64=agent/" + a + "/tradewind-agent, arm64=agent/" + b + "/tradewind-agent")
	if err != nil || !maps.Equal(got, map[string]string{"amd64": a, "arm64": b}) {
		t.Errorf("%v, %v", got, err)
	}
	if got, err = driver.ParseAgents("agent/" + a + "/tradewind-agent"); err != nil || got[""] != a {
		t.Errorf("%v, %v", got, err)
	}
	for _, bad := range []string{"", "amd64=agent/x/tradewind-agent", "x=" + a + ",x=" + b, "amd64=" + strings.ToUpper(a)} {
		if got, err := driver.ParseAgents(bad); !errors.Is(err, driver.ErrAgents) {
			t.Errorf("%q: %v, %v", bad, got, err)
		}
	}
}

func TestTaggedNetworkIsPreferred(t *testing.T) {
	w := newWorld(t, nil)
	tags := []types.TagSpecification{{ResourceType: types.ResourceTypeVpc, Tags: []types.Tag{{Key: awssdk.String("tradewind:deployment"), Value: &w.cfg.Deployment}}}}
	vpc, err := w.straight.CreateVpc(t.Context(), &ec2.CreateVpcInput{CidrBlock: awssdk.String("10.9.0.0/16"), TagSpecifications: tags})
	if err != nil {
		t.Fatal(err)
	}
	made, err := w.straight.CreateSubnet(t.Context(), &ec2.CreateSubnetInput{VpcId: vpc.Vpc.VpcId, CidrBlock: awssdk.String("10.9.1.0/24"), AvailabilityZoneId: awssdk.String("use1-az1")})
	if err != nil {
		t.Fatal(err)
	}
	w.launch(w.spec("c", onDemand, 1))
	all, err := w.instances(t.Context(), "us-east-1")
	if err != nil || len(all) != 1 || awssdk.ToString(all[0].SubnetId) != awssdk.ToString(made.Subnet.SubnetId) {
		t.Errorf("subnet of %+v, want %s, %v", all, awssdk.ToString(made.Subnet.SubnetId), err)
	}
	var typed *cloud.Error
	if _, err := w.aws.Launch(t.Context(), w.spec("d", spot, 1)); !errors.As(err, &typed) || typed.Kind != cloud.Capacity || typed.Code != "NoSubnetInZone" {
		t.Errorf("a zone without a subnet: %v", err)
	}
}

func TestSecurityGroupAdmitsOnlyOwnMachines(t *testing.T) {
	w := newWorld(t, nil)
	other := aws.New(w.sdk(), w.cfg) // a second function of the same deployment
	w.launch(w.spec("c", onDemand, 1))
	if _, err := other.Launch(t.Context(), w.spec("d", onDemand, 1)); err != nil {
		t.Fatal(err)
	}
	groups, err := w.straight.DescribeSecurityGroups(t.Context(), &ec2.DescribeSecurityGroupsInput{
		Filters: []types.Filter{{Name: awssdk.String("group-name"), Values: []string{w.cfg.Deployment + "-machines"}}},
	})
	if err != nil || len(groups.SecurityGroups) != 1 {
		t.Fatalf("%d groups, %v", len(groups.SecurityGroups), err)
	}
	g := groups.SecurityGroups[0]
	for _, p := range g.IpPermissions {
		if len(p.IpRanges)+len(p.Ipv6Ranges)+len(p.PrefixListIds) > 0 || len(p.UserIdGroupPairs) != 1 || awssdk.ToString(p.UserIdGroupPairs[0].GroupId) != awssdk.ToString(g.GroupId) {
			t.Errorf("inbound rule: %+v", p)
		}
	}
	if len(g.IpPermissions) != 1 {
		t.Errorf("%d rules", len(g.IpPermissions))
	}
}

// A process created a security group, and crashed before it opened the group. The next launch must open it. Until EC2
// knows the group everywhere, the driver must retry.
func TestLaunchOpensUnopenedSecurityGroup(t *testing.T) {
	w := newWorld(t, nil)
	w.proxy.refuse("AuthorizeSecurityGroupIngress", 2, "UnauthorizedOperation", "You are not authorized", http.StatusForbidden, nil)
	if _, err := w.aws.Launch(t.Context(), w.spec("c", onDemand, 1)); err == nil {
		t.Fatal("launched into a group that is not open")
	}
	w.proxy.refuse("AuthorizeSecurityGroupIngress", 2, "InvalidGroup.NotFound", "The security group does not exist", http.StatusBadRequest, nil)
	w.launch(w.spec("d", onDemand, 1))
	groups, err := w.straight.DescribeSecurityGroups(t.Context(), &ec2.DescribeSecurityGroupsInput{
		Filters: []types.Filter{{Name: awssdk.String("group-name"), Values: []string{w.cfg.Deployment + "-machines"}}},
	})
	if err != nil || len(groups.SecurityGroups) != 1 || len(groups.SecurityGroups[0].IpPermissions) != 1 {
		t.Errorf("%+v, %v", groups.SecurityGroups, err)
	}
}

func TestOtherDeploymentsAreIgnored(t *testing.T) {
	a, b := newWorld(t, nil), newWorld(t, nil)
	a.launch(a.spec("same", onDemand, 1))
	b.launch(b.spec("same", onDemand, 2))
	a.terminate("same")
	if n := b.left("us-east-1"); n != 2 {
		t.Errorf("the other deployment has %d machines left", n)
	}
	if listed, err := a.aws.Machines(t.Context(), ""); err != nil || len(listed) != 1 || listed[0].State != cloud.Terminated {
		t.Errorf("%+v, %v", listed, err)
	}
}

func TestListsAreReadPageByPage(t *testing.T) {
	w := newWorld(t, nil)
	aws.SetPage(w.aws, 5) // the smallest page size that the API allows
	for i := range 4 {
		w.launch(w.spec("c"+strconv.Itoa(i), onDemand, 3))
	}
	if listed, err := w.aws.Machines(t.Context(), ""); err != nil || len(listed) != 12 {
		t.Errorf("%d machines, %v", len(listed), err)
	}
	if n := w.proxy.count("DescribeInstances"); n < 4+2 {
		t.Errorf("only %d calls: the list was not paged", n)
	}
}

// The answer of a launch is lost. A repeated launch must buy nothing more.
func TestLostAnswerBuysOnce(t *testing.T) {
	for _, offer := range []apitypes.Offer{onDemand, spot} {
		w := newWorld(t, nil)
		w.proxy.lose("RunInstances", 1)
		machines := w.launch(w.spec("c", offer, 2)) // found by their tags
		if n := w.left("us-east-1"); n != 2 || len(machines) != 2 {
			t.Errorf("%d machines exist, %d were returned", n, len(machines))
		}
		if n := w.proxy.count("RunInstances"); n != 1 {
			t.Errorf("%d launches", n)
		}
		w.terminate("c")
		if n := w.left("us-east-1"); n != 0 {
			t.Errorf("%d machines leaked", n)
		}
	}
}

func TestLostAnswerAndFailedListAreTransient(t *testing.T) {
	w := newWorld(t, nil)
	w.proxy.lose("RunInstances", 1)
	w.proxy.add(&rule{action: "DescribeInstances", times: 0})
	spec := w.spec("c", onDemand, 2)
	listed := &rule{action: "DescribeInstances", times: -1, act: func(rw http.ResponseWriter, _ *http.Request, forward func(http.ResponseWriter)) {
		if w.proxy.count("RunInstances") == 0 {
			forward(rw)
			return
		}
		writeError(rw, "InternalError", "oops", http.StatusInternalServerError, nil)
	}}
	w.proxy.add(listed)
	if _, err := w.aws.Launch(t.Context(), spec); cloud.KindOf(err) != cloud.Transient || err == nil {
		t.Fatalf("%v", err)
	}
	w.proxy.drop(listed)
	if machines := w.launch(spec); len(machines) != 2 || w.left("us-east-1") != 2 || w.proxy.count("RunInstances") != 1 {
		t.Errorf("%d machines, %d exist, %d launches", len(machines), w.left("us-east-1"), w.proxy.count("RunInstances"))
	}
}

func TestConcurrentLaunchesLeaveOneCluster(t *testing.T) {
	w := newWorld(t, nil)
	spec := w.spec("c", onDemand, 2)
	var wg sync.WaitGroup
	for range 4 { // the emulator ignores client tokens, and separate functions share no locks
		other := aws.New(w.sdk(), w.cfg)
		wg.Go(func() { _, _ = other.Launch(t.Context(), spec) })
	}
	wg.Wait()
	machines := w.launch(spec)
	if n := w.left("us-east-1"); n != 2 || len(machines) != 2 || machines[0].Rank == machines[1].Rank {
		t.Errorf("%d machines exist: %+v", n, machines)
	}
}

func TestLaunchAfterTerminateIsUndone(t *testing.T) {
	st := mem.New()
	keep := func(c *aws.Config) { c.Graves = graves(st) }
	w := newWorld(t, keep)
	w.cfg.Graves = graves(st)
	other := aws.New(w.sdk(), w.cfg)
	w.proxy.add(&rule{action: "RunInstances", times: 1, act: func(rw http.ResponseWriter, _ *http.Request, forward func(http.ResponseWriter)) {
		if err := other.Terminate(context.WithoutCancel(t.Context()), "c"); err != nil { // during the launch
			t.Error(err)
		}
		forward(rw)
	}})
	var typed *cloud.Error
	if _, err := w.aws.Launch(t.Context(), w.spec("c", onDemand, 2)); !errors.As(err, &typed) || typed.Code != "ClusterTerminated" || typed.Kind != cloud.Invalid {
		t.Errorf("%v", err)
	}
	if n := w.left("us-east-1"); n != 0 {
		t.Errorf("%d machines are left", n)
	}
	if _, err := w.aws.Launch(t.Context(), w.spec("c", onDemand, 2)); cloud.KindOf(err) != cloud.Invalid {
		t.Errorf("launched again: %v", err)
	}
}

func TestTerminatedMachinesPreventRelaunchWithoutGrave(t *testing.T) {
	w := newWorld(t, nil)
	w.launch(w.spec("c", onDemand, 1))
	w.terminate("c")
	other := aws.New(w.sdk(), w.cfg) // its list of terminated clusters is in another process's memory
	if _, err := other.Launch(t.Context(), w.spec("c", onDemand, 1)); cloud.KindOf(err) != cloud.Invalid {
		t.Errorf("%v", err)
	}
}

func TestPartialClusterIsEndedAndIsCapacity(t *testing.T) {
	w := newWorld(t, nil)
	spec := w.spec("c", spot, 3)
	machines := w.launch(spec)
	if _, err := w.straight.TerminateInstances(t.Context(), &ec2.TerminateInstancesInput{InstanceIds: []string{machines[1].ID}}); err != nil {
		t.Fatal(err)
	}
	w.proxy.rewrite("DescribeInstances", "Client.UserInitiatedShutdown", "Server.SpotInstanceTermination")
	var typed *cloud.Error
	if _, err := w.aws.Launch(t.Context(), spec); !errors.As(err, &typed) || typed.Kind != cloud.Capacity || !strings.Contains(typed.Message, "SpotInstanceTermination") {
		t.Errorf("%v", err)
	}
	if n := w.left("us-east-1"); n != 0 {
		t.Errorf("%d machines of half a cluster are left", n)
	}
	listed, err := w.aws.Machines(t.Context(), "c")
	if err != nil || len(listed) != 3 || listed[1].Reason != "spot-interruption" {
		t.Errorf("%+v, %v", listed, err)
	}
}

func TestSilentRegionDoesNotBlockTerminate(t *testing.T) {
	several := func(c *aws.Config) { c.Home, c.Regions = "us-east-1", []string{"us-east-1", "eu-west-1", "us-west-2"} }
	w := newWorld(t, several)
	w.launch(w.spec("c", onDemand, 1))
	other := aws.New(w.sdk(), w.cfg) // another process, which does not know the cluster's region
	w.proxy.add(&rule{action: "DescribeInstances", region: "", times: -1, act: func(rw http.ResponseWriter, r *http.Request, forward func(http.ResponseWriter)) {
		if strings.Contains(r.Header.Get("Authorization"), "/eu-west-1/") {
			hijack(rw)
			return
		}
		forward(rw)
	}})
	if err := other.Terminate(t.Context(), "c"); err != nil {
		t.Errorf("the cluster was found in another region: %v", err)
	}
	if n := w.left("us-east-1"); n != 0 {
		t.Errorf("%d left", n)
	}
	if err := other.Terminate(t.Context(), "unknown"); cloud.KindOf(err) != cloud.Transient || err == nil {
		t.Errorf("the cluster may be in the region that does not answer: %v", err)
	}
	if _, err := other.Machines(t.Context(), ""); cloud.KindOf(err) != cloud.Transient || err == nil {
		t.Errorf("a list without one region must fail: %v", err)
	}
}

func TestUnreachableEndpointIsTransient(t *testing.T) {
	w := newWorld(t, nil)
	w.proxy.CloseClientConnections()
	w.proxy.Close()
	for what, err := range map[string]error{
		"launch": second(w.aws.Launch(t.Context(), w.spec("c", onDemand, 1))), "terminate": w.aws.Terminate(t.Context(), "c"),
		"machines": second(w.aws.Machines(t.Context(), "")),
	} {
		var typed *cloud.Error
		if !errors.As(err, &typed) || typed.Kind != cloud.Transient || typed.Cloud != "aws" {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func TestMissingCredentialsAreAuth(t *testing.T) {
	w := newWorld(t, nil)
	sdk := w.sdk()
	sdk.Credentials = awssdk.CredentialsProviderFunc(func(context.Context) (awssdk.Credentials, error) {
		return awssdk.Credentials{}, errors.New("no EC2 IMDS role found")
	})
	if _, err := aws.New(sdk, w.cfg).Machines(t.Context(), ""); cloud.KindOf(err) != cloud.Auth {
		t.Errorf("%v", err)
	}
}

// Every fifth call fails in one of several ways, and callers retry like the broker. In the end there must be exactly
// the launched machines, and none after their termination.
func TestFlakyCallsNeitherDoubleNorLeakMachines(t *testing.T) {
	w := newWorld(t, nil)
	rng := rand.New(rand.NewPCG(1, 2))
	var mu sync.Mutex
	n := 0
	w.proxy.add(&rule{times: -1, act: func(rw http.ResponseWriter, _ *http.Request, forward func(http.ResponseWriter)) {
		mu.Lock()
		n++
		bad, how := n%5 == 0, rng.IntN(4)
		mu.Unlock()
		switch {
		case !bad:
			forward(rw)
		case how == 0:
			forward(httptest.NewRecorder())
			hijack(rw)
		case how == 1:
			writeError(rw, "RequestLimitExceeded", "slow down", http.StatusServiceUnavailable, nil)
		case how == 2:
			writeError(rw, "InternalError", "oops", http.StatusInternalServerError, nil)
		default:
			hijack(rw)
		}
	}})
	stubborn := func(what string, f func(*aws.Cloud) error) {
		for range 50 {
			err := f(aws.New(w.sdk(), w.cfg)) // a new function each time, with empty caches
			if err == nil {
				return
			}
			if k := cloud.KindOf(err); k != cloud.Transient && k != cloud.Throttled {
				t.Fatalf("%s: %v", what, err)
			}
		}
		t.Fatalf("%s: never succeeded", what)
	}
	for i := range 8 {
		spec := w.spec("c"+strconv.Itoa(i), []apitypes.Offer{onDemand, spot}[i%2], 1+i%3)
		var machines []cloud.Machine
		stubborn("launch", func(c *aws.Cloud) (err error) { machines, err = c.Launch(t.Context(), spec); return err })
		all, err := w.instances(t.Context(), "us-east-1")
		if err != nil {
			t.Fatal(err)
		}
		all = slices.DeleteFunc(all, func(i types.Instance) bool {
			return !slices.ContainsFunc(i.Tags, func(tag types.Tag) bool { return awssdk.ToString(tag.Value) == spec.Cluster })
		})
		if len(all) != spec.Nodes || len(machines) != spec.Nodes {
			t.Errorf("cluster %d: %d machines were bought, %d returned, %d requested", i, len(all), len(machines), spec.Nodes)
		}
		stubborn("terminate", func(c *aws.Cloud) error { return c.Terminate(t.Context(), spec.Cluster) })
	}
	if left := w.left("us-east-1"); left != 0 {
		t.Errorf("%d machines leaked", left)
	}
}

func second[T any](_ T, err error) error { return err }
