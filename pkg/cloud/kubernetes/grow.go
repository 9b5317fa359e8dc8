package kubernetes

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tradewind-broker/tradewind/pkg/clock"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
	"github.com/tradewind-broker/tradewind/pkg/cloud/driver"
)

// Autoscalers make nodes for pods that wait alone. Were those the gang's own, half of it would be bound for minutes
// while the other half waits for nodes. So placeholders go first: one for each pod of the gang, which asks for the same
// and does nothing. When all of them have a node they go, and the gang takes their places as a whole.

// labelPlaceholder marks the placeholders of one cluster of the broker's. They have none of the labels of machines.
const labelPlaceholder = "tradewind.dev/placeholder-for"

// PlaceholderPriority is the PriorityClass of placeholders where the cluster has it. Its value is negative, so that
// whatever others run takes the room of placeholders that wait for the rest.
const PlaceholderPriority = "tradewind-placeholder"

func (g *gang) placeholderLabel() string { return hash(g.c.groupName(g.spec.Cluster)) }

// placeholders are those of the gang, as Watch has heard last, or as they are now: every gang that waits looks at its
// own four times a second, and lists of a namespace of ten thousand pods would leave the API server no time for else.
func (g *gang) placeholders(ctx context.Context) ([]corev1.Pod, error) {
	if pods, ok := g.c.grounds[g.place.Name].sight.pods(g.placeholderLabel()); ok {
		return pods, nil
	}
	return g.listPlaceholders(ctx)
}

// listPlaceholders asks for them.
func (g *gang) listPlaceholders(ctx context.Context) ([]corev1.Pod, error) {
	return g.place.pods(ctx, labelPlaceholder+"="+g.placeholderLabel())
}

// grow waits until there is room for all pods that have no node yet, and until no other gang's placeholder waits for a
// node: it would take the place of the first one that leaves. For that it waits as long as a node takes to come, a
// fifth of GrowWithin at most.
//
// It fails with Capacity and the scheduler's words when for GrowWithin no placeholder has got a node. Placeholders are
// left only where ctx ends first: a launch that is made again goes on with them. Where the cluster does not allow them
// it does nothing: the gang's own pods wait for nodes then.
func (g *gang) grow(ctx context.Context, arch string) (err error) {
	first, err := g.first(ctx)
	if err != nil {
		return err
	}
	defer func() {
		if ctx.Err() == nil {
			err = errors.Join(err, g.dropPlaceholders(ctx))
		}
	}()
	if err := g.follow(ctx); err != nil {
		return err
	}
	gr := g.c.grounds[g.place.Name]
	defer gr.waits(g.spec.Cluster, 0)
	var whole time.Time // since when all placeholders have had a node
	for {
		if _, err := g.pods(ctx); err != nil {
			return err
		}
		wanted := g.spec.Nodes - g.bound // pods that nobody holds back may have got new nodes themselves
		have, err := g.placeholders(ctx)
		if err != nil {
			return err
		}
		placed := bound(have)
		gr.waits(g.spec.Cluster, wanted-placed)
		if placed < wanted {
			whole = time.Time{}
		} else if whole.IsZero() {
			whole = time.Now()
		}
		if placed >= wanted && (gr.quiet() || time.Since(whole) >= g.c.cfg.GrowWithin/5) {
			return g.enter(ctx)
		}
		err = g.addPlaceholders(ctx, first, arch, have, wanted)
		if kind := cloud.KindOf(Typed(err)); kind == cloud.Quota || kind == cloud.Invalid {
			g.c.log.Warn("a gang's own pods wait for new nodes, as placeholders are refused",
				"cluster", g.spec.Cluster, "place", g.place.Name, "why", err)
			return nil
		}
		if err != nil {
			return err
		}
		if waited := time.Since(lastBound(have, first.CreationTimestamp.Time)); waited >= g.c.cfg.GrowWithin {
			return fail(cloud.Capacity, codeUnbound, "%s has room for %d of %d pods, and no more came within %s: %s",
				g.place.Name, placed, wanted, waited.Round(time.Second),
				cmp.Or(g.refusal(have), "the scheduler has not said why"))
		}
		if err := clock.Pause(ctx, g.c.cfg.LookEvery); err != nil {
			return err
		}
	}
}

