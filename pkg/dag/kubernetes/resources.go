package kubernetes

import (
	"math"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/tradewind-broker/tradewind/internal/base/fault"
	"github.com/tradewind-broker/tradewind/internal/base/yamlfile"
	"github.com/tradewind-broker/tradewind/internal/catalog/accel"
	"github.com/tradewind-broker/tradewind/pkg/dag"
	"github.com/tradewind-broker/tradewind/pkg/dag/internal/jobtext"
)

// first returns the pod's first alternative, and adds it if there is none.
func (p *pod) first() *dag.Resources {
	if p.resources == nil {
		p.resources = []dag.Resources{{}}
	}
	return &p.resources[0]
}

// amounts are requests or limits.
type amounts []yamlfile.Entry

func (r *reader) readResources(p *pod, n *yaml.Node) error {
	var requests, limits amounts
	keep := func(to *amounts) func(*pod, *yaml.Node) error {
		return func(_ *pod, n *yaml.Node) (err error) {
			*to, err = r.Mapping(n)
			return err
		}
	}
	err := readInto(r, n, fields[*pod]{"requests": keep(&requests), "limits": keep(&limits)}.
		with(unsupported[*pod](r, "requests devices of the cluster's drivers",
			"request them with nvidia.com/gpu and a node selector", "claims")), p)
	var all fault.Faults
	if !all.Add(err) {
		return all.Err()
	}
	// The default request is the limit. For a GPU, request and limit are the same.
	for _, e := range limits {
		asked := slices.ContainsFunc(requests, func(other yamlfile.Entry) bool { return other.Key == e.Key })
		if asked || yamlfile.IsNull(e.Node) {
			continue
		}
		all.Add(fault.Within("limits", r.amount(p, e, "limits")))
	}
	for _, e := range requests {
		if yamlfile.IsNull(e.Node) {
			continue
		}
		all.Add(fault.Within("requests", r.amount(p, e, "requests")))
	}
	return all.Err()
}

// amount reads one resource.
func (r *reader) amount(p *pod, e yamlfile.Entry, below string) error {
	place := fault.Join(fault.Join(r.where(), below), fault.KeyElement(e.Key))
	s, err := r.Text(e.Node)
	if err != nil {
		return fault.WithinKey(e.Key, err)
	}
	v, err := parseQuantity(s)
	res, field := p.first(), ""
	switch {
	case err != nil:
	case e.Key == "cpu":
		field = "cpus"
		res.CPUs, err = cpus(s)
		if err == nil {
			err = res.CPUs.Check(jobtext.MaxCPUs)
		}
	case e.Key == "memory":
		field = "memory"
		res.Memory = dag.Range{Min: v / (1 << 30)}
		err = res.Memory.Check(jobtext.MaxMemoryGiB)
	case e.Key == "ephemeral-storage":
		field = "disk"
		res.DiskGiB = dag.GiB(math.Ceil(v / (1 << 30)))
		err = res.DiskGiB.Check()
	case v == 0:
	case e.Key == "nvidia.com/gpu", e.Key == "amd.com/gpu":
		field = "accelerators"
		if p.vendor != "" && p.vendor != e.Key {
			err = fault.New("is requested together with "+p.vendor,
				"a machine has GPUs of one type: leave one of the two out")
			break
		}
		p.vendor, p.vendorAt = e.Key, e.Node
		res.AcceleratorCount = v
		if v != math.Trunc(v) || v > jobtext.MaxAccelerators {
			err = fault.New(fault.Quote(s)+" is not a number of GPUs", "")
		}
	case e.Key == "google.com/tpu",
		strings.HasPrefix(e.Key, "nvidia.com/mig-"),
		strings.HasPrefix(e.Key, "aws.amazon.com/neuron"),
		e.Key == "habana.ai/gaudi",
		strings.HasPrefix(e.Key, "gpu.intel.com/"):
		err = fault.New("the accelerator of this device is unknown",
			"leave it out, convert the job, and name the accelerator: resources: {accelerators: NAME}; "+
				"tradewind catalog search --gpu ANY lists them")
	case strings.HasPrefix(e.Key, "hugepages-"), strings.Contains(e.Key, "/"):
		r.job.Warn(yamlfile.PositionOf(e.Node), place, "is a device of a cluster: "+notActedOn)
	default:
		err = r.Unknown(e, []string{"cpu", "memory", "ephemeral-storage", "nvidia.com/gpu"})
	}
	if field != "" {
		r.mark(p, field, e.Node, place)
	}
	return fault.WithinKey(e.Key, fault.At(yamlfile.PositionOf(e.Node), err))
}

// nodeSelector reads the labels with which the clouds' clusters describe machine types, zones and GPUs.
func (r *reader) nodeSelector(p *pod, n *yaml.Node) error {
	return r.Each(n, func(e yamlfile.Entry) error {
		s, err := r.Text(e.Node)
		if err != nil {
			return err
		}
		return r.selectLabel(p, e.Key, s, e.Node)
	})
}

