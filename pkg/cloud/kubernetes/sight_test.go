package kubernetes

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// A pod takes room until the watch has told that it is gone, whatever lists say; where no watch goes on nothing is seen.
func TestWhatTheWatchStillSees(t *testing.T) {
	pod := func(id string) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: id, UID: types.UID(id)}, Spec: corev1.PodSpec{NodeName: "a"}}
	}
	var s sight
	ids := []types.UID{"one", "two"}
	if s.sees(ids) {
		t.Error("it sees something before it has begun")
	}
	s.begin(nil, []corev1.Pod{*pod("one"), *pod("two")}, true, true, "")
	s.pod(pod("one"), false, "")
	if !s.sees(ids) {
		t.Error("it does not see the one that is left")
	}
	s.pod(pod("two"), false, "")
	if s.sees(ids) || s.sees(nil) {
		t.Error("it sees what is gone")
	}
	s.end()
	if s.sees(ids) {
		t.Error("it sees something after its end")
	}
}
