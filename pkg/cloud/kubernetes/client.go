package kubernetes

import (
	"net/http"

	authenticationv1 "k8s.io/client-go/kubernetes/typed/authentication/v1"
	authorizationv1 "k8s.io/client-go/kubernetes/typed/authorization/v1"
	corev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	schedulingv1alpha2 "k8s.io/client-go/kubernetes/typed/scheduling/v1alpha2"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/flowcontrol"
)

// Client is the part of client-go's clientset that the driver uses. The whole clientset has the code of every API group
// of Kubernetes, a tenth of what the program is compiled from.
type Client interface {
	CoreV1() corev1.CoreV1Interface
	AuthenticationV1() authenticationv1.AuthenticationV1Interface
	AuthorizationV1() authorizationv1.AuthorizationV1Interface
	SchedulingV1alpha2() schedulingv1alpha2.SchedulingV1alpha2Interface
}

// NewClient returns a client. Its groups share connections and the limit of requests.
func NewClient(c *rest.Config) (Client, error) {
	c = rest.CopyConfig(c)
	if c.RateLimiter == nil && c.QPS > 0 {
		c.RateLimiter = flowcontrol.NewTokenBucketRateLimiter(c.QPS, c.Burst)
	}
	connections, err := rest.HTTPClientFor(c)
	if err != nil {
		return nil, err
	}
	var g groups
	for _, open := range []func(*rest.Config, *http.Client) error{
		opened(&g.core, corev1.NewForConfigAndClient),
		opened(&g.authentication, authenticationv1.NewForConfigAndClient),
		opened(&g.authorization, authorizationv1.NewForConfigAndClient),
		opened(&g.scheduling, schedulingv1alpha2.NewForConfigAndClient),
	} {
		if err := open(c, connections); err != nil {
			return nil, err
		}
	}
	return &g, nil
}

func opened[T any](to **T, open func(*rest.Config, *http.Client) (*T, error)) func(*rest.Config, *http.Client) error {
	return func(c *rest.Config, connections *http.Client) (err error) {
		*to, err = open(c, connections)
		return err
	}
}

// groups implements Client.
type groups struct {
	core           *corev1.CoreV1Client
	authentication *authenticationv1.AuthenticationV1Client
	authorization  *authorizationv1.AuthorizationV1Client
	scheduling     *schedulingv1alpha2.SchedulingV1alpha2Client
}

func (g *groups) CoreV1() corev1.CoreV1Interface { return g.core }

func (g *groups) AuthenticationV1() authenticationv1.AuthenticationV1Interface {
	return g.authentication
}

func (g *groups) AuthorizationV1() authorizationv1.AuthorizationV1Interface { return g.authorization }

func (g *groups) SchedulingV1alpha2() schedulingv1alpha2.SchedulingV1alpha2Interface {
	return g.scheduling
}
