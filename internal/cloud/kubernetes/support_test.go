package kubernetes_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"

	"github.com/tradewind-broker/tradewind/internal/cloud/driver"
	"github.com/tradewind-broker/tradewind/internal/cloud/kubernetes"
	"github.com/tradewind-broker/tradewind/internal/kubetest"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
)

// digest is the digest of no agent. The machines of these tests run nothing.
var digest = strings.Repeat("0123456789abcdef", 4)

const namespace = "broker"

// world is a cluster with one node, and a deployment's driver for it.
type world struct {
	*testing.T
	cluster *kubetest.Cluster
	node    *kubetest.Kubelet
	cfg     kubernetes.Config
	driver  *kubernetes.Cloud
	notices chan cloud.Notice
}

func newWorld(t *testing.T, nodes ...kubetest.Node) *world {
	t.Helper()
	return newWorldWith(t, kubetest.Options{}, nodes...)
}

func newWorldWith(t *testing.T, o kubetest.Options, nodes ...kubetest.Node) *world {
	t.Helper()
	w := &world{T: t, cluster: kubetest.NewWith(t, "one", o), notices: make(chan cloud.Notice, 100)}
	if err := w.cluster.Namespace(t.Context(), namespace, "restricted"); err != nil {
		t.Fatal(err)
	}
	for _, n := range nodes {
		w.add(n)
	}
	dyn, err := dynamic.NewForConfig(w.cluster.Config)
	if err != nil {
		t.Fatal(err)
	}
	client, err := kubernetes.NewClient(w.cluster.Config)
	if err != nil {
		t.Fatal(err)
	}
	w.cfg = kubernetes.Config{
		Deployment: "test", Agents: driver.Agents{"": digest}, LookEvery: 20 * time.Millisecond,
		BindWithin: 6 * time.Second, StartWithin: 20 * time.Second, Grace: 20 * time.Second,
		Places: []kubernetes.Place{{Name: "one", Client: client, Dynamic: dyn, Namespace: namespace}},
	}
	w.driver = kubernetes.New(w.cfg)
	return w
}

func (w *world) add(n kubetest.Node) *kubetest.Kubelet {
	w.Helper()
	k, err := w.cluster.Add(w.Context(), n)
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(k.Close)
	w.node = k
	return k
}

// watch collects the driver's notices until the test ends.
func (w *world) watch() {
	go w.driver.Watch(w.Context(), func(_ context.Context, n cloud.Notice) { w.notices <- n })
}

// notice waits for a notice of a kind.
func (w *world) notice(kind cloud.NoticeKind) cloud.Notice {
	w.Helper()
	for {
		select {
		case n := <-w.notices:
			if n.Kind == kind {
				return n
			}
		case <-time.After(2 * time.Minute):
			w.Fatalf("no notice of kind %s came", kind)
		}
	}
}

func large(name string) kubetest.Node {
	return kubetest.Node{Name: name, CPUs: 64, GiB: 256, Idle: true, Labels: map[string]string{
		corev1.LabelInstanceTypeStable: "m5.16xlarge", corev1.LabelTopologyZone: "us-east-1a",
	}, Refuses: []string{"registry.example/none:1"}}
}

var offer = apitypes.Offer{
	Cloud: "kubernetes", Region: "one", Zone: "us-east-1a", InstanceType: "m5.16xlarge_1x4", USDPerHour: 0.05,
}

func boot(cluster string, nodes int) cloud.Bootstrap {
	b := cloud.Bootstrap{Endpoint: "https://broker.example"}
	for rank := range nodes {
		b.Tokens = append(b.Tokens, fmt.Sprintf("token-%s-%d", cluster, rank))
	}
	return b
}

func spec(cluster string, nodes int) cloud.LaunchSpec {
	return cloud.LaunchSpec{Cluster: cluster, Offer: offer, Nodes: nodes, Bootstrap: boot(cluster, nodes)}
}

// left returns the names of all pods and secrets of the namespace.
func (w *world) left() (names []string) {
	w.Helper()
	names, err := w.cluster.Pods(context.WithoutCancel(w.Context()), namespace)
	if err != nil {
		w.Fatal(err)
	}
	secrets, err := w.cluster.Client.CoreV1().Secrets(namespace).List(context.WithoutCancel(w.Context()),
		metav1.ListOptions{})
	if err != nil {
		w.Fatal(err)
	}
	for i := range secrets.Items {
		names = append(names, "secret "+secrets.Items[i].Name)
	}
	return names
}

// await waits until ok returns true.
func (w *world) await(what string, ok func() bool) {
	w.Helper()
	for deadline := time.Now().Add(2 * time.Minute); !ok(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			w.Fatalf("timed out waiting for %s", what)
		}
	}
}
