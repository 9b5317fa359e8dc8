package kubernetes

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// A promise counts the room that neither the gang's pods nor its placeholders have taken yet. Pods and placeholders
// must be counted at the same moment. Otherwise a placeholder could be deducted twice or not at all.
func TestPromiseCountsPlaceholders(t *testing.T) {
	pod := func(id, node string, labels map[string]string) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: id, UID: types.UID(id), Labels: labels},
			Spec: corev1.PodSpec{NodeName: node}}
	}
	room := map[string]string{labelPlaceholder: "room"}
	gang := map[string]string{labelDeployment: "d", labelCluster: "gang"}
	var s watchCache
	p := promise{pods: 3, room: "room"}
	left := func() int {
		_, bound, _, _ := s.look(nil)
		return p.left("gang", bound)
	}
	s.begin(nil, []corev1.Pod{*pod("1", "a", room), *pod("2", "", room), *pod("g1", "", gang)}, true, true, "d")
	steps := []struct {
		what        string
		do          func()
		want, there int // number of pods still to be placed, and of placeholders
	}{
		{"one placeholder has a node", func() {}, 2, 2},
		{"two have", func() { s.pod(pod("2", "a", room), true, "d") }, 1, 2},
		{"one is deleted", func() { s.pod(pod("1", "a", room), false, "d") }, 2, 1},
		{"both are deleted", func() { s.pod(pod("2", "a", room), false, "d") }, 3, 0},
		{"a pod of the gang has its place", func() { s.pod(pod("g1", "a", gang), true, "d") }, 2, 0},
	}
	for _, step := range steps {
		step.do()
		if got := left(); got != step.want {
			t.Errorf("%s: %d pods still need a node, not %d", step.what, got, step.want)
		}
		if have, _ := s.pods("room"); len(have) != step.there {
			t.Errorf("%s: %d placeholders are known, not %d", step.what, len(have), step.there)
		}
	}
}
