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

	"github.com/tradewind-broker/tradewind/pkg/agent/bootstrap"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
	"github.com/tradewind-broker/tradewind/pkg/cloud/driver"
)

// Labels of everything that is launched.
const (
	labelPrefix     = "tradewind-"
	labelDeployment = labelPrefix + "deployment"
	labelCluster    = labelPrefix + "cluster"
)

// NetworkTag is on all machines, for rules of firewalls.
const NetworkTag = "tradewind"

// request is the call that buys a cluster. The same spec gives the same request.
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
	// metadata is text, and has room for what EC2 wants compressed
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
			// nobody's keys but those of whom the project lets in by OS Login
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
			return nil, fail(cloud.Capacity, codeNotSold, "Google attaches no %s", spec.Offer.Accelerator)
		}
		p.GuestAccelerators = []*compute.AcceleratorConfig{{
			AcceleratorType: kind, AcceleratorCount: int64(spec.Offer.AccelCount),
		}}
	}
	if c.cfg.ServiceAccount != "" {
		// It has no role; and this scope tells no more than its address.
		p.ServiceAccounts = []*compute.ServiceAccount{{Email: c.cfg.ServiceAccount, Scopes: []string{scopeEmail}}}
	}
	if img.shielded {
		p.ShieldedInstanceConfig = &compute.ShieldedInstanceConfig{
			EnableVtpm: true, EnableIntegrityMonitoring: true,
			// NVIDIA's drivers in Google's images are not signed for it
			EnableSecureBoot: !t.gpu && !attached(spec.Offer),
		}
	}
	in := &compute.BulkInsertInstanceResource{
		// All or none: fewer than the minimum are undone.
		Count: int64(spec.Nodes), MinCount: int64(spec.Nodes), InstanceProperties: p,
		PerInstanceProperties: map[string]compute.BulkInsertInstanceResourcePerInstanceProperties{},
	}
	for rank := range spec.Nodes {
		name := c.machineName(spec.Cluster, rank)
		in.PerInstanceProperties[name] = compute.BulkInsertInstanceResourcePerInstanceProperties{Name: name}
	}
	return in, nil
}

func item(key, value string) *compute.MetadataItems {
	return &compute.MetadataItems{Key: key, Value: &value}
}

// scheduling ends spot machines for good when they are taken. No machine is started again by itself: its token was good
// once.
func scheduling(o apitypes.Offer, t machineType) *compute.Scheduling {
	no := false
	s := &compute.Scheduling{
		ProvisioningModel: "STANDARD", AutomaticRestart: &no, ForceSendFields: []string{"AutomaticRestart"},
	}
	if o.Spot {
		s.ProvisioningModel, s.InstanceTerminationAction, s.Preemptible = "SPOT", "DELETE", true
	}
	if o.Spot || t.gpu || t.stays || attached(o) {
		s.OnHostMaintenance = "TERMINATE" // none is moved to another host; some others can be moved only
	}
	return s
}

// hyperdiskFamilies take no other boot disks (Compute Engine documentation, "Machine type comparison").
var hyperdiskFamilies = map[string]bool{
	"c4": true, "c4a": true, "c4d": true, "n4": true, "n4a": true, "n4d": true, "x4": true, "a4": true,
	"a4x": true, "g4": true, "h4d": true, "m4": true,
}

// maxDiskGiB is the largest boot disk (Compute Engine documentation, "Persistent Disk").
const maxDiskGiB = 65536