func (r *reader) selectLabel(p *pod, label, s string, n *yaml.Node) error {
	res, path := p.first(), fault.Join(r.where(), fault.KeyElement(label))
	field, to := "", (*string)(nil)
	switch label {
	case "kubernetes.io/arch", "beta.kubernetes.io/arch":
		field, to = "arch", &res.Arch
		if err := dag.CheckArch(s); err != nil {
			return err
		}
	case "node.kubernetes.io/instance-type", "beta.kubernetes.io/instance-type":
		field, to = "instanceType", &res.InstanceType
	case "topology.kubernetes.io/region", "failure-domain.beta.kubernetes.io/region":
		field, to = "region", &res.Region
	case "topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone":
		field, to = "zone", &res.Zone
	case "karpenter.sh/capacity-type", "eks.amazonaws.com/capacityType", "kubernetes.azure.com/scalesetpriority":
		res.Market = dag.MarketOnDemand
		if strings.EqualFold(s, "spot") {
			res.Market = dag.MarketSpot
		}
		r.mark(p, "market", n, path)
		return nil
	case "cloud.google.com/gke-spot":
		if s == "true" {
			res.Market = dag.MarketSpot
			r.mark(p, "market", n, path)
		}
		return nil
	case "kubernetes.io/os", "beta.kubernetes.io/os":
		if s != "linux" {
			return fault.New("is not supported: machines run Linux", "write linux")
		}
		return nil
	case "cloud.google.com/gke-accelerator",
		"nvidia.com/gpu.product",
		"karpenter.k8s.aws/instance-gpu-name",
		"accelerator",
		"gpu.nvidia.com/model",
		"k8s.amazonaws.com/accelerator",
		"amd.com/gpu.product-name":
		name, err := acceleratorOf(s)
		if err != nil {
			return err
		}
		res.Accelerator, p.selected = name, name
		r.mark(p, "accelerators", n, path)
		return nil
	default:
		r.job.Warn(yamlfile.PositionOf(n), path, "is a label of a cluster's nodes: "+notActedOn)
		return nil
	}
	*to = s
	r.mark(p, field, n, path)
	return jobtext.CheckWord(s)
}

// acceleratorOf returns the name of a GPU from a node label: nvidia-tesla-t4, Tesla-V100-SXM2-16GB.
func acceleratorOf(label string) (string, error) {
	for words := label; words != ""; words = words[:max(strings.LastIndexByte(words, '-'), 0)] {
		if name, err := accel.Normalize(words); err == nil {
			return name, nil
		}
	}
	name, _, err := dag.ParseAccelerator(label)
	if err == nil && strings.ContainsAny(name, ":{},") {
		err = fault.New(fault.Quote(label)+" is not the name of an accelerator", "")
	}
	return name, err
}

// affinity reads the rules about pods of the same template, and warns about all others, which need a cluster.
func (r *reader) affinity(p *pod, n *yaml.Node) error {
	if !r.ownPods(p, n) && len(p.rules) > 0 {
		return nil
	}
	r.warn(
		n,
		"is for nodes and pods of a cluster: "+notActedOn+"; write requirements for other machines in nodeSelector",
	)
	return nil
}

// raiseResources raises the resources of a pod to those of its init container, because the machine must be large enough
// for both.
func (p *pod) raiseResources(o *pod) {
	res, other := p.first(), o.first()
	more := map[string]bool{
		"cpus":         other.CPUs.Min > res.CPUs.Min,
		"memory":       other.Memory.Min > res.Memory.Min,
		"disk":         other.DiskGiB > res.DiskGiB,
		"accelerators": other.AcceleratorCount > res.AcceleratorCount,
	}
	res.CPUs.Min = max(res.CPUs.Min, other.CPUs.Min)
	res.Memory.Min = max(res.Memory.Min, other.Memory.Min)
	res.DiskGiB = max(res.DiskGiB, other.DiskGiB)
	res.AcceleratorCount = max(res.AcceleratorCount, other.AcceleratorCount)
	for _, m := range o.marks {
		if more[m.Field] { // messages use the first position of a field
			p.marks = slices.Insert(p.marks, 0, m)
		}
	}
}

// finishResources adds the resources of init containers, and adds alternatives with all common GPUs if the pod
// requests GPUs without a type.
func (r *reader) finishResources(p *pod, n *yaml.Node) error {
	for _, init := range p.inits {
		p.raiseResources(init)
	}
	res := p.first()
	if res.Accelerator == "" {
		res.Accelerator = p.selected // a TrainJob may request the GPUs of a pod whose node selector is in its runtime
	}
	if res.Accelerator != "" && res.AcceleratorCount == 0 {
		res.Accelerator = "" // the pod runs on a GPU node but requests no GPU
	}
	if res.AcceleratorCount == 0 || res.Accelerator != "" {
		return nil
	}
	if p.vendor == "amd.com/gpu" {
		return fault.Within("containers", r.Fault(p.vendorAt,
			"does not name the GPU, and programs for one GPU of AMD do not run on another",
			"name it with nodeSelector: amd.com/gpu.product-name"))
	}
	whole := *res
	p.resources = nil
	for _, name := range dag.CommonGPUs() {
		whole.Accelerator = name
		p.resources = append(p.resources, whole)
	}
	pos, path := yamlfile.PositionOf(n), fault.Join(r.where(), "containers")
	for _, m := range p.marks {
		if m.Field == "accelerators" {
			pos, path = m.Pos, fault.Join(p.path, m.Path)
		}
	}
	r.job.Warn(pos, path, "does not name the GPU: any of "+strings.Join(dag.CommonGPUs(), ", ")+
		" is accepted (name one with nodeSelector: nvidia.com/gpu.product)")
	return nil
}
