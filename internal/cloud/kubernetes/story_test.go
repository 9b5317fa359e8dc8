package kubernetes_test

import (
	"context"
	"testing"
	"time"

	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic/fake"

	"github.com/tradewind-broker/tradewind/internal/cloud/kubernetes"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
)

// A pod is evicted. There must be a notice with the pod's grace period, and another one when the pod is gone.
func TestEvictionCausesNotice(t *testing.T) {
	w := newWorld(t, large("a"))
	w.watch()
	machines := w.launch("a", 1)
	pods, err := w.cluster.Pods(t.Context(), namespace)
	if err != nil || len(pods) != 1 {
		t.Fatalf("%v, %v", pods, err)
	}
	if err := w.cluster.Client.CoreV1().Pods(namespace).EvictV1(t.Context(), &policyv1.Eviction{
		ObjectMeta: metav1.ObjectMeta{Name: pods[0], Namespace: namespace},
	}); err != nil {
		t.Fatal(err)
	}
	n := w.notice(cloud.Interruption)
	if n.Machine != machines[0].ID || n.Cluster != "a" || time.Until(n.At) > w.cfg.Grace+time.Minute {
		t.Errorf("%+v", n)
	}
	if n := w.notice(cloud.Taken); n.Machine != machines[0].ID {
		t.Errorf("%+v", n)
	}
}

// A node is cordoned, as at the start of a drain. There must be a notice, so that the task begins to save.
func TestCordonCausesNotice(t *testing.T) {
	w := newWorld(t, large("a"))
	w.watch()
	machines := w.launch("a", 1)
	cordon := []byte(`{"spec":{"unschedulable":true}}`)
	if _, err := w.cluster.Client.CoreV1().Nodes().Patch(t.Context(), "a", types.MergePatchType, cordon,
		metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	if n := w.notice(cloud.Interruption); n.Machine != machines[0].ID {
		t.Errorf("%+v", n)
	}
	if _, err := w.driver.Launch(t.Context(), spec("b", 1)); cloud.KindOf(err) != cloud.Capacity {
		t.Errorf("a cordoned node was used: %v", err)
	}
}

// The broker itself terminates a cluster. There must be no notice.
func TestTerminateCausesNoNotice(t *testing.T) {
	w := newWorld(t, large("a"))
	w.watch()
	w.launch("a", 2)
	if err := w.driver.Terminate(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	w.await("an empty namespace", func() bool { return len(w.left()) == 0 })
	w.launch("b", 1)
	if err := w.cluster.Client.CoreV1().Pods(namespace).DeleteCollection(t.Context(), metav1.DeleteOptions{},
		metav1.ListOptions{}); err != nil {
		t.Fatal(err)
	}
	if n := w.notice(cloud.Taken); n.Cluster != "b" {
		t.Errorf("%+v", n)
	}
}

// A node dies and sends nothing. The control plane detects that and evicts the node's pods, which must cause a
// notice. It does so only if other nodes answer: otherwise it assumes that its own network has failed.
func TestDeadNodeCausesNotice(t *testing.T) {
	other := large("b")
	other.Labels = nil
	w := newWorld(t, other, large("a"))
	w.watch()
	machines := w.launch("a", 1)
	w.node.Kill()
	if n := w.notice(cloud.Interruption); n.Machine != machines[0].ID {
		t.Errorf("%+v", n)
	}
	if err := w.driver.Terminate(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
}

// The API server is down, so the driver's calls fail. When it is up again, they must return the same pods.
func TestAPIServerOutage(t *testing.T) {
	w := newWorld(t, large("a"))
	w.watch()
	machines := w.launch("a", 2)
	w.cluster.StopAPI()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if _, err := w.driver.Machines(ctx, ""); cloud.KindOf(err) != cloud.Transient || err == nil {
		t.Errorf("%v", err)
	}
	if err := w.driver.Terminate(ctx, "other"); err == nil || cloud.KindOf(err) != cloud.Transient {
		t.Errorf("%v", err)
	}
	if err := w.cluster.StartAPI(t.Context()); err != nil {
		t.Fatal(err)
	}
	now, err := w.driver.Machines(t.Context(), "a")
	if err != nil || len(now) != 2 || now[0].ID != machines[0].ID {
		t.Errorf("%v, %v", now, err)
	}
	again, err := w.driver.Launch(t.Context(), spec("a", 2))
	if err != nil || again[1].ID != machines[1].ID {
		t.Errorf("%v, %v", again, err)
	}
}

// A Karpenter NodePool can grow. A gang that fits on new nodes of it must wait, and be bound when a node arrives.
func TestLaunchWaitsForKarpenterPool(t *testing.T) {
	small := large("a")
	small.CPUs, small.GiB = 2, 8
	w := newWorld(t, small)
	pool := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": map[string]any{"name": "default"},
		"spec": map[string]any{"template": map[string]any{"spec": map[string]any{"requirements": []any{
			map[string]any{"key": "node.kubernetes.io/instance-type", "operator": "In", "values": []any{"m5.16xlarge"}},
			map[string]any{"key": "topology.kubernetes.io/zone", "operator": "In", "values": []any{"us-east-1a"}},
		}}}},
	}}
	kinds := map[schema.GroupVersionResource]string{
		{Group: "karpenter.sh", Version: "v1", Resource: "nodepools"}: "NodePoolList",
	}
	w.cfg.Places[0].Dynamic = fake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), kinds, pool)
	w.driver = kubernetes.New(w.cfg)
	done := make(chan error, 1)
	go func() {
		_, err := w.driver.Launch(t.Context(), spec("a", 4))
		done <- err
	}()
	w.await("waiting placeholders", func() bool { return w.count() == counts{gang: 4, placeholders: 4, placed: 2} })
	made := small
	made.Name = "b"
	w.add(made)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

func (w *world) launch(cluster string, nodes int) []cloud.Machine {
	w.Helper()
	machines, err := w.driver.Launch(w.Context(), spec(cluster, nodes))
	if err != nil {
		w.Fatal(err)
	}
	return machines
}
