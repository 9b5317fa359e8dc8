package kubernetes

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Labels of nodes. The first label of each list that a node has is used.
var (
	typeLabels        = []string{corev1.LabelInstanceTypeStable, corev1.LabelInstanceType}
	zoneLabels        = []string{corev1.LabelTopologyZone, corev1.LabelFailureDomainBetaZone}
	regionLabels      = []string{corev1.LabelTopologyRegion, corev1.LabelFailureDomainBetaRegion}
	acceleratorLabels = []string{
		"karpenter.k8s.aws/instance-gpu-name", "cloud.google.com/gke-accelerator", "k8s.amazonaws.com/accelerator",
		"nvidia.com/gpu.product",
	}
)

// spotLabels mean that the node's cloud may interrupt it.
var spotLabels = map[string]string{
	"karpenter.sh/capacity-type": "spot", "eks.amazonaws.com/capacityType": "SPOT",
	"cloud.google.com/gke-spot": "true", "cloud.google.com/gke-preemptible": "true",
	"kubernetes.azure.com/scalesetpriority": "spot", "tradewind.dev/spot": "true",
}

// GPU is the resource for whole devices of NVIDIA's device plugin.
const GPU corev1.ResourceName = "nvidia.com/gpu"

// Node describes a node, or one that a pool could add.
type Node struct {
	Name        string `json:"-"` // empty: it does not exist yet
	Type        string `json:"type"`
	Region      string `json:"region,omitempty"` // in the node's cloud
	Zone        string `json:"zone,omitempty"`
	Provider    string `json:"-"` // the node's cloud, by its name in the catalogue; empty means unknown
	Arch        string `json:"arch,omitempty"`
	Accelerator string `json:"accelerator,omitempty"` // value of the label
	Spot        bool   `json:"spot,omitempty"`
	Whole       Room   `json:"whole"` // allocatable to pods
	Free        Room   `json:"-"`
	// Part is the kind of GPU parts, if a device plugin offers parts: "shared", or MIG's "mig-1g.10gb". A node with
	// parts is listed once for each kind, and once more if it has whole GPUs. OfGPU is the size of one part as a
	// share of a GPU.
	Part  string  `json:"part,omitempty"`
	OfGPU float64 `json:"ofGPU,omitempty"`
}

// Room is the resources that pods use on a node.
type Room struct {
	MilliCPU int64 `json:"milliCPU"`
	Bytes    int64 `json:"bytes"`
	GPUs     int64 `json:"gpus,omitempty"`
	Pods     int64 `json:"-"`
}

func (r Room) holds(want Room) bool {
	return r.MilliCPU >= want.MilliCPU && r.Bytes >= want.Bytes && r.GPUs >= want.GPUs && r.Pods >= want.Pods
}

func (r Room) less(want Room) Room {
	return Room{r.MilliCPU - want.MilliCPU, r.Bytes - want.Bytes, r.GPUs - want.GPUs, r.Pods - want.Pods}
}

func roomOf(list corev1.ResourceList) Room {
	gpus := list[GPU]
	return Room{
		MilliCPU: list.Cpu().MilliValue(), Bytes: list.Memory().Value(), GPUs: gpus.Value(), Pods: list.Pods().Value(),
	}
}

// use is the resources that pods use on a node; shares are parts of GPUs, by the name of their resource.
type use struct {
	Room
	shares map[corev1.ResourceName]int64
}

// plus adds v, or subtracts it if sign is -1.
func (u use) plus(v use, sign int64) use {
	u.MilliCPU, u.Bytes = u.MilliCPU+sign*v.MilliCPU, u.Bytes+sign*v.Bytes
	u.GPUs, u.Pods = u.GPUs+sign*v.GPUs, u.Pods+sign*v.Pods
	if len(v.shares) > 0 {
		u.shares = maps.Clone(u.shares)
		if u.shares == nil {
			u.shares = map[corev1.ResourceName]int64{}
		}
		for name, n := range v.shares {
			u.shares[name] += sign * n
		}
	}
	return u
}

// takes returns the resources that a pod requests of its node: the sum of its containers, or the largest request of an
// init container.
func takes(p *corev1.Pod) use {
	sum := use{Room: Room{Pods: 1}}
	for i := range p.Spec.Containers {
		requests := p.Spec.Containers[i].Resources.Requests
		sum = sum.plus(use{roomOf(requests), sharesOf(requests)}, 1)
	}
	sum.Pods = 1
	for i := range p.Spec.InitContainers {
		requests := p.Spec.InitContainers[i].Resources.Requests
		r := roomOf(requests)
		sum.MilliCPU, sum.Bytes = max(sum.MilliCPU, r.MilliCPU), max(sum.Bytes, r.Bytes)
		sum.GPUs = max(sum.GPUs, r.GPUs)
		for name, n := range sharesOf(requests) {
			sum = sum.plus(use{shares: map[corev1.ResourceName]int64{name: max(0, n-sum.shares[name])}}, 1)
		}
	}
	return sum
}

