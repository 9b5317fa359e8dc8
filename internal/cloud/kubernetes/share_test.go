package kubernetes_test

import (
	"math"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tradewind-broker/tradewind/internal/kubetest"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
)

// Parts of GPUs must be offered as shares of a GPU, and pods must request them by their resource name.
func TestGPUShares(t *testing.T) {
	n := large("a")
	n.Labels["nvidia.com/gpu.product"], n.Labels["nvidia.com/gpu.replicas"] = "NVIDIA-A10G-SHARED", "4"
	n.Devices = map[corev1.ResourceName]int64{"nvidia.com/gpu.shared": 4, "nvidia.com/mig-2g.20gb": 3}
	w := newWorld(t, n)
	sold, failed := w.driver.Sells(t.Context())
	if len(failed) > 0 {
		t.Fatal(failed)
	}
	of := map[string]float64{}
	for _, s := range sold {
		of[s.Node.Part] = s.Node.OfGPU
		if s.Node.Accelerator != "NVIDIA-A10G" {
			t.Errorf("%q has accelerator %q", s.Node.Part, s.Node.Accelerator)
		}
	}
	if len(of) != 2 || of["shared"] != 0.25 || math.Abs(of["mig-2g.20gb"]-2.0/7) > 1e-9 {
		t.Fatalf("sold: %v", of)
	}
	s := spec("a", 3)
	s.Offer.InstanceType = "m5.16xlarge_16x64x1-shared"
	if _, err := w.driver.Launch(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	pods, err := w.cluster.Client.CoreV1().Pods(namespace).List(t.Context(), metav1.ListOptions{})
	if err != nil || len(pods.Items) != 3 {
		t.Fatal(err)
	}
	if q := pods.Items[0].Spec.Containers[0].Resources.Limits["nvidia.com/gpu.shared"]; q.Value() != 1 {
		t.Errorf("a pod requests %+v", pods.Items[0].Spec.Containers[0].Resources)
	}
	more := spec("b", 2)
	more.Offer.InstanceType = s.Offer.InstanceType
	if _, err := w.driver.Launch(t.Context(), more); cloud.KindOf(err) != cloud.Capacity ||
		!strings.Contains(err.Error(), "1 of 2 pods") {
		t.Errorf("two more pods with one share left: %v", err)
	}
}

// Pods must get the configured registry logins of their namespace.
func TestPullSecrets(t *testing.T) {
	w := newWorld(t, kubetest.Node{Name: "a", CPUs: 64, GiB: 256, Idle: true, Labels: large("a").Labels})
	w.cfg.PullSecrets = []string{"registry"}
	w.again()
	w.launch("a", 1)
	pods, err := w.cluster.Client.CoreV1().Pods(namespace).List(t.Context(), metav1.ListOptions{})
	if err != nil || len(pods.Items) != 1 || len(pods.Items[0].Spec.ImagePullSecrets) != 1 {
		t.Fatalf("%v, %+v", err, pods)
	}
}
