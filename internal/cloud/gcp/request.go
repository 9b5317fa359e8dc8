package gcp

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"

	compute "google.golang.org/api/compute/v1"

	"github.com/tradewind-broker/tradewind/internal/agent/bootstrap"
	"github.com/tradewind-broker/tradewind/internal/catalog/quotas"
	"github.com/tradewind-broker/tradewind/internal/cloud/driver"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
)

// Labels of everything that is launched.
const (
	labelPrefix     = "tradewind-"
	labelDeployment = labelPrefix + "deployment"
	labelCluster    = labelPrefix + "cluster"
)

// NetworkTag is on all machines, for firewall rules.
const NetworkTag = "tradewind"

// request builds the call that buys a cluster. The same spec gives the same request.
func (c *Cloud) request(ctx context.Context, spec cloud.LaunchSpec) (*compute.BulkInsertInstanceResource, error) {
	t, err := c.machineType(ctx, spec.Offer.Zone, spec.Offer.InstanceType)
	if err != nil {
		return nil, err
	}
	img, err := c.image(ctx, spec, t)
	if err != nil {
		return nil, err
	}
	data, err := c.cfg.Agents.UserData(Name, spec, t.arch, nil, c.cfg.Environment)
	if err != nil {
		return nil, err
	}
	// metadata is text, and has room for the uncompressed script, unlike EC2's user data
	script, err := bootstrap.Plain(data)
	if err != nil {
		return nil, fail(cloud.Invalid, driver.CodeBadSpec, "%v", err)
	}
	p := &compute.InstanceProperties{
		Description: describe(spec),
		MachineType: spec.Offer.InstanceType,
		Labels:      c.labels(spec),
		Tags:        &compute.Tags{Items: []string{NetworkTag}},
		Disks:       []*compute.AttachedDisk{c.disk(spec, img)},
		Metadata: &compute.Metadata{Items: []*compute.MetadataItems{
			item("startup-script", string(script)),
			// admit only users to whom the project gives access by OS Login
			item("block-project-ssh-keys", "TRUE"), item("enable-oslogin", "TRUE"),
		}},
		NetworkInterfaces: []*compute.NetworkInterface{c.networkInterface(spec.Offer.Region)},
		Scheduling:        scheduling(spec.Offer, t),

		ReservationAffinity: affinity(spec.Offer.Reservation),
	}
	if t.gpu || attached(spec.Offer) {
		p.Metadata.Items = append(p.Metadata.Items, item("install-nvidia-driver", "True"))
	}
	if attached(spec.Offer) {
		kind, ok := attachedNames[spec.Offer.Accelerator]
		if !ok {
			return nil, fail(cloud.Capacity, codeNotSold, "Google cannot attach %s", spec.Offer.Accelerator)
		}
		p.GuestAccelerators = []*compute.AcceleratorConfig{{
			AcceleratorType: kind, AcceleratorCount: int64(spec.Offer.AccelCount),
		}}
	}
	if c.cfg.ServiceAccount != "" {
		// The account has no role, and this scope reveals only its email address.
		p.ServiceAccounts = []*compute.ServiceAccount{{Email: c.cfg.ServiceAccount, Scopes: []string{scopeEmail}}}
	}
	if img.shielded {
		p.ShieldedInstanceConfig = &compute.ShieldedInstanceConfig{
			EnableVtpm: true, EnableIntegrityMonitoring: true,
			// NVIDIA's drivers in Google's images are not signed for secure boot
			EnableSecureBoot: !t.gpu && !attached(spec.Offer),
		}
	}
	in := &compute.BulkInsertInstanceResource{
		// All or none: Google removes the machines if it made fewer than the minimum.
		Count: int64(spec.Nodes), MinCount: int64(spec.Nodes), InstanceProperties: p,
		PerInstanceProperties: map[string]compute.BulkInsertInstanceResourcePerInstanceProperties{},
	}
	for rank := range spec.Nodes { // the keys are the machines' names
		in.PerInstanceProperties[c.machineName(spec.Cluster, rank)] =
			compute.BulkInsertInstanceResourcePerInstanceProperties{}
	}
	return in, nil
}

func item(key, value string) *compute.MetadataItems {
	return &compute.MetadataItems{Key: key, Value: &value}
}

// scheduling makes spot machines terminate when they are interrupted. No machine restarts by itself, because its
// token is valid only once.
func scheduling(o apitypes.Offer, t machineType) *compute.Scheduling {
	no := false
	s := &compute.Scheduling{
		ProvisioningModel: "STANDARD", AutomaticRestart: &no, ForceSendFields: []string{"AutomaticRestart"},
	}
	if o.Spot {
		s.ProvisioningModel, s.InstanceTerminationAction, s.Preemptible = "SPOT", "DELETE", true
	}
	if o.Spot || t.gpu || t.stays || attached(o) {
		s.OnHostMaintenance = "TERMINATE" // these cannot be moved to another host; some other types must be movable
	}
	return s
}

// maxDiskGiB is the largest boot disk (Compute Engine documentation, "Persistent Disk").
const maxDiskGiB = 65536

// disk returns the boot disk, which is deleted with the machine. Its size is the larger of the requested size and the
// image's size.
func (c *Cloud) disk(spec cloud.LaunchSpec, img image) *compute.AttachedDisk {
	gib := spec.DiskGiB
	if !(gib > 0) {
		gib = c.cfg.DiskGiB
	}
	kind := "pd-balanced"
	if quotas.GoogleUsesHyperdisk(spec.Offer.InstanceType) {
		kind = "hyperdisk-balanced"
	}
	return &compute.AttachedDisk{
		Boot: true, AutoDelete: true, Type: "PERSISTENT",
		InitializeParams: &compute.AttachedDiskInitializeParams{
			SourceImage: img.link, DiskType: kind, DiskSizeGb: max(int64(math.Ceil(min(gib, maxDiskGiB))), img.gib),
			Labels: c.labels(spec),
		},
	}
}

