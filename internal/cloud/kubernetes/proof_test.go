package kubernetes_test

import (
	"errors"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	k8s "k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/tradewind-broker/tradewind/internal/cloud/kubernetes"
	"github.com/tradewind-broker/tradewind/internal/identity"
)

const broker = "https://broker.example"

// A pod gets a token that the real API server has signed, as the kubelet would request it. The broker must be able to
// verify the token with the API server's public keys, which any service account may read.
func TestPodProvesIdentity(t *testing.T) {
	w := newWorld(t, large("big"))
	w.cfg.Audience = broker
	w.driver = kubernetes.New(w.cfg)
	machines, err := w.driver.Launch(t.Context(), spec("proof", 2))
	if err != nil {
		t.Fatal(err)
	}
	pods, err := w.cluster.Client.CoreV1().Pods(namespace).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	// This account has no role, because the deployed broker has no other right to read the keys.
	plain := rest.CopyConfig(w.cluster.Config)
	plain.Impersonate = rest.ImpersonationConfig{UserName: "system:serviceaccount:" + namespace + ":nobody",
		Groups: []string{"system:serviceaccounts", "system:authenticated"}}
	client, err := kubernetes.NewClient(plain)
	if err != nil {
		t.Fatal(err)
	}
	place := kubernetes.Place{Name: "one", Client: client, Namespace: namespace}
	v, err := identity.NewKubernetes(identity.KubernetesConfig{Audience: broker,
		Places: []identity.KubernetesPlace{{Name: "one", Namespace: namespace, Keys: place.Keys}}})
	if err != nil {
		t.Fatal(err)
	}
	proved := map[string]bool{}
	for i := range pods.Items {
		p := &pods.Items[i]
		wants := tokenOf(t, p)
		m, err := v.Verify(t.Context(), w.token(p, wants.Audience), "")
		if err != nil {
			t.Fatal(err)
		}
		proved[m.ID] = m.Cloud == "kubernetes" && m.Region == "one"
		for _, other := range []string{"https://another.example", ""} {
			if _, err := v.Verify(t.Context(), w.token(p, other), ""); !errors.Is(err, identity.ErrInvalid) {
				t.Errorf("a token for %q: %v, want %v", other, err, identity.ErrInvalid)
			}
		}
	}
	for _, m := range machines {
		if !proved[m.ID] {
			t.Errorf("no pod proves to be %s: %v", m.ID, proved)
		}
	}
	// The task must not be able to use the token at the API server.
	of := rest.AnonymousClientConfig(w.cluster.Config)
	of.BearerToken = w.token(&pods.Items[0], broker)
	intruder, err := k8s.NewForConfig(of)
	if err != nil {
		t.Fatal(err)
	}
	_, err = intruder.AuthenticationV1().SelfSubjectReviews().Create(t.Context(),
		&authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err == nil || !strings.Contains(err.Error(), "Unauthorized") {
		t.Errorf("the API server accepts the broker's token: %v", err)
	}
	if r, err := w.driver.Check(t.Context()); err != nil || len(r.Missing) > 0 {
		t.Errorf("%+v, %v", r.Missing, err)
	}
}

// tokenOf returns the only token in a pod that the task can read.
func tokenOf(t *testing.T, p *corev1.Pod) (found *corev1.ServiceAccountTokenProjection) {
	t.Helper()
	for _, v := range p.Spec.Volumes {
		if v.Projected == nil {
			continue
		}
		for _, s := range v.Projected.Sources {
			if s.ServiceAccountToken != nil && found != nil {
				t.Error("there are two tokens")
			}
			found = s.ServiceAccountToken
		}
	}
	if found == nil || found.Audience != broker {
		t.Fatalf("the pod's token is %+v", found)
	}
	return found
}

// token requests a token of a pod from the API server, like the pod's kubelet.
func (w *world) token(p *corev1.Pod, audience string) string {
	w.Helper()
	ask := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
		BoundObjectRef: &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: p.Name, UID: p.UID},
	}}
	if audience != "" {
		ask.Spec.Audiences = []string{audience}
	}
	made, err := w.cluster.Client.CoreV1().ServiceAccounts(p.Namespace).CreateToken(w.Context(),
		p.Spec.ServiceAccountName, ask, metav1.CreateOptions{})
	if err != nil {
		w.Fatal(err)
	}
	return made.Status.Token
}
