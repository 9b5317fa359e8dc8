package kubernetes

import (
	"encoding/json"
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	k8stesting "k8s.io/client-go/testing"
)

// Rights are missing. The printed command must grant one role for each scope, bound to the buyer. The role has all
// needed rights, not only the missing ones, so that the command can be run again.
func TestLackGrantsMissingRights(t *testing.T) {
	client := fake.NewClientset()
	client.PrependReactor("create", "selfsubjectaccessreviews", func(a k8stesting.Action) (bool, runtime.Object, error) {
		ask := a.(k8stesting.CreateAction).GetObject().(*authorizationv1.SelfSubjectAccessReview)
		need := ask.Spec.ResourceAttributes
		ask.Status.Allowed = need.Resource == "pods" && need.Verb != "patch"
		return true, ask, nil
	})
	p := &Place{Name: "one", Client: Clientset(client), Namespace: "broker", Gang: Gang{By: ByVolcano}}
	lacks, err := p.lacks(t.Context(), "ada o'hara")
	if err != nil || len(lacks) != 2 {
		t.Fatalf("%+v, %v", lacks, err)
	}
	for i, want := range []struct {
		kind, namespace, what, not string
		rules                      int
	}{
		{"Role", "broker", "in namespace broker to patch pods, create secrets,", "create pods", 4},
		{"ClusterRole", "", "in the cluster to list nodes, watch nodes", "pods", 1},
	} {
		l := lacks[i]
		if !l.Fatal || !strings.Contains(l.What, want.what) || strings.Contains(l.What, want.not) {
			t.Errorf("%+v", l)
		}
		text, ok := strings.CutPrefix(l.Mend, "echo '")
		text, piped := strings.CutSuffix(text, "' | kubectl apply -f -")
		var list struct {
			Items []struct {
				rbacv1.Role
				RoleRef  rbacv1.RoleRef
				Subjects []rbacv1.Subject
			}
		}
		if err := json.Unmarshal([]byte(strings.ReplaceAll(text, `'\''`, "'")), &list); err != nil || !ok || !piped || len(list.Items) != 2 {
			t.Fatalf("%v: %s", err, l.Mend)
		}
		role, binding := list.Items[0], list.Items[1]
		if role.Kind != want.kind || role.Namespace != want.namespace || len(role.Rules) != want.rules || len(role.Rules[0].Verbs) < 2 {
			t.Errorf("%+v", role)
		}
		if binding.Kind != want.kind+"Binding" || binding.Namespace != want.namespace || binding.RoleRef.Name != role.Name ||
			binding.RoleRef.Kind != want.kind || len(binding.Subjects) != 1 || binding.Subjects[0].Name != "ada o'hara" {
			t.Errorf("%+v", binding)
		}
	}
}
