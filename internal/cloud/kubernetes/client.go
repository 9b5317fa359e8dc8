package kubernetes

import (
	"context"
	"net/http"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	schedulingv1alpha2 "k8s.io/api/scheduling/v1alpha2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/flowcontrol"
)

// Client calls the resources of Kubernetes that the driver uses. It replaces client-go's clientset, which has the
// code of every API group: a tenth of the size of a program that links it.
type Client interface {
	Pods(namespace string) Pods
	Nodes() Nodes
	Secrets(namespace string) Secrets
	Events(namespace string) Lister[*corev1.EventList]
	ResourceQuotas(namespace string) Lister[*corev1.ResourceQuotaList]
	PodGroups(namespace string) PodGroups
	SelfSubjectReviews() Creator[*authenticationv1.SelfSubjectReview]
	SelfSubjectAccessReviews() Creator[*authorizationv1.SelfSubjectAccessReview]
	// Keys returns the keys with which the API server signs tokens, as a JSON Web Key Set.
	Keys(ctx context.Context) ([]byte, error)
}

// The methods have the signatures of client-go's typed clients.

// Creator creates objects.
type Creator[T any] interface {
	Create(ctx context.Context, object T, o metav1.CreateOptions) (T, error)
}

// Getter returns an object.
type Getter[T any] interface {
	Get(ctx context.Context, name string, o metav1.GetOptions) (T, error)
}

// Lister lists objects.
type Lister[L any] interface {
	List(ctx context.Context, o metav1.ListOptions) (L, error)
}

// Watcher reports changes of objects.
type Watcher interface {
	Watch(ctx context.Context, o metav1.ListOptions) (watch.Interface, error)
}

// Patcher changes an object.
type Patcher[T any] interface {
	Patch(ctx context.Context, name string, kind types.PatchType, patch []byte, o metav1.PatchOptions,
		subresources ...string) (T, error)
}

// Deleter deletes objects.
type Deleter interface {
	Delete(ctx context.Context, name string, o metav1.DeleteOptions) error
}

// Pods are the pods of a namespace, or of all.
type Pods interface {
	Creator[*corev1.Pod]
	Lister[*corev1.PodList]
	Watcher
	Patcher[*corev1.Pod]
	Deleter
}

// Nodes are the nodes of a cluster.
type Nodes interface {
	Lister[*corev1.NodeList]
	Watcher
}

// Secrets are the Secrets of a namespace.
type Secrets interface {
	Creator[*corev1.Secret]
	Deleter
}

// PodGroups are the native gangs of a namespace.
type PodGroups interface {
	Creator[*schedulingv1alpha2.PodGroup]
	Getter[*schedulingv1alpha2.PodGroup]
	Deleter
}

// NewClient returns a client of an API server. All its requests share connections and the limit of requests.
func NewClient(c *rest.Config) (Client, error) {
	c = rest.CopyConfig(c)
	if c.RateLimiter == nil && c.QPS > 0 {
		c.RateLimiter = flowcontrol.NewTokenBucketRateLimiter(c.QPS, c.Burst)
	}
	connections, err := rest.HTTPClientFor(c)
	if err != nil {
		return nil, err
	}
	s := runtime.NewScheme()
	metav1.AddToGroupVersion(s, schema.GroupVersion{Version: "v1"})
	for _, add := range []func(*runtime.Scheme) error{
		corev1.AddToScheme, authenticationv1.AddToScheme, authorizationv1.AddToScheme, schedulingv1alpha2.AddToScheme,
	} {
		if err := add(s); err != nil {
			return nil, err
		}
	}
	server := &server{parameters: runtime.NewParameterCodec(s)}
	c.NegotiatedSerializer = serializer.NewCodecFactory(s).WithoutConversion()
	for group, to := range map[schema.GroupVersion]*rest.Interface{
		corev1.SchemeGroupVersion:             &server.core,
		authenticationv1.SchemeGroupVersion:   &server.authentication,
		authorizationv1.SchemeGroupVersion:    &server.authorization,
		schedulingv1alpha2.SchemeGroupVersion: &server.scheduling,
	} {
		if *to, err = open(*c, group, connections); err != nil {
			return nil, err
		}
	}
	return server, nil
}

func open(c rest.Config, group schema.GroupVersion, connections *http.Client) (rest.Interface, error) {
	c.GroupVersion, c.APIPath = &group, "/apis"
	if group.Group == corev1.GroupName {
		c.APIPath = "/api"
	}
	return rest.RESTClientForConfigAndClient(&c, connections)
}

// server implements Client.
type server struct {
	core, authentication, authorization, scheduling rest.Interface
	parameters                                      runtime.ParameterCodec
}