// request returns the resource request of a shape's container.
func (s Shape) request() corev1.ResourceList {
	list := corev1.ResourceList{
		corev1.ResourceCPU:    *resource.NewMilliQuantity(int64(s.VCPU*1000), resource.DecimalSI),
		corev1.ResourceMemory: *resource.NewQuantity(int64(s.GiB*(1<<30)), resource.BinarySI),
	}
	if s.GPUs > 0 {
		list[s.resource()] = *resource.NewQuantity(s.GPUs, resource.DecimalSI)
	}
	return list
}

func first(labels map[string]string, names []string) string {
	for _, n := range names {
		if v := labels[n]; v != "" {
			return v
		}
	}
	return ""
}

// isOn reports whether a pod uses resources of a node.
func isOn(p *corev1.Pod) bool {
	return p.Spec.NodeName != "" && p.Status.Phase != corev1.PodSucceeded && p.Status.Phase != corev1.PodFailed
}

// usedBy returns the resources that pods use on each node.
func usedBy(pods []corev1.Pod) map[string]use {
	used := map[string]use{}
	for i := range pods {
		if p := &pods[i]; isOn(p) {
			used[p.Spec.NodeName] = used[p.Spec.NodeName].plus(takes(p), 1)
		}
	}
	return used
}

// readNodes converts a cluster's nodes, and the resources in use on each, to the nodes that the driver sells. It
// omits nodes that accept no new pods, are not ready, or have a taint that our pods do not tolerate.
func readNodes(nodes []*corev1.Node, used map[string]use, tolerations []corev1.Toleration) []Node {
	var found []Node
	for _, n := range nodes {
		if n.Spec.Unschedulable || !ready(n) || n.DeletionTimestamp != nil || repels(n.Spec.Taints, tolerations) {
			continue
		}
		whole, taken := roomOf(n.Status.Allocatable), used[n.Name]
		node := Node{
			Name: n.Name, Type: cmp.Or(plainName(first(n.Labels, typeLabels)), AnyNode),
			Region: first(n.Labels, regionLabels), Zone: plainName(first(n.Labels, zoneLabels)),
			Arch: n.Labels[corev1.LabelArchStable], Spot: spot(n.Labels), Whole: whole, Free: whole.less(taken.Room),
			Provider: provider(n.Spec.ProviderID),
		}
		if whole.GPUs > 0 {
			node.Accelerator = cmp.Or(first(n.Labels, acceleratorLabels), "GPU")
		}
		shares := sharesOf(n.Status.Allocatable)
		if whole.GPUs > 0 || len(shares) == 0 {
			found = append(found, node)
		}
		for _, name := range slices.Sorted(maps.Keys(shares)) {
			found = append(found, node.shared(n.Labels, name, shares[name], shares[name]-taken.shares[name]))
		}
	}
	slices.SortFunc(found, func(a, b Node) int {
		return cmp.Or(strings.Compare(a.Name, b.Name), strings.Compare(a.Part, b.Part))
	})
	return found
}

func ready(n *corev1.Node) bool {
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

func spot(labels map[string]string) bool {
	for name, value := range spotLabels {
		if labels[name] == value {
			return true
		}
	}
	return false
}

// provider returns the catalogue's name of a node's cloud from its provider ID: aws:///us-east-1a/i-0123.
func provider(id string) string {
	scheme, _, _ := strings.Cut(id, "://")
	return map[string]string{"aws": "aws", "gce": "gcp", "azure": "azure"}[scheme]
}

// repels reports whether a taint keeps pods with these tolerations away.
func repels(taints []corev1.Taint, tolerations []corev1.Toleration) bool {
	for i := range taints {
		t := &taints[i]
		if t.Effect == corev1.TaintEffectPreferNoSchedule {
			continue
		}
		tolerated := slices.ContainsFunc(tolerations, func(l corev1.Toleration) bool { return tolerates(&l, t) })
		if !tolerated {
			return true
		}
	}
	return false
}

func tolerates(l *corev1.Toleration, t *corev1.Taint) bool {
	if l.Effect != "" && l.Effect != t.Effect || l.Key != "" && l.Key != t.Key {
		return false
	}
	return l.Operator == corev1.TolerationOpExists || l.Key != "" && l.Value == t.Value
}

// plainName replaces the characters of a label's value that the catalogue does not accept.
func plainName(s string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '.' || r == '_' || r == '-' {
			return r
		}
		return '-'
	}, s)
}

// suits reports whether a pod of an offer may run on a node.
func (n *Node) suits(s Shape, zone string, spot bool) bool {
	return n.Type == s.Node && n.Part == s.Part && (zone == "" || n.Zone == zone) && n.Spot == spot
}

// take places up to count pods on the nodes, filling one node after the other, and returns the number of placed pods.
// It deducts their resources from the free room of the nodes.
func take(nodes []Node, s Shape, zone string, spot bool, count int) (placed int) {
	want := s.room()
	for i := range nodes {
		if !nodes[i].suits(s, zone, spot) {
			continue
		}
		for ; placed < count && nodes[i].Free.holds(want); placed++ {
			nodes[i].Free = nodes[i].Free.less(want)
		}
	}
	return placed
}
