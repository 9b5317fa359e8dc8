package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/tradewind-broker/tradewind/pkg/cloud"
	corev1 "k8s.io/api/core/v1"
	schedulingv1alpha2 "k8s.io/api/scheduling/v1alpha2"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Gang specifies the way in which the pods of one cluster of the broker are bound together in a place.
type Gang struct {
	By    string // one of the By constants; empty is ByGates
	Queue string // Kueue's LocalQueue, or Volcano's Queue
}

// Ways to bind gangs.
const (
	// ByGates: the broker checks for room, and removes its own scheduling gates.
	ByGates = "gates"
	// ByKueue: Kueue admits the pods as a group against the quota of a queue (its documentation, "Run a group of
	// Pods").
	ByKueue = "kueue"
	// ByVolcano: Volcano's scheduler binds the pods of a PodGroup of scheduling.volcano.sh.
	ByVolcano = "volcano"
	// ByNative: the cluster's own scheduler binds them, with a PodGroup of scheduling.k8s.io (KEP-4671; Kubernetes
	// 1.36 with its feature gates GenericWorkload and GangScheduling).
	ByNative = "native"
)

// boundByOthers reports whether another component than the broker decides whether a gang has room.
func (g Gang) boundByOthers() bool { return g.By != "" && g.By != ByGates }

// usesClusterScheduler reports whether the cluster's own scheduler places the pods. That scheduler decides by the
// free room of nodes, and tries every pod sooner or later.
func (g Gang) usesClusterScheduler() bool { return !g.boundByOthers() || g.By == ByNative }

// ParseGang parses gates, native, kueue:QUEUE, volcano or volcano:QUEUE.
func ParseGang(text string) (Gang, error) {
	by, queue, named := strings.Cut(text, ":")
	ok := false
	switch by {
	case ByGates, ByNative:
		ok = !named
	case ByKueue:
		ok = queue != ""
	case ByVolcano:
		ok = !named || queue != ""
	}
	if !ok || queue != plainName(queue) {
		return Gang{}, fmt.Errorf("%.100q is not gates, native, kueue:QUEUE or volcano[:QUEUE]", text)
	}
	return Gang{By: by, Queue: queue}, nil
}

// Labels, annotations and gates of Kueue and Volcano.
const (
	kueueQueue  = "kueue.x-k8s.io/queue-name"
	kueueGroup  = "kueue.x-k8s.io/pod-group-name"
	kueueCount  = "kueue.x-k8s.io/pod-group-total-count"
	kueueRetry  = "kueue.x-k8s.io/retriable-in-group"
	kueueGate   = "kueue.x-k8s.io/admission"
	volcanoName = "scheduling.k8s.io/group-name"
)

// kueueWorkloads are the versions of Kueue's Workload, newest first.
var kueueWorkloads = []schema.GroupVersionResource{
	{Group: "kueue.x-k8s.io", Version: "v1beta2", Resource: "workloads"},
	{Group: "kueue.x-k8s.io", Version: "v1beta1", Resource: "workloads"},
}

var volcanoGroups = schema.GroupVersionResource{
	Group: "scheduling.volcano.sh", Version: "v1beta1", Resource: "podgroups",
}

// join makes a pod part of the gang. Kueue adds its gate itself, too. join sets the gate at once, so that the pod is
// not bound in a cluster whose Kueue is down.
func (g *gang) join(p *corev1.Pod) {
	name := g.c.groupName(g.spec.Cluster)
	switch by := g.place.Gang; by.By {
	case ByKueue:
		p.Labels[kueueQueue], p.Labels[kueueGroup] = by.Queue, name
		p.Annotations[kueueCount], p.Annotations[kueueRetry] = strconv.Itoa(g.spec.Nodes), "false"
		p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: kueueGate}}
	case ByVolcano:
		p.Annotations[volcanoName] = name
		p.Spec.SchedulerName = "volcano"
	case ByNative:
		p.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: &name}
	default:
		p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: gate}}
	}
}

