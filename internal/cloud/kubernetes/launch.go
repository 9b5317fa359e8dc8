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

// callsAtOnce is the maximum number of parallel calls of one launch to an API server. placeAtOnce is the maximum for
// all launches in one place when they create and release pods. More calls would only wait there, and slow down the
// scheduler.
const (
	callsAtOnce = 16
	placeAtOnce = 32
)

// Launch implements cloud.Cloud.
func (c *Cloud) Launch(ctx context.Context, spec cloud.LaunchSpec) ([]cloud.Machine, error) {
	machines, err := c.launch(ctx, spec)
	if err != nil {
		return nil, Typed(err)
	}
	return machines, nil
}

func (c *Cloud) launch(ctx context.Context, spec cloud.LaunchSpec) ([]cloud.Machine, error) {
	if err := driver.Check(Name, spec); err != nil {
		return nil, err
	}
	if spec.Bootstrap.Mailbox != "" {
		return nil, fail(cloud.Invalid, driver.CodeBadSpec, "pods need a broker with an address")
	}
	shape, err := ParseShape(spec.Offer.InstanceType)
	if err != nil {
		return nil, fail(cloud.Invalid, driver.CodeBadSpec, "%v", err)
	}
	place, err := c.place(spec.Offer.Region)
	if err != nil {
		return nil, err
	}
	release, err := c.locks.Take(ctx, spec.Cluster)
	if err != nil {
		return nil, err
	}
	defer release()
	if err := driver.CheckNotTerminated(ctx, Name, c.graves, spec.Cluster); err != nil {
		return nil, err
	}
	c.launchedAt(spec.Cluster, place.Name)
	g := &gang{c: c, place: place, spec: spec, shape: shape}
	machines, err := g.launch(ctx)
	if err == nil {
		err = driver.CheckNotTerminated(ctx, Name, c.graves, spec.Cluster) // not terminated during the launch
	}
	if err == nil {
		return machines, nil
	}
	switch cloud.KindOf(Typed(err)) {
	case cloud.Throttled, cloud.Transient: // a retry finds the pods that exist
		return nil, err
	}
	return nil, errors.Join(driver.WithMade(Typed(err), g.bound), g.withdraw(ctx))
}

// gang is a launch in progress.
type gang struct {
	c     *Cloud
	place *Place
	spec  cloud.LaunchSpec
	shape Shape
	bound int // pods known to have a node

	entered func()          // lets the next gang enter; nil until this gang has entered
	through func()          // reports that the promised room is taken; nil if the gang waits for new nodes
	before  []chan struct{} // closed when the gangs that were promised room earlier have taken it
}

func (g *gang) launch(ctx context.Context) ([]cloud.Machine, error) {
	pods, err := g.list(ctx) // another process may have created them a moment ago
	if err != nil {
		return nil, err
	}
	if err := g.lost(pods); err != nil {
		return nil, err
	}
	if g.bound < g.spec.Nodes {
		if err := g.bind(ctx, pods); err != nil {
			return nil, err
		}
	}
	pods, err = g.started(ctx)
	if err != nil {
		return nil, err
	}
	machines := make([]cloud.Machine, 0, len(pods))
	for i := range pods {
		if m, ok := g.c.machine(&pods[i]); ok {
			machines = append(machines, m)
		}
	}
	if len(machines) != g.spec.Nodes {
		return nil, fail(cloud.Transient, driver.CodeLost, "cluster %s has %d pods of %d", g.spec.Cluster,
			len(machines), g.spec.Nodes)
	}
	return byRank(machines), nil
}

// bind creates the missing pods, and waits until all are bound.
func (g *gang) bind(ctx context.Context, have []corev1.Pod) error {
	left := 0 // placeholders of a process that was killed
	if len(have) > 0 {
		placeholders, err := g.placeholders(ctx)
		if err != nil {
			return err
		}
		left = len(placeholders)
	}
	at, err := g.room(ctx)
	if err != nil {
		return err
	}
	defer g.c.grounds[g.place.Name].forget(g.spec.Cluster)
	defer g.leave()
	if err := g.make(ctx, at, have); err != nil {
		return err
	}
	if at.outlook == growing || left > 0 {
		if err := g.grow(ctx, at.arch); err != nil {
			return err
		}
	}
	if err := g.pass(ctx); err != nil {
		return err
	}
	return g.await(ctx, at.outlook)
}

// pods returns the gang's pods, from Watch if possible and otherwise from a list.
func (g *gang) pods(ctx context.Context) ([]corev1.Pod, error) {
	if pods, ok := g.c.grounds[g.place.Name].sight.pods(hash(g.spec.Cluster)); ok {
		g.count(pods)
		return pods, nil
	}
	return g.list(ctx)
}

// list lists the gang's pods.
func (g *gang) list(ctx context.Context) ([]corev1.Pod, error) {
	pods, err := g.place.pods(ctx, g.c.selector(g.spec.Cluster))
	g.count(pods)
	return pods, err
}

func (g *gang) count(pods []corev1.Pod) {
	g.bound = 0
	for i := range pods {
		if pods[i].Spec.NodeName != "" {
			g.bound++
		}
	}
}

// lost returns an error if one of the gang's pods has ended or is being deleted. The gang then has no use for the
// others.
func (g *gang) lost(pods []corev1.Pod) error {
	for i := range pods {
		if state, reason := stateOf(&pods[i]); state == cloud.Terminated || state == cloud.Terminating {
			return fail(cloud.Capacity, driver.CodeLost, "pod %s of cluster %s has ended: %s", pods[i].Name,
				g.spec.Cluster, reason)
		}
	}
	return nil
}

