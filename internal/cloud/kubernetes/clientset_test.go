package kubernetes

import (
	"context"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	clientset "k8s.io/client-go/kubernetes"
)

// Clientset returns a Client that uses client-go's clientset or its fake.
func Clientset(c clientset.Interface) Client { return wrapped{c} }

type wrapped struct{ clientset.Interface }

func (c wrapped) Pods(namespace string) Pods       { return c.CoreV1().Pods(namespace) }
func (c wrapped) Nodes() Nodes                     { return c.CoreV1().Nodes() }
func (c wrapped) Secrets(namespace string) Secrets { return c.CoreV1().Secrets(namespace) }

func (c wrapped) Events(namespace string) Lister[*corev1.EventList] {
	return c.CoreV1().Events(namespace)
}

func (c wrapped) ResourceQuotas(namespace string) Lister[*corev1.ResourceQuotaList] {
	return c.CoreV1().ResourceQuotas(namespace)
}

func (c wrapped) PodGroups(namespace string) PodGroups {
	return c.SchedulingV1alpha2().PodGroups(namespace)
}

func (c wrapped) SelfSubjectReviews() Creator[*authenticationv1.SelfSubjectReview] {
	return c.AuthenticationV1().SelfSubjectReviews()
}

func (c wrapped) SelfSubjectAccessReviews() Creator[*authorizationv1.SelfSubjectAccessReview] {
	return c.AuthorizationV1().SelfSubjectAccessReviews()
}

func (c wrapped) Keys(ctx context.Context) ([]byte, error) {
	return c.CoreV1().RESTClient().Get().AbsPath(keysPath).DoRaw(ctx)
}
