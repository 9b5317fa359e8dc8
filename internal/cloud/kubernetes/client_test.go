package kubernetes_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"

	driver "github.com/tradewind-broker/tradewind/internal/cloud/kubernetes"
)

// Each API group of the client must call the API server at the group's path, with the server's encodings.
func TestClientCallsGroupsAtTheirPaths(t *testing.T) {
	var got []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = append(got, r.Method+" "+r.URL.String())
		if r.Method == http.MethodDelete {
			body, _ := io.ReadAll(r.Body)
			if r.Header.Get("Content-Type") != runtime.ContentTypeProtobuf || !strings.Contains(string(body), "DeleteOptions") {
				t.Errorf("%s deletes with %q", r.URL, body)
			}
			w.WriteHeader(http.StatusNotFound)
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, map[string]string{
			"/api/v1/namespaces/n/pods":                                 `{"kind":"PodList","apiVersion":"v1","items":[{"metadata":{"name":"p"}}]}`,
			"/apis/authentication.k8s.io/v1/selfsubjectreviews":         `{"kind":"SelfSubjectReview","apiVersion":"authentication.k8s.io/v1","status":{"userInfo":{"username":"me"}}}`,
			"/apis/authorization.k8s.io/v1/selfsubjectaccessreviews":    `{"kind":"SelfSubjectAccessReview","apiVersion":"authorization.k8s.io/v1","status":{"allowed":true}}`,
			"/apis/scheduling.k8s.io/v1alpha2/namespaces/n/podgroups/g": `{"kind":"PodGroup","apiVersion":"scheduling.k8s.io/v1alpha2","metadata":{"name":"g"}}`,
			"/api/v1/namespaces/n/secrets/s":                            `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404}`,
			"/api/v1/nodes":                                             `{"type":"ADDED","object":{"kind":"Node","apiVersion":"v1","metadata":{"name":"m"}}}`,
			"/openid/v1/jwks":                                           `{"keys":[]}`,
		}[r.URL.Path])
	}))
	t.Cleanup(server.Close)
	client, err := driver.NewClient(&rest.Config{Host: server.URL, QPS: 1000, Burst: 1000, ContentConfig: rest.ContentConfig{
		ContentType: runtime.ContentTypeProtobuf, AcceptContentTypes: runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON,
	}})
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	pods, err := client.Pods("n").List(ctx, metav1.ListOptions{})
	if err != nil || len(pods.Items) != 1 || pods.Items[0].Name != "p" {
		t.Errorf("%+v, %v", pods, err)
	}
	who, err := client.SelfSubjectReviews().Create(ctx, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil || who.Status.UserInfo.Username != "me" {
		t.Errorf("%+v, %v", who, err)
	}
	may, err := client.SelfSubjectAccessReviews().Create(ctx, &authorizationv1.SelfSubjectAccessReview{}, metav1.CreateOptions{})
	if err != nil || !may.Status.Allowed {
		t.Errorf("%+v, %v", may, err)
	}
	gang, err := client.PodGroups("n").Get(ctx, "g", metav1.GetOptions{})
	if err != nil || gang.Name != "g" {
		t.Errorf("%+v, %v", gang, err)
	}
	err = client.Secrets("n").Delete(ctx, "s", metav1.DeleteOptions{GracePeriodSeconds: new(int64(2))})
	if !apierrors.IsNotFound(err) {
		t.Error(err)
	}
	nodes, err := client.Nodes().Watch(ctx, metav1.ListOptions{ResourceVersion: "7"})
	if err != nil {
		t.Fatal(err)
	}
	if e := <-nodes.ResultChan(); e.Type != watch.Added || e.Object.(*corev1.Node).Name != "m" {
		t.Errorf("%+v", e)
	}
	keys, err := (&driver.Place{Client: client}).Keys(ctx)
	if err != nil || string(keys) != `{"keys":[]}` {
		t.Errorf("%s, %v", keys, err)
	}
	want := []string{
		"GET /api/v1/namespaces/n/pods", "POST /apis/authentication.k8s.io/v1/selfsubjectreviews",
		"POST /apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
		"GET /apis/scheduling.k8s.io/v1alpha2/namespaces/n/podgroups/g",
		"DELETE /api/v1/namespaces/n/secrets/s", "GET /api/v1/nodes?resourceVersion=7&watch=true", "GET /openid/v1/jwks",
	}
	if !slices.Equal(got, want) {
		t.Errorf("called %v", got)
	}
}