// make creates the Secret and the missing pods, which are held back until all exist.
func (g *gang) make(ctx context.Context, at placing, have []corev1.Pod) error {
	core := g.place.Client
	secret, err := core.Secrets(g.place.Namespace).Create(ctx, g.c.secret(g.spec), metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	if err := g.group(ctx, secret); err != nil {
		return err
	}
	name := func(rank int) string { return g.c.podName(g.spec.Cluster, rank) }
	return complete(g.spec.Nodes, have, name, func(rank int) error {
		p, err := g.c.pod(g.spec, g.shape, at.arch, rank)
		if err != nil {
			return err
		}
		g.join(p)
		defer g.c.grounds[g.place.Name].call()()
		_, err = core.Pods(g.place.Namespace).Create(ctx, p, metav1.CreateOptions{})
		return err
	})
}

// complete creates those of n pods that are missing. It is not an error if another process creates one in the meantime.
func complete(n int, have []corev1.Pod, name func(int) string, create func(int) error) error {
	there := map[string]bool{}
	for i := range have {
		there[have[i].Name] = true
	}
	return driver.Each(n, callsAtOnce, func(i int) error {
		if there[name(i)] {
			return nil
		}
		if err := create(i); !apierrors.IsAlreadyExists(err) {
			return err
		}
		return nil
	})
}

// await waits until all pods have a node. It fails with Capacity and the scheduler's message if no further pod has
// got a node for too long. That time depends on the free room of the nodes: see outlook.
func (g *gang) await(ctx context.Context, hope outlook) error {
	began := time.Now()
	last, bound, looked := began, g.bound, began
	var hopeless time.Time // since when the outlook has been full
	for {
		pods, err := g.pods(ctx)
		if err != nil {
			return err
		}
		if err := g.lost(pods); err != nil {
			return err
		}
		if g.bound >= g.spec.Nodes {
			return nil
		}
		if g.bound > bound {
			last, bound = time.Now(), g.bound
		}
		said, waited := g.refusal(pods), time.Since(last)
		if said == "" && waited >= g.c.cfg.BindWithin/2 {
			said = g.heldBack(ctx)
		}
		if said != "" && min(waited, time.Since(looked)) >= g.c.cfg.BindWithin/2 {
			looked = time.Now()
			if hope, err = g.look(ctx, pods); err != nil {
				return err
			}
			switch {
			case hope != full:
				hopeless = time.Time{}
			case hopeless.IsZero():
				hopeless = looked
			}
		}
		// A single check may miss room that other pods are just releasing. So a gang with a good outlook is given up
		// only after two checks.
		settled := hopeless.IsZero() || time.Since(hopeless) >= g.c.cfg.BindWithin/2
		if waited >= g.patience(said, hope) && settled {
			said = cmp.Or(g.heldBack(ctx), said, "the scheduler gives no reason")
			return fail(cloud.Capacity, codeUnbound, "%d of %d pods have a node on %s after %s: %s", g.bound,
				g.spec.Nodes, g.place.Name, time.Since(began).Round(time.Second), said)
		}
		if err := clock.Pause(ctx, g.c.cfg.LookEvery); err != nil {
			return err
		}
	}
}

// refusal returns the scheduler's message about a pod that it has not bound; empty if it gives none.
func (g *gang) refusal(pods []corev1.Pod) string {
	for i := range pods {
		c := condition(&pods[i], corev1.PodScheduled)
		if c != nil && c.Status == corev1.ConditionFalse && c.Reason == corev1.PodReasonUnschedulable {
			return c.Message
		}
	}
	return ""
}

// started waits for up to StartWithin until every container runs. An image that cannot be pulled is found in that
// time.
func (g *gang) started(ctx context.Context) ([]corev1.Pod, error) {
	began := time.Now()
	for {
		pods, err := g.pods(ctx)
		if err != nil {
			return nil, err
		}
		if err := g.lost(pods); err != nil {
			return nil, err
		}
		running := 0
		for i := range pods {
			if why, own := refusedImage(&pods[i]); why != "" {
				kind := cloud.Invalid
				if own || g.spec.Container == "" { // the deployment's image: not the task's fault
					kind = cloud.Quota
				}
				return nil, fail(kind, codeImage, "pod %s: %s", pods[i].Name, why)
			}
			if pods[i].Status.Phase == corev1.PodRunning {
				running++
			}
		}
		if running == len(pods) || time.Since(began) >= g.c.cfg.StartWithin {
			return pods, nil
		}
		if err := clock.Pause(ctx, g.c.cfg.LookEvery); err != nil {
			return nil, err
		}
	}
}

// refusedImage returns the reason for which a container of a pod can never start; empty if it may start. init is true
// for the container that fetches the agent.
func refusedImage(p *corev1.Pod) (why string, init bool) {
	for i, list := range [][]corev1.ContainerStatus{p.Status.InitContainerStatuses, p.Status.ContainerStatuses} {
		for _, s := range list {
			w := s.State.Waiting
			if w == nil {
				continue
			}
			switch w.Reason {
			case "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "CreateContainerConfigError":
				return strings.TrimSpace(fmt.Sprintf("%s of image %s: %s", w.Reason, s.Image, w.Message)), i == 0
			}
		}
	}
	return "", false
}

// withdraw removes the pods of a failed launch, even if its caller's context has ended.
func (g *gang) withdraw(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoWithin)
	defer cancel()
	g.c.withdrawn(g.spec.Cluster)
	_, err := g.c.remove(ctx, g.place, g.spec.Cluster)
	return err
}
