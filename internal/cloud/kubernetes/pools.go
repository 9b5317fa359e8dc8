package kubernetes

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// nodePools are Karpenter's pools, "NodePool" of karpenter.sh/v1.
var nodePools = schema.GroupVersionResource{Group: "karpenter.sh", Version: "v1", Resource: "nodepools"}

// growing returns the pools that can grow: those from the settings, and Karpenter's if the cluster has Karpenter and
// the broker may read its pools. A NodePool lists the types of nodes that it makes. Their sizes are taken from
// existing nodes of that type or, if there are none, from the settings.
func (p *Place) growing(ctx context.Context) ([]Pool, error) {
	pools := slices.Clone(p.Pools)
	for i := range pools {
		pools[i].Whole.Pods = maxPods
	}
	if p.Dynamic == nil {
		return pools, nil
	}
	list, err := p.Dynamic.Resource(nodePools).List(ctx, metav1.ListOptions{})
	if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) {
		return pools, nil
	}
	if err != nil {
		return nil, err
	}
	if len(list.Items) == 0 {
		return pools, nil
	}
	nodes, err := p.Client.Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	sizes := sizesOf(nodes.Items, p.Pools)
	for i := range list.Items {
		pools = append(pools, karpenter(&list.Items[i], sizes)...)
	}
	return pools, nil
}

// maxPods is the kubelet's default maximum of pods per node.
const maxPods = 110

// sizesOf returns the resources of a node of each type, from existing nodes and the settings.
func sizesOf(nodes []corev1.Node, told []Pool) map[string]Node {
	sizes := map[string]Node{}
	for _, p := range told {
		sizes[p.Type] = p.Node
	}
	for i := range nodes {
		n := &nodes[i]
		if kind := plainName(first(n.Labels, typeLabels)); kind != "" {
			sizes[kind] = Node{Type: kind, Arch: n.Labels[corev1.LabelArchStable], Whole: roomOf(n.Status.Allocatable),
				Accelerator: first(n.Labels, acceleratorLabels), Region: first(n.Labels, regionLabels),
				Provider: provider(n.Spec.ProviderID)}
		}
	}
	return sizes
}

// karpenter converts a NodePool: one pool for every type, zone and capacity type that its requirements name.
func karpenter(pool *unstructured.Unstructured, sizes map[string]Node) (found []Pool) {
	requirements, _, _ := unstructured.NestedSlice(pool.Object, "spec", "template", "spec", "requirements")
	in := map[string][]string{}
	for _, r := range requirements {
		m, ok := r.(map[string]any)
		if !ok || m["operator"] != "In" {
			continue
		}
		key, _ := m["key"].(string)
		values, _, _ := unstructured.NestedStringSlice(m, "values")
		in[key] = values
	}
	capacity := in["karpenter.sh/capacity-type"]
	if len(capacity) == 0 {
		capacity = []string{"on-demand"}
	}
	zones := in[zoneLabel]
	if len(zones) == 0 {
		zones = []string{""}
	}
	for _, kind := range in[typeLabel] {
		size, known := sizes[kind]
		if !known {
			continue
		}
		size.Whole.Pods = maxPods
		for _, zone := range zones {
			for _, c := range capacity {
				node := size
				node.Zone, node.Spot = zone, c == "spot"
				found = append(found, Pool{Node: node})
			}
		}
	}
	return found
}

// scaleUps are the reasons of events by which cluster-autoscaler and Karpenter report that they make a node for a pod.
var scaleUps = []string{"TriggeredScaleUp", "Nominated"}

// scalingUp reports whether an autoscaler makes a node for one of the pods.
func (p *Place) scalingUp(ctx context.Context, pods []corev1.Pod) bool {
	events, err := p.Client.Events(p.Namespace).List(ctx, metav1.ListOptions{
		FieldSelector: "involvedObject.kind=Pod", Limit: listPage,
	})
	if err != nil {
		return false // without the right to read events, assume none
	}
	for i := range events.Items {
		e := &events.Items[i]
		if slices.Contains(scaleUps, e.Reason) && slices.ContainsFunc(pods, func(p corev1.Pod) bool {
			return p.UID == e.InvolvedObject.UID
		}) {
			return true
		}
	}
	return false
}
