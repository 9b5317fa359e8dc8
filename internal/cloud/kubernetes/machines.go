package kubernetes

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tradewind-broker/tradewind/internal/cloud/driver"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
)

// listPage is the number of objects that one call requests.
const listPage = 500

// pods lists pods in a place's namespace.
func (p *Place) pods(ctx context.Context, selector string) ([]corev1.Pod, error) {
	return p.listPods(ctx, p.Namespace, metav1.ListOptions{LabelSelector: selector, Limit: listPage})
}

func (p *Place) listPods(ctx context.Context, namespace string, o metav1.ListOptions) ([]corev1.Pod, error) {
	all, _, err := p.podsAt(ctx, namespace, o)
	return all, err
}

// podsAt lists pods, and returns the list's version.
func (p *Place) podsAt(ctx context.Context, namespace string, o metav1.ListOptions) (all []corev1.Pod, version string,
	err error,
) {
	for {
		list, err := p.Client.Pods(namespace).List(ctx, o)
		if apierrors.IsResourceExpired(err) && o.Continue != "" { // the list's version is too old: start again
			all, o.Continue = nil, ""
			continue
		}
		if err != nil {
			return nil, "", err
		}
		all = append(all, list.Items...)
		if o.Continue = list.Continue; o.Continue == "" {
			return all, list.ResourceVersion, nil
		}
	}
}

// listNodes lists all nodes, and returns the list's version.
func (p *Place) listNodes(ctx context.Context) (all []corev1.Node, version string, err error) {
	for o := (metav1.ListOptions{Limit: listPage}); ; {
		list, err := p.Client.Nodes().List(ctx, o)
		if err != nil {
			return nil, "", err
		}
		all = append(all, list.Items...)
		if o.Continue = list.Continue; o.Continue == "" {
			return all, list.ResourceVersion, nil
		}
	}
}

// Machines implements cloud.Cloud.
func (c *Cloud) Machines(ctx context.Context, cluster string) ([]cloud.Machine, error) {
	if cluster != "" && !driver.ValidCluster(cluster) {
		return nil, ctx.Err()
	}
	var mu sync.Mutex
	var all []cloud.Machine
	err := each(c.places(cluster), func(p *Place) error {
		pods, err := p.pods(ctx, c.selector(cluster))
		mu.Lock()
		defer mu.Unlock()
		for i := range pods {
			if m, ok := c.machine(&pods[i]); ok && (cluster == "" || m.Cluster == cluster) {
				all = append(all, m)
			}
		}
		return Typed(err)
	})
	if err != nil {
		return nil, err
	}
	return byRank(all), nil
}

func byRank(all []cloud.Machine) []cloud.Machine {
	slices.SortFunc(all, func(a, b cloud.Machine) int {
		return cmp.Or(strings.Compare(a.Cluster, b.Cluster), cmp.Compare(a.Rank, b.Rank), strings.Compare(a.ID, b.ID))
	})
	return all
}

// Terminate implements cloud.Cloud.
func (c *Cloud) Terminate(ctx context.Context, cluster string) error {
	if !driver.ValidCluster(cluster) {
		return nil // no cluster can have this name
	}
	release, err := driver.BeginTerminate(ctx, c.graves, &c.locks, cluster)
	if err != nil {
		return Typed(err)
	}
	defer release()
	// A cluster is in one place. Once it is found, errors of other places do not matter.
	places := c.places(cluster)
	silent := make([]error, len(places))
	var found atomic.Bool
	err = driver.Each(len(places), max(len(places), 1), func(i int) error {
		n, err := c.remove(ctx, places[i], cluster)
		if n > 0 {
			found.Store(true)
			return Typed(err)
		}
		silent[i] = Typed(err)
		return nil
	})
	if err != nil || found.Load() {
		return err
	}
	return errors.Join(silent...)
}

// remove deletes a cluster's pods and its Secret. Its agents have no work left at that time, so they get only a short
// grace period. It returns the number of deleted pods.
func (c *Cloud) remove(ctx context.Context, p *Place, cluster string) (int, error) {
	const moment = 2 // seconds
	core := p.Client
	pods, err := p.pods(ctx, c.selector(cluster))
	if err != nil {
		return 0, err
	}
	err = driver.Each(len(pods), callsAtOnce, func(i int) error {
		if pods[i].Annotations[noteCluster] != cluster {
			return nil
		}
		o := metav1.DeleteOptions{GracePeriodSeconds: new(int64(moment)), Preconditions: metav1.NewUIDPreconditions(
			string(pods[i].UID))}
		return gone(core.Pods(p.Namespace).Delete(ctx, pods[i].Name, o))
	})
	return len(pods), errors.Join(err, c.ungroup(ctx, p, cluster),
		gone(core.Secrets(p.Namespace).Delete(ctx, c.groupName(cluster), metav1.DeleteOptions{})))
}

// gone returns nil for the error that an object to remove does not exist.
func gone(err error) error {
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) { // a conflict: a new pod has this name
		return nil
	}
	return err
}
