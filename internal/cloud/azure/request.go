package azure

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"strconv"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v8"

	"github.com/tradewind-broker/tradewind/pkg/cloud"
)

// Tags of everything that is launched.
const (
	tagPrefix     = "tradewind:"
	tagDeployment = tagPrefix + "deployment"
	tagCluster    = tagPrefix + "cluster"
	tagRank       = tagPrefix + "rank"
	tagNodes      = tagPrefix + "nodes"
	tagUSD        = tagPrefix + "usd-per-hour"
	tagAccel      = tagPrefix + "accelerator"
	tagZone       = tagPrefix + "zone" // the zone in the offer
)

// maxTags and maxTag are the maximum number of tags of a resource, and the maximum length of a value.
const (
	maxTags = 50
	maxTag  = 256
)

// template has the properties that all machines of a cluster share.
type template struct {
	spec   cloud.LaunchSpec
	subnet string
	zones  []*string
	image  *armcompute.ImageReference
	disk   *int32
	tags   map[string]*string
	// reserved is the ID of the capacity reservation group for the machines; empty means none.
	reserved string
}

// prepare collects the settings with which the machines of a cluster are made. The same spec gives the same machines,
// except for the unused SSH keys.
func (c *Cloud) prepare(ctx context.Context, spec cloud.LaunchSpec) (*template, error) {
	t := &template{spec: spec, tags: c.tags(spec)}
	image, floor, err := c.image(spec)
	if err != nil {
		return nil, err
	}
	t.image = image
	if gib := max(spec.DiskGiB, 0); gib > 0 || floor > 0 {
		if gib == 0 {
			gib = c.cfg.DiskGiB
		}
		t.disk = to.Ptr(max(int32(min(math.Ceil(gib), maxDiskGiB)), floor))
	}
	zone, err := c.zone(ctx, spec.Offer)
	if err != nil {
		return nil, err
	}
	group, reserved, ok := c.reservation(spec.Offer)
	if ok {
		t.reserved, zone = group, reserved
	}
	if zone != "" {
		t.zones = []*string{&zone}
	}
	t.subnet, err = c.subnet(ctx, spec.Offer.Region)
	return t, err
}

// maxDiskGiB is the largest OS disk ("Managed disks: OS disk").
const maxDiskGiB = 4095

// machine returns the request body for the machine of a rank.
func (c *Cloud) machine(t *template, rank int) (armcompute.VirtualMachine, error) {
	data, err := c.cfg.Agents.UserData(Name, t.spec, Arch(t.spec.Offer.InstanceType), &rank, c.cfg.Environment)
	if err != nil {
		return armcompute.VirtualMachine{}, err
	}
	key, err := unusedSSHKey()
	if err != nil {
		return armcompute.VirtualMachine{}, err
	}
	name := c.nameOf(t.spec.Cluster, rank)
	tags := maps.Clone(t.tags)
	tags[tagRank] = to.Ptr(strconv.Itoa(rank))
	p := &armcompute.VirtualMachineProperties{
		HardwareProfile: &armcompute.HardwareProfile{
			VMSize: to.Ptr(armcompute.VirtualMachineSizeTypes(t.spec.Offer.InstanceType)),
		},
		StorageProfile: &armcompute.StorageProfile{
			ImageReference: t.image,
			OSDisk: &armcompute.OSDisk{
				Name: to.Ptr(
					name + "-os",
				), CreateOption: to.Ptr(armcompute.DiskCreateOptionTypesFromImage), DiskSizeGB: t.disk,
				DeleteOption: to.Ptr(armcompute.DiskDeleteOptionTypesDelete),
				ManagedDisk: &armcompute.ManagedDiskParameters{
					StorageAccountType: to.Ptr(armcompute.StorageAccountTypesStandardSSDLRS),
				},
			},
		},
		OSProfile: &armcompute.OSProfile{
			ComputerName: &name, AdminUsername: to.Ptr("tradewind"),
			CustomData: to.Ptr(base64.StdEncoding.EncodeToString(data)),
			LinuxConfiguration: &armcompute.LinuxConfiguration{
				DisablePasswordAuthentication: to.Ptr(true),
				SSH: &armcompute.SSHConfiguration{PublicKeys: []*armcompute.SSHPublicKey{{
					Path: to.Ptr("/home/tradewind/.ssh/authorized_keys"), KeyData: &key,
				}}},
			},
		},
		NetworkProfile: c.networkOf(t, name, tags),
	}
	if t.reserved != "" {
		p.CapacityReservation = &armcompute.CapacityReservationProfile{
			CapacityReservationGroup: &armcompute.SubResource{ID: &t.reserved},
		}
	}
	if t.spec.Offer.Spot {
		p.Priority = to.Ptr(armcompute.VirtualMachinePriorityTypesSpot)
		p.EvictionPolicy = to.Ptr(armcompute.VirtualMachineEvictionPolicyTypesDelete)
		p.BillingProfile = &armcompute.BillingProfile{MaxPrice: to.Ptr(maxPrice(t.spec.MaxUSDPerHour))}
	}
	return armcompute.VirtualMachine{Location: &t.spec.Offer.Region, Zones: t.zones, Tags: tags, Properties: p}, nil
}

