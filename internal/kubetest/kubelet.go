package kubetest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"
)

// Node describes a node to add.
type Node struct {
	Name   string
	Labels map[string]string
	CPUs   int
	GiB    int
	GPUs   int
	// Devices are the resources that device plugins offer in addition to whole GPUs.
	Devices map[corev1.ResourceName]int64
	Taints  []corev1.Taint
	// Idle only reports pods as running, without starting processes.
	Idle bool
	// Refuses are images that cannot be pulled.
	Refuses []string
}

// Kubelet simulates the kubelet of a node.
type Kubelet struct {
	c    *Cluster
	node Node
	dir  string
	stop context.CancelFunc
	wg   sync.WaitGroup
	dead chan struct{} // closed when the node loses power

	mu   sync.Mutex
	pods map[types.UID]*running
	next int // last byte of the next pod's address
}

// heartbeat is the time between two reports that the node is alive.
const heartbeat = 2 * time.Second

// Add creates a node and starts its kubelet.
func (c *Cluster) Add(ctx context.Context, n Node) (*Kubelet, error) {
	k := &Kubelet{c: c, node: n, dir: c.path("node-" + n.Name), pods: map[types.UID]*running{},
		dead: make(chan struct{}), next: 1}
	if err := os.MkdirAll(k.dir, 0o700); err != nil {
		return nil, err
	}
	ctx, k.stop = context.WithCancel(context.WithoutCancel(ctx))
	if _, err := c.Client.CoreV1().Nodes().Create(ctx, &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: n.Name, Labels: n.labels()}, Spec: corev1.NodeSpec{Taints: n.Taints},
	}, metav1.CreateOptions{}); err != nil {
		return nil, err
	}
	if err := k.beat(ctx); err != nil {
		return nil, err
	}
	if err := k.tolerated(ctx); err != nil {
		return nil, err
	}
	k.wg.Go(func() { k.heart(ctx) })
	k.wg.Go(func() { k.sync(ctx) })
	return k, nil
}

func (n Node) labels() map[string]string {
	all := map[string]string{corev1.LabelHostname: n.Name, corev1.LabelArchStable: "amd64",
		corev1.LabelOSStable: "linux"}
	for name, value := range n.Labels {
		all[name] = value
	}
	return all
}

// tolerated waits until the node accepts pods: the controller manager taints it first.
func (k *Kubelet) tolerated(ctx context.Context) error {
	return k.c.await(ctx, func(ctx context.Context) bool {
		n, err := k.c.Client.CoreV1().Nodes().Get(ctx, k.node.Name, metav1.GetOptions{})
		if err != nil {
			return false
		}
		for _, t := range n.Spec.Taints {
			if t.Key == corev1.TaintNodeNotReady {
				_ = k.beat(ctx) //nolint:errcheck // tried again
				return false
			}
		}
		return true
	})
}

// beat reports that the node is ready, and its capacity.
func (k *Kubelet) beat(ctx context.Context) error {
	has := corev1.ResourceList{
		corev1.ResourceCPU:    *resource.NewQuantity(int64(k.node.CPUs), resource.DecimalSI),
		corev1.ResourceMemory: *resource.NewQuantity(int64(k.node.GiB)<<30, resource.BinarySI),
		corev1.ResourcePods:   *resource.NewQuantity(110, resource.DecimalSI),
	}
	if k.node.GPUs > 0 {
		has["nvidia.com/gpu"] = *resource.NewQuantity(int64(k.node.GPUs), resource.DecimalSI)
	}
	for name, n := range k.node.Devices {
		has[name] = *resource.NewQuantity(n, resource.DecimalSI)
	}
	now := metav1.Now()
	err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
		n, err := k.c.Client.CoreV1().Nodes().Get(ctx, k.node.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		n.Status.Capacity, n.Status.Allocatable = has, has
		n.Status.Conditions = []corev1.NodeCondition{{
			Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady", LastHeartbeatTime: now,
			LastTransitionTime: now,
		}}
		_, err = k.c.Client.CoreV1().Nodes().UpdateStatus(ctx, n, metav1.UpdateOptions{})
		return err
	})
	if err != nil {
		return err
	}
	leases := k.c.Client.CoordinationV1().Leases(corev1.NamespaceNodeLease)
	seconds, renewed := int32(40), metav1.NowMicro()
	lease, err := leases.Get(ctx, k.node.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		_, err = leases.Create(ctx, &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: k.node.Name},
			Spec: coordinationv1.LeaseSpec{HolderIdentity: &k.node.Name, LeaseDurationSeconds: &seconds,
				RenewTime: &renewed}}, metav1.CreateOptions{})
		return err
	}
	if err != nil {
		return err
	}
	lease.Spec.RenewTime = &renewed
	_, err = leases.Update(ctx, lease, metav1.UpdateOptions{})
	return err
}