// group creates the object that describes the gang to a scheduler. The gang's Secret owns it, so it is removed even
// if ungroup does not run.
func (g *gang) group(ctx context.Context, with *corev1.Secret) error {
	about := metav1.ObjectMeta{Name: g.c.groupName(g.spec.Cluster), Labels: g.c.labels(g.spec.Cluster)}
	if with.UID != "" {
		about.OwnerReferences = []metav1.OwnerReference{{
			APIVersion: "v1", Kind: "Secret", Name: with.Name, UID: with.UID,
		}}
	}
	var err error
	switch g.place.Gang.By {
	case ByVolcano:
		if err = g.place.dynamic(volcanoGroups); err == nil {
			_, err = g.place.Dynamic.Resource(volcanoGroups).Namespace(g.place.Namespace).Create(ctx,
				g.volcanoGroup(about), metav1.CreateOptions{})
		}
	case ByNative:
		_, err = g.place.Client.PodGroups(g.place.Namespace).Create(ctx,
			&schedulingv1alpha2.PodGroup{ObjectMeta: about, Spec: schedulingv1alpha2.PodGroupSpec{
				SchedulingPolicy: schedulingv1alpha2.PodGroupSchedulingPolicy{
					Gang: &schedulingv1alpha2.GangSchedulingPolicy{
						MinCount: int32(g.spec.Nodes), //nolint:gosec // at most dag.MaxNodes
					},
				},
			}}, metav1.CreateOptions{})
	}
	switch {
	case apierrors.IsAlreadyExists(err):
		return nil
	case apierrors.IsNotFound(err), meta.IsNoMatchError(err):
		return fail(cloud.Quota, codeNoGangs, "%s is configured to bind gangs by %s, which the cluster does not have; "+
			"without it: tradewind cloud add kubernetes --gang gates (%v)", g.place.Name, g.place.Gang.By, err)
	}
	return err
}

func (g *gang) volcanoGroup(about metav1.ObjectMeta) *unstructured.Unstructured {
	each := g.shape.request()
	least := map[string]any{}
	for name, q := range each {
		q.Mul(int64(g.spec.Nodes))
		least[string(name)] = q.String()
	}
	spec := map[string]any{"minMember": int64(g.spec.Nodes), "minResources": least}
	if g.place.Gang.Queue != "" {
		spec["queue"] = g.place.Gang.Queue
	}
	u := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": volcanoGroups.Group + "/" + volcanoGroups.Version, "kind": "PodGroup", "spec": spec,
	}}
	u.SetName(about.Name)
	u.SetLabels(about.Labels)
	u.SetOwnerReferences(about.OwnerReferences)
	return u
}

// codeNoGangs is the code for a place without the component that is set to bind its gangs.
const codeNoGangs = "NoGangScheduler"

// errNoDynamic means that a place has no client for custom resources.
var errNoDynamic = errors.New("this place was opened without a dynamic client")

func (p *Place) dynamic(of schema.GroupVersionResource) error {
	if p.Dynamic == nil {
		return fmt.Errorf("%s: %w", of.Resource, errNoDynamic)
	}
	return nil
}

// ungroup removes the object that group created.
func (c *Cloud) ungroup(ctx context.Context, p *Place, cluster string) error {
	name := c.groupName(cluster)
	switch {
	case p.Gang.By == ByVolcano && p.Dynamic != nil:
		return gone(p.Dynamic.Resource(volcanoGroups).Namespace(p.Namespace).Delete(ctx, name, metav1.DeleteOptions{}))
	case p.Gang.By == ByNative:
		return gone(p.Client.PodGroups(p.Namespace).Delete(ctx, name, metav1.DeleteOptions{}))
	}
	return nil
}

// heldBack returns the message of the component that has not bound the gang; empty if it gives none.
func (g *gang) heldBack(ctx context.Context) string {
	name := g.c.groupName(g.spec.Cluster)
	switch g.place.Gang.By {
	case ByKueue:
		for _, version := range kueueWorkloads {
			if said := g.conditionOf(ctx, version, name, "Admitted", "QuotaReserved"); said != "" {
				return said
			}
		}
	case ByVolcano:
		return g.conditionOf(ctx, volcanoGroups, name, "Unschedulable")
	case ByNative:
		pg, err := g.place.Client.PodGroups(g.place.Namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return ""
		}
		for _, c := range pg.Status.Conditions {
			if c.Status == metav1.ConditionFalse && c.Message != "" {
				return c.Message
			}
		}
	}
	return ""
}

// conditionOf returns the message of an object's last condition with one of the given types. It returns an empty string
// if the broker may not read the object.
func (g *gang) conditionOf(ctx context.Context, of schema.GroupVersionResource, name string, types ...string,
) (said string) {
	if g.place.Dynamic == nil {
		return ""
	}
	u, err := g.place.Dynamic.Resource(of).Namespace(g.place.Namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return ""
	}
	list, _, _ := unstructured.NestedSlice(u.Object, "status", "conditions")
	for _, item := range list {
		c, _ := item.(map[string]any)
		kind, _ := c["type"].(string)
		message, _ := c["message"].(string)
		if slices.Contains(types, kind) && message != "" {
			said = message
		}
	}
	return said
}