// networkOf describes the machine's interface and address, which are created and deleted with it.
func (c *Cloud) networkOf(t *template, name string, tags map[string]*string) *armcompute.NetworkProfile {
	ip := &armcompute.VirtualMachineNetworkInterfaceIPConfigurationProperties{
		Primary: to.Ptr(true), Subnet: &armcompute.SubResource{ID: &t.subnet},
	}
	if !c.cfg.NoPublicAddress {
		ip.PublicIPAddressConfiguration = &armcompute.VirtualMachinePublicIPAddressConfiguration{
			Name: to.Ptr(name + "-ip"), Tags: tags,
			SKU: &armcompute.PublicIPAddressSKU{
				Name: to.Ptr(armcompute.PublicIPAddressSKUNameStandard),
				Tier: to.Ptr(armcompute.PublicIPAddressSKUTierRegional),
			},
			Properties: &armcompute.VirtualMachinePublicIPAddressConfigurationProperties{
				DeleteOption:             to.Ptr(armcompute.DeleteOptionsDelete),
				PublicIPAllocationMethod: to.Ptr(armcompute.PublicIPAllocationMethodStatic),
			},
		}
	}
	return &armcompute.NetworkProfile{
		NetworkAPIVersion: to.Ptr(armcompute.NetworkAPIVersionTwoThousandTwentyTwo1101),
		NetworkInterfaceConfigurations: []*armcompute.VirtualMachineNetworkInterfaceConfiguration{{
			Name: to.Ptr(name + "-nic"), Tags: tags,
			Properties: &armcompute.VirtualMachineNetworkInterfaceConfigurationProperties{
				Primary: to.Ptr(true), DeleteOption: to.Ptr(armcompute.DeleteOptionsDelete),
				IPConfigurations: []*armcompute.VirtualMachineNetworkInterfaceIPConfiguration{
					{Name: to.Ptr("first"), Properties: ip},
				},
			},
		}},
	}
}

// maxPrice converts a bid to Azure's format: rounded up to 0.00001 USD. -1 means the on-demand price.
func maxPrice(usd float64) float64 {
	if !(usd > 0) || math.IsInf(usd, 0) {
		return -1
	}
	return math.Ceil(usd*1e5) / 1e5
}

// unusedSSHKey returns a public key whose private key is discarded. Azure requires a key or a password, but no user
// logs in.
func unusedSSHKey() (string, error) {
	public, _, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return "", err
	}
	const kind = "ssh-ed25519"
	blob := binary.BigEndian.AppendUint32(nil, uint32(len(kind)))
	blob = append(blob, kind...)
	blob = binary.BigEndian.AppendUint32(blob, uint32(len(public))) //nolint:gosec // 32 bytes
	blob = append(blob, public...)
	return kind + " " + base64.StdEncoding.EncodeToString(blob) + " nobody", nil
}

// tags returns the tags for the machines of a cluster, their interfaces and addresses.
func (c *Cloud) tags(spec cloud.LaunchSpec) map[string]*string {
	own := map[string]string{
		tagDeployment: c.cfg.Deployment, tagCluster: spec.Cluster, tagNodes: strconv.Itoa(spec.Nodes),
		tagUSD:  strconv.FormatFloat(spec.Offer.USDPerHour, 'f', -1, 64),
		tagZone: spec.Offer.Zone,
	}
	if spec.Offer.Accelerator != "" {
		own[tagAccel] = fmt.Sprintf("%s:%s", spec.Offer.Accelerator,
			strconv.FormatFloat(spec.Offer.AccelCount, 'f', -1, 64))
	}
	tags := map[string]*string{}
	add := func(k, v string) {
		k = strings.Map(tagRune, k)
		if v = strings.ToValidUTF8(v[:min(len(v), maxTag)], ""); v != "" && (len(tags) < maxTags-1 || tags[k] != nil) {
			tags[k] = &v
		}
	}
	for k, v := range own {
		add(k, v)
	}
	for k, v := range c.cfg.Tags {
		add(k, v)
	}
	for k, v := range spec.Labels {
		if _, is := own[tagPrefix+k]; !is && tagPrefix+k != tagRank {
			add(tagPrefix+k, v)
		}
	}
	return tags
}

// tagRune replaces characters that Azure does not accept in a tag's name.
func tagRune(r rune) rune {
	if r < ' ' || strings.ContainsRune(`<>%&\?/`, r) {
		return '-'
	}
	return r
}