// first is a pod of the gang, with which placeholders go should their own removal be forgotten.
func (g *gang) first(ctx context.Context) (*corev1.Pod, error) {
	pods, err := g.list(ctx)
	if err != nil {
		return nil, err
	}
	if len(pods) == 0 {
		return nil, fail(cloud.Transient, driver.CodeLost, "the pods of cluster %s are gone", g.spec.Cluster)
	}
	return &pods[0], nil
}

// lastBound is when the last of some placeholders got a node, or began: a launch that is made again does not begin to
// wait anew.
func lastBound(placeholders []corev1.Pod, began time.Time) time.Time {
	for i := range placeholders {
		c := condition(&placeholders[i], corev1.PodScheduled)
		if c != nil && c.Status == corev1.ConditionTrue && c.LastTransitionTime.After(began) {
			began = c.LastTransitionTime.Time
		}
	}
	return began
}

func bound(pods []corev1.Pod) (n int) {
	for i := range pods {
		if pods[i].Spec.NodeName != "" && pods[i].DeletionTimestamp == nil {
			n++
		}
	}
	return n
}

// addPlaceholders makes those that are not there, so that there are as many as wanted.
func (g *gang) addPlaceholders(ctx context.Context, first *corev1.Pod, arch string, have []corev1.Pod, wanted int,
) error {
	name := func(i int) string { return fmt.Sprintf("%s-room-%d", g.c.groupName(g.spec.Cluster), i) }
	return complete(wanted, have, name, func(i int) error {
		p, err := g.placeholder(first, arch, name(i))
		if err != nil {
			return err
		}
		defer g.c.grounds[g.place.Name].call()()
		pods := g.place.Client.CoreV1().Pods(g.place.Namespace)
		_, err = pods.Create(ctx, p, metav1.CreateOptions{})
		if apierrors.IsForbidden(err) && strings.Contains(err.Error(), PlaceholderPriority) { // there is no such class
			p.Spec.PriorityClassName = ""
			_, err = pods.Create(ctx, p, metav1.CreateOptions{})
		}
		return err
	})
}

// placeholder asks for what a pod of the gang asks for, by the same rules. It has the task's image, so that this is on
// the node when the task comes.
func (g *gang) placeholder(first *corev1.Pod, arch, name string) (*corev1.Pod, error) {
	p, err := g.c.pod(g.spec, g.shape, arch, 0)
	if err != nil {
		return nil, err
	}
	for _, l := range []string{labelDeployment, labelCluster, labelRank} {
		delete(p.Labels, l)
	}
	p.Labels[labelPlaceholder] = g.placeholderLabel()
	p.Name, p.Annotations = name, nil
	p.OwnerReferences = []metav1.OwnerReference{{
		APIVersion: "v1", Kind: "Pod", Name: first.Name, UID: first.UID,
	}}
	task := p.Spec.Containers[0]
	task.Command, task.WorkingDir, task.Env, task.VolumeMounts = []string{"sleep", "86400"}, "", nil, nil
	p.Spec.InitContainers, p.Spec.Volumes, p.Spec.Containers = nil, nil, []corev1.Container{task}
	p.Spec.RestartPolicy, p.Spec.TerminationGracePeriodSeconds = corev1.RestartPolicyAlways, new(int64(1))
	p.Spec.PriorityClassName = PlaceholderPriority
	return p, nil
}

// dropPlaceholders removes them, and waits until their room is free.
func (g *gang) dropPlaceholders(ctx context.Context) error {
	for {
		have, err := g.placeholders(ctx)
		if err == nil && len(have) == 0 { // those just made may not have been heard of
			have, err = g.listPlaceholders(ctx)
		}
		if err != nil || len(have) == 0 {
			return err
		}
		err = driver.Each(len(have), callsAtOnce, func(i int) error {
			if have[i].DeletionTimestamp != nil {
				return nil
			}
			defer g.c.grounds[g.place.Name].call()()
			return gone(g.place.Client.CoreV1().Pods(g.place.Namespace).Delete(ctx, have[i].Name,
				metav1.DeleteOptions{}))
		})
		if err != nil {
			return err
		}
		if err := clock.Pause(ctx, g.c.cfg.LookEvery); err != nil {
			return err
		}
	}
}
