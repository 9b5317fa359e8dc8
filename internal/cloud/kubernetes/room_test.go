package kubernetes_test

import (
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tradewind-broker/tradewind/internal/cloud/kubernetes"
)

// Other pods take the room between the check and the binding. If a pool can grow, the launch must wait for it, as for
// a gang that had no room from the start.
func TestPoolGrowsForGangThatLostItsRoom(t *testing.T) {
	small := large("a")
	small.CPUs, small.GiB = 2, 8
	w := newWorld(t, small)
	w.cfg.BindWithin = time.Second
	w.cfg.Places[0].Pools = []kubernetes.Pool{{Most: 2, Node: kubernetes.Node{
		Type: "m5.16xlarge", Zone: "us-east-1a", Whole: kubernetes.Room{MilliCPU: 2000, Bytes: 8 << 30},
	}}}
	var once sync.Once
	w.observed(func(r *http.Request) {
		if r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/secrets") { // the launch has found room
			once.Do(func() { w.squat("a") })
		}
	})
	done := make(chan error, 1)
	go func() {
		_, err := w.driver.Launch(t.Context(), spec("late", 2))
		done <- err
	}()
	w.await("a pod that has waited longer than BindWithin", func() bool {
		select {
		case err := <-done:
			t.Fatalf("the launch did not wait: %v", err)
		default:
		}
		list, err := w.cluster.Client.CoreV1().Pods(namespace).List(t.Context(), metav1.ListOptions{})
		if err != nil {
			return false
		}
		for i := range list.Items {
			for _, c := range list.Items[i].Status.Conditions {
				if c.Reason == corev1.PodReasonUnschedulable && time.Since(c.LastTransitionTime.Time) > 4*w.cfg.BindWithin {
					return true
				}
			}
		}
		return false
	})
	made := small
	made.Name = "b"
	w.add(made)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

// squat creates another user's pod that takes one CPU of a node.
func (w *world) squat(node string) {
	w.Helper()
	one := corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("1"), corev1.ResourceMemory: resource.MustParse("1Gi"),
	}
	_, err := w.cluster.Client.CoreV1().Pods(metav1.NamespaceDefault).Create(w.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "squatter"},
		Spec: corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{
			Name: "one", Image: "registry.example/one:1", Resources: corev1.ResourceRequirements{Requests: one},
		}}},
	}, metav1.CreateOptions{})
	if err != nil {
		w.Error(err)
	}
}
