package aws

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/tradewind-broker/tradewind/pkg/cloud"
)

// request builds the call that buys a cluster. The same spec gives the same request, as the client token requires.
func (r *region) request(ctx context.Context, spec cloud.LaunchSpec) (*ec2.RunInstancesInput, error) {
	kind, err := r.machineType(ctx, spec.Offer.InstanceType)
	if err != nil {
		return nil, err
	}
	image, err := r.image(ctx, spec, kind)
	if err != nil {
		return nil, err
	}
	subnet, err := r.subnet(ctx, spec.Offer.Zone)
	if err != nil {
		return nil, err
	}
	group, err := r.group(ctx)
	if err != nil {
		return nil, err
	}
	data, err := r.cloud.cfg.Agents.UserData(Name, spec, kind.arch, nil, r.cloud.cfg.Environment)
	if err != nil {
		return nil, err
	}
	nodes := int32(min(spec.Nodes, math.MaxInt32)) //nolint:gosec // bounded on this line
	in := &ec2.RunInstancesInput{
		// All or none: EC2 launches nothing if it has fewer than the minimum.
		MinCount: &nodes, MaxCount: &nodes,
		ClientToken: awssdk.String(clientToken(r.cloud.cfg.Deployment, spec.Cluster)),
		ImageId:     &image.id, InstanceType: types.InstanceType(spec.Offer.InstanceType),
		SubnetId: &subnet, SecurityGroupIds: []string{group},
		UserData:            awssdk.String(base64.StdEncoding.EncodeToString(data)),
		BlockDeviceMappings: []types.BlockDeviceMapping{r.cloud.disk(spec, image)},
		// The metadata service requires a session token and does not answer containers, because it has the user data
		// with the machines' tokens. It has no keys, because the machine has no identity.
		MetadataOptions: &types.InstanceMetadataOptionsRequest{
			HttpEndpoint: types.InstanceMetadataEndpointStateEnabled, HttpTokens: types.HttpTokensStateRequired,
			HttpPutResponseHopLimit: awssdk.Int32(1),
		},
		// a machine that shuts itself down costs nothing more
		InstanceInitiatedShutdownBehavior: types.ShutdownBehaviorTerminate,
		TagSpecifications:                 r.cloud.tags(spec),
	}
	if kind.burst { // the plan's price includes surplus credits; without these, T2 would slow down to its baseline
		in.CreditSpecification = &types.CreditSpecificationRequest{CpuCredits: awssdk.String("unlimited")}
	}
	if spec.Offer.Spot {
		in.InstanceMarketOptions = spotOptions(spec.MaxUSDPerHour)
	}
	// A reserved instance changes only the price: the request does not name it.
	if id := spec.Offer.Reservation; strings.HasPrefix(id, capacityReservation) {
		in.CapacityReservationSpecification = &types.CapacityReservationSpecification{
			CapacityReservationTarget: &types.CapacityReservationTarget{CapacityReservationId: &id},
		}
	}
	r.cloud.cfg.applySettings(in)
	return in, nil
}

// capacityReservation is the prefix of a capacity reservation's ID.
const capacityReservation = "cr-"

// applySettings applies the settings for the customer's network and policies to a request.
func (c Config) applySettings(in *ec2.RunInstancesInput) {
	if c.NoPublicAddress { // only an interface specification can set this
		in.NetworkInterfaces = []types.InstanceNetworkInterfaceSpecification{{
			DeviceIndex: awssdk.Int32(0), SubnetId: in.SubnetId, Groups: in.SecurityGroupIds,
			AssociatePublicIpAddress: awssdk.Bool(false), DeleteOnTermination: awssdk.Bool(true),
		}}
		in.SubnetId, in.SecurityGroupIds = nil, nil
	}
	in.IamInstanceProfile = c.profile()
}

// profile returns the machines' instance profile; nil if they have none.
func (c Config) profile() *types.IamInstanceProfileSpecification {
	switch profile := c.InstanceProfile; {
	case profile == "":
		return nil
	case strings.HasPrefix(profile, "arn:"):
		return &types.IamInstanceProfileSpecification{Arn: &profile}
	default:
		return &types.IamInstanceProfileSpecification{Name: &profile}
	}
}

