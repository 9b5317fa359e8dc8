package kubernetes_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"
	k8stesting "k8s.io/client-go/testing"

	"github.com/tradewind-broker/tradewind/internal/catalog/quotas"
	"github.com/tradewind-broker/tradewind/internal/cloud/driver"
	"github.com/tradewind-broker/tradewind/internal/cloud/kubernetes"
	"github.com/tradewind-broker/tradewind/pkg/bus"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
)

// roomy is a node with room for everything.
func roomy() *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: map[string]string{
			corev1.LabelInstanceTypeStable: "m5.16xlarge", corev1.LabelTopologyZone: "us-east-1a"}},
		Status: corev1.NodeStatus{
			Allocatable: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("4000"),
				corev1.ResourceMemory: resource.MustParse("16000Gi"), corev1.ResourcePods: resource.MustParse("5000")},
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
		},
	}
}

// met returns a cloud with one cluster. create can refuse pods.
func met(create func(*corev1.Pod) error) *kubernetes.Cloud {
	client := fake.NewClientset(roomy())
	client.PrependReactor("create", "pods", func(a k8stesting.Action) (bool, runtime.Object, error) {
		err := create(a.(k8stesting.CreateAction).GetObject().(*corev1.Pod))
		return err != nil, nil, err
	})
	return kubernetes.New(kubernetes.Config{
		Deployment: "test", Agents: driver.Agents{"": digest},
		LookEvery: 20 * time.Millisecond, BindWithin: 2 * time.Second, StartWithin: 2 * time.Second,
		Places: []kubernetes.Place{{Name: "one", Client: kubernetes.Clientset(client), Namespace: namespace}},
	})
}

func TestExhaustedQuotaNamesTheMachinesThatShareIt(t *testing.T) {
	for requested, want := range map[string]string{
		"requests.nvidia.com/gpu=1":                quotas.Devices,
		"limits.nvidia.com/gpu=1,nvidia.com/gpu=1": quotas.Devices,
		"requests.cpu=1,requests.nvidia.com/gpu=1": quotas.Region,
		"pods=1":       quotas.Region,
		"count/pods=1": quotas.Region,
		"limits.memory=4Gi,requests.ephemeral-storage=1Gi": quotas.Region,
	} {
		c := met(func(p *corev1.Pod) error {
			return apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, p.Name, fmt.Errorf(
				"exceeded quota: team, requested: %s, used: x=400, limited: x=400", requested))
		})
		_, err := c.Launch(t.Context(), spec("a", 1))
		var e *cloud.Error
		if !errors.As(err, &e) || e.Kind != cloud.Quota || e.Class != want {
			t.Errorf("%s: %+v, want %s", requested, e, want)
		}
	}
}

// A thousand pods are refused. The error must be short, because a message that does not fit into an event would stop
// the broker.
func TestRefusedGangHasShortError(t *testing.T) {
	c := met(func(p *corev1.Pod) error { // in the words of kube-apiserver
		return apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, p.Name, fmt.Errorf(
			"exceeded quota: team-batch, requested: limits.cpu=1,limits.memory=4Gi,pods=1,requests.cpu=1,requests.memory=4Gi, "+
				"used: limits.cpu=400,limits.memory=1600Gi,pods=400,requests.cpu=400,requests.memory=1600Gi, "+
				"limited: limits.cpu=400,limits.memory=1600Gi,pods=400,requests.cpu=400,requests.memory=1600Gi"))
	})
	_, err := c.Launch(t.Context(), spec("a", 1000))
	if cloud.KindOf(err) != cloud.Quota {
		t.Fatalf("not refused for quota: %.500v", err)
	}
	if n := len(err.Error()); n > bus.MaxMessageBytes/100 {
		t.Errorf("the error has %d bytes; an event that contains it may have %d", n, bus.MaxMessageBytes)
	}
}

// The deployment's image for fetching agents cannot be pulled. The task must not be blamed.
func TestDeploymentImageErrorIsNotInvalid(t *testing.T) {
	c := met(func(p *corev1.Pod) error {
		p.Spec.NodeName = "n"
		p.Status.Phase = corev1.PodPending
		p.Status.InitContainerStatuses = []corev1.ContainerStatus{{
			Name: "agent", Image: p.Spec.InitContainers[0].Image,
			State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff",
				Message: `Back-off pulling image: toomanyrequests: You have reached your pull rate limit`}},
		}}
		return nil
	})
	s := spec("a", 2)
	s.Container = "registry.example/mine:1"
	if _, err := c.Launch(t.Context(), s); err == nil || cloud.KindOf(err) == cloud.Invalid {
		t.Errorf("the task failed for good: %v", err)
	}
}

// One context is unreachable. Terminations in another one must work, even after a restart.
func TestTerminateIgnoresUnreachableContext(t *testing.T) {
	here, away := fake.NewClientset(roomy()), fake.NewClientset()
	away.PrependReactor("*", "*", func(k8stesting.Action) (bool, runtime.Object, error) {
		return true, nil, fmt.Errorf("dial tcp 10.0.0.1:6443: i/o timeout")
	})
	cfg := kubernetes.Config{Deployment: "test", Agents: driver.Agents{"": digest}, Places: []kubernetes.Place{
		{Name: "one", Client: kubernetes.Clientset(here), Namespace: namespace}, {Name: "lab", Client: kubernetes.Clientset(away), Namespace: namespace},
	}}
	here.PrependReactor("create", "pods", func(a k8stesting.Action) (bool, runtime.Object, error) {
		p := a.(k8stesting.CreateAction).GetObject().(*corev1.Pod)
		p.Spec.NodeName, p.Status.Phase = "n", corev1.PodRunning
		return false, nil, nil
	})
	if _, err := kubernetes.New(cfg).Launch(t.Context(), spec("a", 1)); err != nil {
		t.Fatal(err)
	}
	again := kubernetes.New(cfg) // after a restart
	if err := again.Terminate(t.Context(), "a"); err != nil {
		pods, _ := here.CoreV1().Pods(namespace).List(t.Context(), metav1.ListOptions{})
		t.Errorf("terminate failed (%d pods left): %v", len(pods.Items), err)
	}
}