// disk is the boot disk, which goes with the machine: of the size that is asked for, and no smaller than the image.
func (c *Cloud) disk(spec cloud.LaunchSpec, img image) *compute.AttachedDisk {
	gib := spec.DiskGiB
	if !(gib > 0) {
		gib = c.cfg.DiskGiB
	}
	family, _, _ := strings.Cut(spec.Offer.InstanceType, "-")
	kind := "pd-balanced"
	if hyperdiskFamilies[family] || strings.HasPrefix(spec.Offer.InstanceType, "a3-ultragpu") {
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

// path is a resource's path, of the own project where only a name is given.
func path(name, below string) string {
	if name == "" || strings.Contains(name, "/") {
		return name
	}
	return below + name
}

// labels are for machines and their disks.
func (c *Cloud) labels(spec cloud.LaunchSpec) map[string]string {
	labels := map[string]string{}
	for k, v := range c.cfg.Labels {
		labels[labelText(k)] = labelText(v)
	}
	for k, v := range spec.Labels {
		if key := labelText(labelPrefix + k); labelText(v) != "" {
			labels[key] = labelText(v)
		}
	}
	labels[labelDeployment], labels[labelCluster] = c.deploymentLabel(), c.clusterLabel(spec.Cluster)
	return labels
}

// maxLabel is the longest key or value of a label.
const maxLabel = 63

// labelText is what of a text every label takes.
func labelText(s string) string {
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

// The labels by which machines are found have as much of the name as people need, and a digest that tells it from all
// others: names may differ in what a label cannot have.
func (c *Cloud) deploymentLabel() string {
	return readable(c.cfg.Deployment, 40) + "-" + digest(c.cfg.Deployment)
}

func (c *Cloud) clusterLabel(cluster string) string {
	return readable(cluster, 40) + "-" + digest(c.cfg.Deployment, cluster)
}

// machineName ends in the rank, which the boot script reads there.
func (c *Cloud) machineName(cluster string, rank int) string {
	return "tw-" + strings.ReplaceAll(readable(cluster, 28), "_", "-") + "-" + digest(c.cfg.Deployment, cluster) + "-" +
		strconv.Itoa(rank)
}

func readable(s string, most int) string {
	s = strings.Trim(labelText(s), "-_")
	return strings.Trim(s[:min(len(s), most)], "-_")
}

// digest is of some names, in 16 characters.
func digest(names ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(names, "\x00")))
	return hex.EncodeToString(sum[:8])
}

// requestID is a UUID that follows from the cluster, and from how many launches of it have failed before in a way that
// is to be tried again: Google answers the same id with the same operation, be it a failed one.
func (c *Cloud) requestID(cluster string, attempt int) string {
	sum := sha256.Sum256([]byte(c.cfg.Deployment + "\x00" + cluster + "\x00" + strconv.Itoa(attempt)))
	sum[6], sum[8] = sum[6]&0x0f|0x50, sum[8]&0x3f|0x80 // the form of a UUID that is made of a name (RFC 9562)
	h := hex.EncodeToString(sum[:16])
	return fmt.Sprintf("%s-%s-%s-%s-%s", h[:8], h[8:12], h[12:16], h[16:20], h[20:])
}

// told is what a machine's description says to whoever lists it: labels can have neither case nor dots.
type told struct {
	Cluster     string  `json:"cluster"`
	Nodes       int     `json:"nodes"` // of the cluster
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
	b, err := json.Marshal(told{
		Cluster: spec.Cluster, Nodes: spec.Nodes, USDPerHour: usd, Accelerator: spec.Offer.Accelerator,
		Count: spec.Offer.AccelCount, Spot: spec.Offer.Spot,
	})
	if err != nil {
		return describedBy + "{}"
	}
	return describedBy + string(b)
}

func parseDescription(s string) (t told) {
	if text, ok := strings.CutPrefix(s, describedBy); ok {
		if json.Unmarshal([]byte(text), &t) != nil {
			return told{}
		}
	}
	return t
}

// rankOf is the number that a machine's name ends in, -1 where there is none.
func rankOf(name string) int {
	n, err := strconv.Atoi(name[strings.LastIndexByte(name, '-')+1:])
	if err != nil {
		return -1
	}
	return n
}

// lastPart is what a URL of a resource ends in.
func lastPart(link string) string { return link[strings.LastIndexByte(link, '/')+1:] }

func byRank(a, b cloud.Machine) int {
	return cmp.Or(strings.Compare(a.Cluster, b.Cluster), cmp.Compare(a.Rank, b.Rank))
}