// Profile returns the machines' instance profile; nil if they have none.
func (c *Cloud) Profile() *types.IamInstanceProfileSpecification { return c.cfg.profile() }

// clientToken returns at most 64 ASCII characters, which is EC2's limit.
func clientToken(deployment, cluster string) string {
	sum := sha256.Sum256([]byte(deployment + "\x00" + cluster))
	return hex.EncodeToString(sum[:])
}

// spotOptions requests spot machines that are terminated when they are interrupted. Without a bid, EC2's own limit
// applies: the on-demand price.
func spotOptions(maxUSD float64) *types.InstanceMarketOptionsRequest {
	o := &types.SpotMarketOptions{
		SpotInstanceType:             types.SpotInstanceTypeOneTime,
		InstanceInterruptionBehavior: types.InstanceInterruptionBehaviorTerminate,
	}
	if maxUSD > 0 && !math.IsInf(maxUSD, 0) {
		o.MaxPrice = awssdk.String(strconv.FormatFloat(math.Ceil(maxUSD*1e6)/1e6, 'f', -1, 64))
	}
	return &types.InstanceMarketOptionsRequest{MarketType: types.MarketTypeSpot, SpotOptions: o}
}

// maxTagBytes is the maximum length of a tag's value; tagText leaves only one-byte characters.
const maxTagBytes = 256

// tags returns the tags for the machines, their volumes and the requests for them.
func (c *Cloud) tags(spec cloud.LaunchSpec) []types.TagSpecification {
	values := maps.Clone(c.cfg.Tags)
	if values == nil {
		values = map[string]string{}
	}
	for k, v := range spec.Labels {
		values[tagPrefix+k] = v
	}
	values["Name"] = spec.Cluster
	values[tagDeployment], values[tagCluster] = c.cfg.Deployment, spec.Cluster
	values[tagUSD] = strconv.FormatFloat(spec.Offer.USDPerHour, 'f', -1, 64)
	if spec.Offer.Accelerator != "" {
		values[tagAccel] = spec.Offer.Accelerator + ":" + strconv.FormatFloat(spec.Offer.AccelCount, 'f', -1, 64)
	}
	delete(values, tagRank)
	if spec.Nodes == 1 {
		values[tagRank] = "0"
	}
	var tags []types.Tag
	for _, k := range slices.Sorted(maps.Keys(values)) {
		if v := TagText(values[k]); v != "" {
			tags = append(tags, tag(k, v))
		}
	}
	kinds := []types.ResourceType{types.ResourceTypeInstance, types.ResourceTypeVolume}
	if spec.Offer.Spot {
		kinds = append(kinds, types.ResourceTypeSpotInstancesRequest)
	}
	var out []types.TagSpecification
	for _, k := range kinds {
		out = append(out, types.TagSpecification{ResourceType: k, Tags: tags})
	}
	return out
}

// TagText replaces the characters that not every tag accepts, and shortens the text.
func TagText(s string) string {
	s = strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', strings.ContainsRune(" _.:/=+-@", r):
			return r
		}
		return '-'
	}, s)
	return strings.TrimSpace(s[:min(len(s), maxTagBytes)])
}

// disk returns the root volume, whose size is the larger of the requested size and the image's size.
func (c *Cloud) disk(spec cloud.LaunchSpec, image image) types.BlockDeviceMapping {
	gib := spec.DiskGiB
	if !(gib > 0) {
		gib = c.cfg.DiskGiB
	}
	size := max(int32(min(math.Ceil(gib), maxDiskGiB)), image.gib)
	return types.BlockDeviceMapping{
		DeviceName: awssdk.String(image.root),
		Ebs: &types.EbsBlockDevice{
			VolumeSize: &size, VolumeType: types.VolumeTypeGp3, Encrypted: awssdk.Bool(true),
			DeleteOnTermination: awssdk.Bool(true),
		},
	}
}

// maxDiskGiB is the largest gp3 volume (EBS User Guide).
const maxDiskGiB = 65536