func (c *Cloud) networkInterface(region string) *compute.NetworkInterface {
	n := &compute.NetworkInterface{Network: path(c.cfg.Network, "global/networks/")}
	if c.cfg.Subnetwork != "" {
		n.Network, n.Subnetwork = path(c.cfg.Network, "global/networks/"),
			path(c.cfg.Subnetwork, "regions/"+region+"/subnetworks/")
	}
	if !c.cfg.NoPublicAddress {
		n.AccessConfigs = []*compute.AccessConfig{{Type: "ONE_TO_ONE_NAT", Name: "External NAT"}}
	}
	return n
}

// path returns a resource's path; a bare name is in the deployment's project.
func path(name, below string) string {
	if name == "" || strings.Contains(name, "/") {
		return name
	}
	return below + name
}

// labels returns the labels for machines and their disks.
func (c *Cloud) labels(spec cloud.LaunchSpec) map[string]string {
	labels := map[string]string{}
	for k, v := range c.cfg.Labels {
		labels[LabelText(k)] = LabelText(v)
	}
	for k, v := range spec.Labels {
		if key := LabelText(labelPrefix + k); LabelText(v) != "" {
			labels[key] = LabelText(v)
		}
	}
	labels[labelDeployment], labels[labelCluster] = c.deploymentLabel(), c.clusterLabel(spec.Cluster)
	return labels
}

// maxLabel is the maximum length of a label's key or value.
const maxLabel = 63

// LabelText replaces the characters that labels do not accept, and shortens the text.
func LabelText(s string) string {
	s = strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9', r == '-', r == '_':
			return r
		case r >= 'A' && r <= 'Z':
			return r - 'A' + 'a'
		}
		return '-'
	}, s)
	return s[:min(len(s), maxLabel)]
}

// Labels by which machines are found. A label consists of a readable part of the name, for people, and a digest,
// which makes it unique: names may differ in characters that labels do not accept.
func (c *Cloud) deploymentLabel() string {
	return readable(c.cfg.Deployment, 40) + "-" + digest(c.cfg.Deployment)
}

func (c *Cloud) clusterLabel(cluster string) string {
	return readable(cluster, 40) + "-" + digest(c.cfg.Deployment, cluster)
}

// machineName returns a name that ends in the rank, because the boot script reads the rank from it.
func (c *Cloud) machineName(cluster string, rank int) string {
	return "tw-" + strings.ReplaceAll(readable(cluster, 28), "_", "-") + "-" + digest(c.cfg.Deployment, cluster) + "-" +
		strconv.Itoa(rank)
}

func readable(s string, most int) string {
	s = strings.Trim(LabelText(s), "-_")
	return strings.Trim(s[:min(len(s), most)], "-_")
}

// digest returns a digest of some names, in 16 characters.
func digest(names ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(names, "\x00")))
	return hex.EncodeToString(sum[:8])
}

// requestID returns a UUID that is derived from the cluster and the number of its launches that failed with a
// temporary error. Google answers the same ID with the same operation, even if that has failed.
func (c *Cloud) requestID(cluster string, attempt int) string {
	sum := sha256.Sum256([]byte(c.cfg.Deployment + "\x00" + cluster + "\x00" + strconv.Itoa(attempt)))
	sum[6], sum[8] = sum[6]&0x0f|0x50, sum[8]&0x3f|0x80 // the format of a name-based UUID (RFC 9562)
	h := hex.EncodeToString(sum[:16])
	return fmt.Sprintf("%s-%s-%s-%s-%s", h[:8], h[8:12], h[12:16], h[16:20], h[20:])
}

// machineDescription has the data for lists that a machine's description records, because labels allow neither upper
// case nor dots.
type machineDescription struct {
	Cluster     string  `json:"cluster"`
	Nodes       int     `json:"nodes"` // number of machines of the cluster
	USDPerHour  float64 `json:"usdPerHour,omitempty"`
	Accelerator string  `json:"accelerator,omitempty"`
	Count       float64 `json:"count,omitempty"`
	Spot        bool    `json:"spot,omitempty"`
}

const describedBy = "Tradewind: "

func describe(spec cloud.LaunchSpec) string {
	usd := spec.Offer.USDPerHour
	if math.IsNaN(usd) || math.IsInf(usd, 0) {
		usd = 0
	}
	b, err := json.Marshal(machineDescription{
		Cluster: spec.Cluster, Nodes: spec.Nodes, USDPerHour: usd, Accelerator: spec.Offer.Accelerator,
		Count: spec.Offer.AccelCount, Spot: spec.Offer.Spot,
	})
	if err != nil {
		return describedBy + "{}"
	}
	return describedBy + string(b)
}

func parseDescription(s string) (t machineDescription) {
	if text, ok := strings.CutPrefix(s, describedBy); ok {
		if json.Unmarshal([]byte(text), &t) != nil {
			return machineDescription{}
		}
	}
	return t
}

// rankOf returns the number at the end of a machine's name; -1 if there is none.
func rankOf(name string) int {
	n, err := strconv.Atoi(name[strings.LastIndexByte(name, '-')+1:])
	if err != nil {
		return -1
	}
	return n
}

// lastPart returns the last part of a resource's URL.
func lastPart(link string) string { return link[strings.LastIndexByte(link, '/')+1:] }

func byRank(a, b cloud.Machine) int {
	return cmp.Or(strings.Compare(a.Cluster, b.Cluster), cmp.Compare(a.Rank, b.Rank))
}
