package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tradewind-broker/tradewind/internal/cloud/driver"
	"github.com/tradewind-broker/tradewind/internal/cloud/kubernetes"
	"github.com/tradewind-broker/tradewind/internal/kubetest"
)

const (
	namespace = "batch"
	nodeType  = "bench.large"
	atOnce    = 32
)

// world is the cluster.
type world struct {
	c     *kubetest.Cluster
	scale scale

	mu    sync.Mutex
	nodes int
}

// open starts the cluster with its initial nodes.
//
// It has the PriorityClass of placeholders that docs/kubernetes.md describes.
func open(ctx context.Context, dir string, s scale, gang string) (*world, error) {
	c, err := kubetest.StartWith(ctx, dir, "bench", kubetest.Options{
		NodeGrace: 10 * time.Minute, Gangs: gang == kubernetes.ByNative,
	})
	if err != nil {
		return nil, err
	}
	w := &world{c: c, scale: s}
	if err = c.KWOK(); err == nil {
		err = c.Namespace(ctx, namespace, "restricted")
	}
	if err == nil {
		never := corev1.PreemptNever
		_, err = c.Client.SchedulingV1().PriorityClasses().Create(ctx, &schedulingv1.PriorityClass{
			ObjectMeta: metav1.ObjectMeta{Name: kubernetes.PlaceholderPriority}, Value: -10, PreemptionPolicy: &never,
		}, metav1.CreateOptions{})
	}
	if err != nil {
		c.Stop()
		return nil, err
	}
	if err := w.grow(ctx, s.there); err != nil {
		c.Stop()
		return nil, err
	}
	return w, nil
}

// grow adds nodes and waits until they accept pods.
func (w *world) grow(ctx context.Context, n int) error {
	w.mu.Lock()
	from := w.nodes
	ctx, cancel := context.WithTimeout(ctx, 15*time.Minute)
	defer cancel()
	w.nodes += n
	w.mu.Unlock()
	if err := driver.Each(n, atOnce, func(i int) error { return w.add(ctx, nodeName(from+i)) }); err != nil {
		return err
	}
	for {
		open := 0
		list, err := w.c.Client.CoreV1().Nodes().List(ctx, metav1.ListOptions{ResourceVersion: "0"})
		if err != nil {
			return err
		}
		for i := range list.Items {
			if isOpen(&list.Items[i]) {
				open++
			}
		}
		if open >= from+n {
			return nil
		}
		if err := pause(ctx, 500*time.Millisecond); err != nil {
			return fmt.Errorf("%d of %d nodes are ready: %w\n%s", open, from+n, err, tail(w.c.Log("kwok")))
		}
	}
}

func nodeName(i int) string { return fmt.Sprintf("node-%04d", i) }

func isOpen(n *corev1.Node) bool {
	for _, t := range n.Spec.Taints {
		if t.Key == corev1.TaintNodeNotReady {
			return false
		}
	}
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

func (w *world) add(ctx context.Context, name string) error {
	has := corev1.ResourceList{
		corev1.ResourceCPU:    *resource.NewQuantity(int64(w.scale.cpus), resource.DecimalSI),
		corev1.ResourceMemory: *resource.NewQuantity(int64(w.scale.cpus)<<32, resource.BinarySI),
		corev1.ResourcePods:   *resource.NewQuantity(110, resource.DecimalSI),
	}
	nodes := w.c.Client.CoreV1().Nodes()
	_, err := nodes.Create(ctx, &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Annotations: map[string]string{kubetest.KWOKNode: "fake"},
			Labels: map[string]string{
				corev1.LabelHostname: name, corev1.LabelArchStable: "amd64", corev1.LabelOSStable: "linux",
				corev1.LabelInstanceTypeStable: nodeType, "type": "kwok",
			},
		},
		Status: corev1.NodeStatus{Capacity: has, Allocatable: has},
	}, metav1.CreateOptions{})
	return err
}

// karpenter simulates the autoscaler until ctx ends: like Karpenter (batchIdleDuration and batchMaxDuration), it
// collects pods that the scheduler could not place for a while, and adds nodes for all of them at once.
func (w *world) karpenter(ctx context.Context) error {
	const gathers, starts = 2 * time.Second, 3 * time.Second
	for {
		if err := pause(ctx, gathers); err != nil {
			return nil
		}
		pods, err := w.c.Client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{
			FieldSelector: "spec.nodeName=", ResourceVersion: "0",
		})
		if err != nil {
			continue
		}
		waiting := 0
		for i := range pods.Items {
			if unschedulable(&pods.Items[i]) {
				waiting++
			}
		}
		w.mu.Lock()
		n := min((waiting+w.scale.cpus-1)/w.scale.cpus, w.scale.nodes-w.nodes)
		w.mu.Unlock()
		if n <= 0 {
			continue
		}
		if err := pause(ctx, starts); err != nil {
			return nil
		}
		if err := w.grow(ctx, n); err != nil && ctx.Err() == nil {
			return err
		}
		if err := pause(ctx, gathers); err != nil { // time for the scheduler to find the nodes
			return nil
		}
	}
}

func unschedulable(p *corev1.Pod) bool {
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Reason == corev1.PodReasonUnschedulable {
			return p.Spec.NodeName == ""
		}
	}
	return false
}

func (w *world) shrink(ctx context.Context) error {
	w.mu.Lock()
	from, to := w.scale.there, w.nodes
	w.nodes = from
	w.mu.Unlock()
	return driver.Each(to-from, atOnce, func(i int) error {
		return w.c.Client.CoreV1().Nodes().Delete(ctx, nodeName(from+i), metav1.DeleteOptions{})
	})
}

// empty removes all pods and waits until they are gone.
func (w *world) empty(ctx context.Context) error {
	now := int64(0)
	for {
		pods, err := w.c.Client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{ResourceVersion: "0"})
		if err != nil || len(pods.Items) == 0 {
			return err
		}
		_ = driver.Each(len(pods.Items), atOnce, func(i int) error {
			return w.c.Client.CoreV1().Pods(namespace).Delete(ctx, pods.Items[i].Name,
				metav1.DeleteOptions{GracePeriodSeconds: &now})
		})
		if err := pause(ctx, time.Second); err != nil {
			return err
		}
	}
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func tail(text string) string { return text[max(0, len(text)-3000):] }

// memory is the current and the peak memory of a process in MiB (proc(5), VmRSS and VmHWM).
func memory(pid int) (now, most float64) {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	for line := range strings.Lines(string(text)) {
		var kib float64
		if _, err := fmt.Sscanf(line, "VmRSS: %f kB", &kib); err == nil {
			now = kib / 1024
		}
		if _, err := fmt.Sscanf(line, "VmHWM: %f kB", &kib); err == nil {
			most = kib / 1024
		}
	}
	return now, most
}