func (s *server) Pods(namespace string) Pods {
	return &typed[*corev1.Pod, *corev1.PodList]{
		s.calls(s.core, namespace, "pods"), zero[corev1.Pod], zero[corev1.PodList]}
}

func (s *server) Nodes() Nodes {
	return &typed[*corev1.Node, *corev1.NodeList]{
		s.calls(s.core, "", "nodes"), zero[corev1.Node], zero[corev1.NodeList]}
}

func (s *server) Secrets(namespace string) Secrets {
	return &typed[*corev1.Secret, *corev1.SecretList]{
		s.calls(s.core, namespace, "secrets"), zero[corev1.Secret], zero[corev1.SecretList]}
}

func (s *server) Events(namespace string) Lister[*corev1.EventList] {
	return &typed[*corev1.Event, *corev1.EventList]{
		s.calls(s.core, namespace, "events"), zero[corev1.Event], zero[corev1.EventList]}
}

func (s *server) ResourceQuotas(namespace string) Lister[*corev1.ResourceQuotaList] {
	return &typed[*corev1.ResourceQuota, *corev1.ResourceQuotaList]{
		s.calls(s.core, namespace, "resourcequotas"), zero[corev1.ResourceQuota], zero[corev1.ResourceQuotaList]}
}

func (s *server) PodGroups(namespace string) PodGroups {
	return &typed[*schedulingv1alpha2.PodGroup, *schedulingv1alpha2.PodGroupList]{
		s.calls(s.scheduling, namespace, "podgroups"),
		zero[schedulingv1alpha2.PodGroup], zero[schedulingv1alpha2.PodGroupList]}
}

func (s *server) SelfSubjectReviews() Creator[*authenticationv1.SelfSubjectReview] {
	return &typed[*authenticationv1.SelfSubjectReview, *metav1.Status]{
		s.calls(s.authentication, "", "selfsubjectreviews"),
		zero[authenticationv1.SelfSubjectReview], zero[metav1.Status]}
}

func (s *server) SelfSubjectAccessReviews() Creator[*authorizationv1.SelfSubjectAccessReview] {
	return &typed[*authorizationv1.SelfSubjectAccessReview, *metav1.Status]{
		s.calls(s.authorization, "", "selfsubjectaccessreviews"),
		zero[authorizationv1.SelfSubjectAccessReview], zero[metav1.Status]}
}

func (s *server) Keys(ctx context.Context) ([]byte, error) {
	return s.core.Get().AbsPath(keysPath).
		SetHeader("Accept", "application/jwk-set+json, application/json").DoRaw(ctx)
}

func (s *server) calls(group rest.Interface, namespace, name string) calls {
	return calls{group, s.parameters, namespace, name}
}

func zero[T any]() *T { return new(T) }

// calls makes the requests to one resource of an API group.
type calls struct {
	group      rest.Interface
	parameters runtime.ParameterCodec
	namespace  string // empty means all namespaces, or a resource without one
	name       string
}

// to addresses a request to the resource. The options are sent in the query.
func (c *calls) to(q *rest.Request, options runtime.Object) *rest.Request {
	q = q.UseProtobufAsDefault().NamespaceIfScoped(c.namespace, c.namespace != "").Resource(c.name)
	if options == nil {
		return q
	}
	return q.VersionedParams(options, c.parameters)
}

// typed calls the API for a resource. T is the type of its objects, and L of its lists.
type typed[T, L runtime.Object] struct {
	calls
	object func() T
	list   func() L
}

func (r *typed[T, L]) Create(ctx context.Context, object T, o metav1.CreateOptions) (T, error) {
	got := r.object()
	return got, r.to(r.group.Post(), &o).Body(object).Do(ctx).Into(got)
}

func (r *typed[T, L]) Get(ctx context.Context, name string, o metav1.GetOptions) (T, error) {
	got := r.object()
	return got, r.to(r.group.Get(), &o).Name(name).Do(ctx).Into(got)
}

func (r *typed[T, L]) List(ctx context.Context, o metav1.ListOptions) (L, error) {
	got := r.list()
	return got, r.to(r.group.Get(), &o).Do(ctx).Into(got)
}

func (r *typed[T, L]) Watch(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	o.Watch = true
	return r.to(r.group.Get(), &o).Watch(ctx)
}

func (r *typed[T, L]) Patch(ctx context.Context, name string, kind types.PatchType, patch []byte,
	o metav1.PatchOptions, subresources ...string,
) (T, error) {
	got := r.object()
	return got, r.to(r.group.Patch(kind), &o).Name(name).SubResource(subresources...).Body(patch).Do(ctx).Into(got)
}

func (r *typed[T, L]) Delete(ctx context.Context, name string, o metav1.DeleteOptions) error {
	return r.to(r.group.Delete(), nil).Name(name).Body(&o).Do(ctx).Error()
}
