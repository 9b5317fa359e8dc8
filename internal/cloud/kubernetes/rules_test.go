package kubernetes_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tradewind-broker/tradewind/internal/kubetest"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
)

// racked returns a node in a rack with room for a few pods.
func racked(name, rack string) kubetest.Node {
	n := large(name)
	n.CPUs, n.GiB = 4, 16
	n.Labels = maps.Clone(n.Labels)
	n.Labels["topology.kubernetes.io/rack"] = rack
	return n
}

// racksOf returns the racks and nodes of a cluster's pods, sorted.
func (w *world) racksOf(cluster string) (racks, nodes []string) {
	w.Helper()
	pods, err := w.cluster.Client.CoreV1().Pods(namespace).List(w.Context(), metav1.ListOptions{})
	if err != nil {
		w.Fatal(err)
	}
	for _, p := range pods.Items {
		if p.Annotations["tradewind.dev/cluster-name"] != cluster {
			continue
		}
		node, err := w.cluster.Client.CoreV1().Nodes().Get(w.Context(), p.Spec.NodeName, metav1.GetOptions{})
		if err != nil {
			w.Fatal(err)
		}
		racks, nodes = append(racks, node.Labels["topology.kubernetes.io/rack"]), append(nodes, node.Name)
	}
	slices.Sort(racks)
	slices.Sort(nodes)
	return racks, nodes
}

// A real scheduler must bind pods by their placement rules. A launch that cannot satisfy them must fail with kind
// Capacity.
func TestPlacementRules(t *testing.T) {
	w := newWorld(t, racked("a1", "ra"), racked("a2", "ra"), racked("b1", "rb"), racked("b2", "rb"), racked("c1", "rc"))
	launch := func(name string, nodes int, job string, knownBy map[string]string, rules ...cloud.Rule) error {
		s := spec(name, nodes)
		s.Rules, s.KnownBy, s.Labels = rules, knownBy, map[string]string{"job": job}
		_, err := w.driver.Launch(t.Context(), s)
		return err
	}
	one := cloud.Rule{Group: "j1/0", Spread: "rack", Most: 1}
	if err := launch("spread", 3, "j1", map[string]string{"app": "web"}, one); err != nil {
		t.Fatal(err)
	}
	if racks, _ := w.racksOf("spread"); fmt.Sprint(racks) != "[ra rb rc]" {
		t.Errorf("pods spread over racks are in %v", racks)
	}
	if err := launch("fourth", 1, "j1", nil, one); cloud.KindOf(err) != cloud.Capacity {
		t.Errorf("a fourth pod of a group in three racks: %v", err)
	}
	pack := cloud.Rule{Group: "j2/0", Pack: "rack"}
	if err := launch("packed", 3, "j2", nil, pack); err != nil {
		t.Fatal(err)
	}
	if racks, _ := w.racksOf("packed"); racks[0] != racks[2] {
		t.Errorf("pods packed in a rack are in %v", racks)
	}
	apart := cloud.Rule{Apart: map[string]string{"app": "web"}, By: "machine"}
	if err := launch("apart", 2, "j3", nil, apart, cloud.Rule{Group: "j3/0", Spread: "machine", Most: 1}); err != nil {
		t.Fatal(err)
	}
	_, web := w.racksOf("spread")
	_, mine := w.racksOf("apart")
	for _, n := range mine {
		if slices.Contains(web, n) || len(mine) != 2 || mine[0] == mine[1] {
			t.Errorf("on %v, but must avoid the machines %v", mine, web)
		}
	}
	if err := launch("own", 1, "j1", nil, cloud.Rule{Apart: map[string]string{"app": "web"}, By: "rack"}); err != nil {
		t.Errorf("repelled by a task of the same job: %v", err)
	}
	if err := launch("other", 1, "j4", nil, cloud.Rule{Apart: map[string]string{"app": "web"},
		By: "rack"}); cloud.KindOf(err) != cloud.Capacity {
		t.Errorf("launched although every rack has such a pod: %v", err)
	}
}
