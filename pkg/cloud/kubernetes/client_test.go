package kubernetes_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"

	driver "github.com/tradewind-broker/tradewind/pkg/cloud/kubernetes"
)

// Each group of the client calls the API server at its path, with the server's encodings.
func TestClientCallsGroupsAtTheirPaths(t *testing.T) {
	var got []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = append(got, r.Method+" "+r.URL.Path)
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, map[string]string{
			"/api/v1/namespaces/n/pods":                                 `{"kind":"PodList","apiVersion":"v1","items":[{"metadata":{"name":"p"}}]}`,
			"/apis/authentication.k8s.io/v1/selfsubjectreviews":         `{"kind":"SelfSubjectReview","apiVersion":"authentication.k8s.io/v1","status":{"userInfo":{"username":"me"}}}`,
			"/apis/authorization.k8s.io/v1/selfsubjectaccessreviews":    `{"kind":"SelfSubjectAccessReview","apiVersion":"authorization.k8s.io/v1","status":{"allowed":true}}`,
			"/apis/scheduling.k8s.io/v1alpha2/namespaces/n/podgroups/g": `{"kind":"PodGroup","apiVersion":"scheduling.k8s.io/v1alpha2","metadata":{"name":"g"}}`,
			"/openid/v1/jwks": `{"keys":[]}`,
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
	keys, err := (&driver.Place{Client: client}).Keys(ctx)
	if err != nil || string(keys) != `{"keys":[]}` {
		t.Errorf("%s, %v", keys, err)
	}
	want := []string{
		"GET /api/v1/namespaces/n/pods", "POST /apis/authentication.k8s.io/v1/selfsubjectreviews",
		"POST /apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
		"GET /apis/scheduling.k8s.io/v1alpha2/namespaces/n/podgroups/g", "GET /openid/v1/jwks",
	}
	if !slices.Equal(got, want) {
		t.Errorf("called %v", got)
	}
}
