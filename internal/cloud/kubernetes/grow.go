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

	"github.com/tradewind-broker/tradewind/internal/base/clock"
	"github.com/tradewind-broker/tradewind/internal/cloud/driver"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
)

// Autoscalers add nodes only for waiting pods. If these were the gang's own pods, half of the gang would be bound for
// minutes while the other half waits for nodes. So placeholders go first: one for each pod of the gang, which
// requests the same resources and does nothing. When all placeholders have a node they are removed, and the whole
// gang takes their places.

// labelPlaceholder marks the placeholders of one cluster of the broker. They have none of the labels of machines.
const labelPlaceholder = "tradewind.dev/placeholder-for"

// PlaceholderPriority is the PriorityClass of placeholders, if the cluster has it. Its value is negative, so that the
// pods of other users can take the room of placeholders that wait for the rest.
const PlaceholderPriority = "tradewind-placeholder"

func (g *gang) placeholderLabel() string { return hash(g.c.groupName(g.spec.Cluster)) }

// placeholders returns the placeholders of the gang, from Watch if possible and otherwise from a list. Every waiting
// gang checks its placeholders four times a second. A list of a namespace with ten thousand pods that often would
// keep the API server busy.
func (g *gang) placeholders(ctx context.Context) ([]corev1.Pod, error) {
	if pods, ok := g.c.grounds[g.place.Name].sight.pods(g.placeholderLabel()); ok {
		return pods, nil
	}
	return g.listPlaceholders(ctx)
}

// listPlaceholders lists the placeholders.
func (g *gang) listPlaceholders(ctx context.Context) ([]corev1.Pod, error) {
	return g.place.pods(ctx, labelPlaceholder+"="+g.placeholderLabel())
}

// grow waits until there is room for all pods that have no node yet. It also waits until no other gang's placeholder
// waits for a node, because such a placeholder would take the place of the first placeholder that is removed. For
// that it waits at most a fifth of GrowWithin, about the time until a node arrives.
//
// It fails with Capacity and the scheduler's message if no placeholder has got a node for GrowWithin. It leaves
// placeholders only if ctx ends first: the next launch of the cluster continues with them. If the cluster does not
// allow placeholders, grow does nothing, and the gang's own pods wait for nodes.
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
	var whole time.Time // when all placeholders had a node
	for {
		if _, err := g.pods(ctx); err != nil {
			return err
		}
		wanted := g.spec.Nodes - g.bound // ungated pods may have got new nodes themselves
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
			g.c.log.Warn("placeholders are refused: the gang's own pods wait for new nodes",
				"cluster", g.spec.Cluster, "place", g.place.Name, "why", err)
			return nil
		}
		if err != nil {
			return err
		}
		if waited := time.Since(lastBound(have, first.CreationTimestamp.Time)); waited >= g.c.cfg.GrowWithin {
			return fail(cloud.Capacity, codeUnbound, "%s has room for %d of %d pods, and no more came within %s: %s",
				g.place.Name, placed, wanted, waited.Round(time.Second),
				cmp.Or(g.refusal(have), "the scheduler gives no reason"))
		}
		if err := clock.Pause(ctx, g.c.cfg.LookEvery); err != nil {
			return err
		}
	}
}

// first returns a pod of the gang. That pod owns the placeholders, so that they are removed even if dropPlaceholders
// does not run.
func (g *gang) first(ctx context.Context) (*corev1.Pod, error) {
	pods, err := g.list(ctx)
	if err != nil {
		return nil, err
	}
	if len(pods) == 0 {
		return nil, fail(cloud.Transient, driver.CodeLost, "the pods of cluster %s do not exist", g.spec.Cluster)
	}
	return &pods[0], nil
}

// lastBound returns the time at which the last of the placeholders got a node, or began if none has. Thus a repeated
// launch does not start the wait again.
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

// addPlaceholders creates the missing placeholders, up to wanted.
func (g *gang) addPlaceholders(ctx context.Context, first *corev1.Pod, arch string, have []corev1.Pod, wanted int,
) error {
	name := func(i int) string { return fmt.Sprintf("%s-room-%d", g.c.groupName(g.spec.Cluster), i) }
	return complete(wanted, have, name, func(i int) error {
		p, err := g.placeholder(first, arch, name(i))
		if err != nil {
			return err
		}
		defer g.c.grounds[g.place.Name].call()()
		pods := g.place.Client.Pods(g.place.Namespace)
		_, err = pods.Create(ctx, p, metav1.CreateOptions{})
		if apierrors.IsForbidden(err) &&
			strings.Contains(err.Error(), PlaceholderPriority) { // the class does not exist
			p.Spec.PriorityClassName = ""
			_, err = pods.Create(ctx, p, metav1.CreateOptions{})
		}
		return err
	})
}

// placeholder requests the same resources as a pod of the gang, with the same rules. It uses the task's image, so
// that the node already has the image when the task comes.
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
		if err == nil && len(have) == 0 { // the watch may not have seen the newest yet
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
			return gone(g.place.Client.Pods(g.place.Namespace).Delete(ctx, have[i].Name,
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