func (k *Kubelet) heart(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(heartbeat):
		}
		_ = k.beat(ctx) //nolint:errcheck // an unavailable API server comes back
	}
}

// sync lists the node's pods repeatedly, because a watch could miss some.
func (k *Kubelet) sync(ctx context.Context) {
	const every = 150 * time.Millisecond
	for {
		list, err := k.c.Client.CoreV1().Pods(metav1.NamespaceAll).List(ctx, metav1.ListOptions{
			FieldSelector: "spec.nodeName=" + k.node.Name,
		})
		if err == nil {
			k.update(ctx, list.Items)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(every):
		}
	}
}

func (k *Kubelet) update(ctx context.Context, pods []corev1.Pod) {
	k.mu.Lock()
	defer k.mu.Unlock()
	there := map[types.UID]bool{}
	for i := range pods {
		p := &pods[i]
		there[p.UID] = true
		r := k.pods[p.UID]
		if r == nil && p.Status.Phase != corev1.PodSucceeded && p.Status.Phase != corev1.PodFailed {
			k.next++
			r = &running{k: k, pod: p.DeepCopy(), dir: filepath.Join(k.dir, "pods", string(p.UID)),
				address: fmt.Sprintf("127.0.0.%d", 2+k.next%250), end: make(chan time.Duration, 1)}
			k.pods[p.UID] = r
			k.wg.Go(func() { r.run(ctx) })
		}
		if p.DeletionTimestamp == nil {
			continue
		}
		if r == nil || r.hasEnded() {
			k.wg.Go(func() { k.remove(ctx, p) }) // it ended before the deletion
			continue
		}
		r.requestEnd(time.Duration(*p.DeletionGracePeriodSeconds) * time.Second)
	}
	for uid, r := range k.pods {
		if !there[uid] {
			r.requestEnd(0) // removed by force
			delete(k.pods, uid)
		}
	}
}

// remove confirms to the API server that nothing of a pod is left.
func (k *Kubelet) remove(ctx context.Context, p *corev1.Pod) {
	now := int64(0)
	err := k.c.Client.CoreV1().Pods(p.Namespace).Delete(ctx, p.Name, metav1.DeleteOptions{GracePeriodSeconds: &now,
		Preconditions: metav1.NewUIDPreconditions(string(p.UID))})
	_ = err //nolint:errcheck // the next sync tries again
}

// Console returns the output of the containers of the named pod.
func (k *Kubelet) Console(name string) string {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, r := range k.pods {
		if r.pod.Name == name {
			text, _ := os.ReadFile(filepath.Join(r.dir, "console.log"))
			return string(text)
		}
	}
	return ""
}

// Kill simulates a power failure of the node: its processes end, and nothing reports it.
func (k *Kubelet) Kill() {
	select {
	case <-k.dead:
	default:
		close(k.dead)
	}
	k.Close()
}

// Close ends the kubelet and its pods' processes.
func (k *Kubelet) Close() {
	k.stop()
	k.wg.Wait()
}

var errEnded = errors.New("ended")
