package kubedeploy_test

import (
	"strings"
	"testing"

	"github.com/tradewind-broker/tradewind/internal/kubeapi"
	"github.com/tradewind-broker/tradewind/internal/kubedeploy"
	"github.com/tradewind-broker/tradewind/internal/kubetest"
)

// A deployment is created, left unchanged, changed and removed. Its service account must have only the rights that it
// needs, and its pod must pass the restricted Pod Security Standard.
func TestDeploymentOnRealAPIServer(t *testing.T) {
	api := kubetest.New(t, "test").API(t)
	for _, ns := range []string{"batch", "other"} {
		_, err := api.Create(t.Context(), "/api/v1/namespaces", kubeapi.Object{
			"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": ns},
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	with := func(image string) []kubeapi.Object {
		return rendered(t, func(v *kubedeploy.Values) {
			v.CreateNamespace, v.PodNamespaces, v.Image = true, []string{"batch"}, image
		})
	}
	states := func(objects []kubeapi.Object) map[string]int {
		changes, err := kubedeploy.Apply(t.Context(), api, objects)
		if err != nil {
			t.Fatal(err)
		}
		count := map[string]int{}
		for _, c := range changes {
			count[c.State]++
		}
		return count
	}
	objects := with("registry.example.org/tradewind:v1")
	if got := states(objects); got[kubedeploy.Made] != len(objects) {
		t.Errorf("first %v of %d", got, len(objects))
	}
	if got := states(objects); got[kubedeploy.Unchanged] != len(objects) {
		t.Errorf("second time %v of %d", got, len(objects))
	}
	if got := states(with("registry.example.org/tradewind:v2")); got[kubedeploy.Changed] != 1 {
		t.Errorf("another image %v", got)
	}
	t.Run("can-i", func(t *testing.T) { mayDoLittle(t, api) })
	t.Run("restricted", func(t *testing.T) { passesRestricted(t, api, objects[len(objects)-1]) })
	t.Run("jobs", func(t *testing.T) { checksJobs(t, api) })

	changes, err := kubedeploy.Remove(t.Context(), api, "brokers", objects, false)
	if err != nil || len(changes) != len(objects)-2 { // the namespace and the custom resource definition stay
		t.Errorf("removed %d of %d, %v", len(changes), len(objects), err)
	}
	if _, err := api.Get(t.Context(), kubeapi.Path(kubedeploy.JobsVersion, kubedeploy.JobsPlural, "brokers", "fine")); err != nil {
		t.Errorf("a job was removed: %v", err)
	}
	if _, err = kubedeploy.Remove(t.Context(), api, "brokers", objects, true); err != nil {
		t.Fatal(err)
	}
	if _, err := api.Get(t.Context(), kubeapi.Path(kubedeploy.JobsVersion, kubedeploy.JobsPlural, "brokers", "fine")); !kubeapi.NotFound(err) {
		t.Errorf("the job still exists: %v", err)
	}
}

// mayDoLittle checks the service account's rights with the API server, like `kubectl auth can-i`.
func mayDoLittle(t *testing.T, api *kubeapi.API) {
	// Like every service account, it may read the keys that verify the identity of pods.
	answer, err := api.Create(t.Context(), "/apis/authorization.k8s.io/v1/subjectaccessreviews", kubeapi.Object{
		"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview",
		"spec": map[string]any{
			"user":                  "system:serviceaccount:brokers:tradewind",
			"groups":                []string{"system:authenticated", "system:serviceaccounts"},
			"nonResourceAttributes": map[string]any{"verb": "get", "path": "/openid/v1/jwks"},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	if may, _ := answer.At("status", "allowed").(bool); !may {
		t.Error("it cannot read the cluster's keys")
	}
	for question, want := range map[string]bool{
		"create pods brokers": true, "delete pods batch": true, "get secrets brokers": true, "create events brokers": true,
		"list tradewind.dev/tradewindjobs brokers": true, "patch tradewind.dev/tradewindjobs/status brokers": true,
		"list nodes -": true, "watch nodes -": true,

		"get secrets other": false, "list secrets -": false, "get secrets kube-system": false, "create pods other": false,
		"list pods -": false, "patch nodes -": false, "delete nodes -": false, "get configmaps brokers": false,
		"create pods/exec brokers": false, "create serviceaccounts/token brokers": false, "list namespaces -": false,
		"create rbac.authorization.k8s.io/roles brokers": false, "escalate rbac.authorization.k8s.io/clusterroles -": false,
		"impersonate users -": false, "create tradewind.dev/tradewindjobs brokers": false,
		"list tradewind.dev/tradewindjobs batch": false,
	} {
		parts := strings.Fields(question)
		group, resource, some := strings.Cut(parts[1], "/")
		if !some || !strings.Contains(group, ".") {
			group, resource = "", parts[1]
		}
		resource, sub, _ := strings.Cut(resource, "/")
		namespace := strings.Trim(parts[2], "-")
		answer, err := api.Create(t.Context(), "/apis/authorization.k8s.io/v1/subjectaccessreviews", kubeapi.Object{
			"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview",
			"spec": map[string]any{
				"user": "system:serviceaccount:brokers:tradewind", "groups": []string{"system:authenticated", "system:serviceaccounts"},
				"resourceAttributes": map[string]any{
					"verb": parts[0], "group": group, "resource": resource, "subresource": sub, "namespace": namespace,
				},
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		if got, _ := answer.At("status", "allowed").(bool); got != want {
			t.Errorf("%s: %v", question, got)
		}
	}
}

// passesRestricted creates the broker's pod, like its controller, and a pod with more rights. Only the second may be
// rejected.
func passesRestricted(t *testing.T, api *kubeapi.API, set kubeapi.Object) {
	template, _ := set.At("spec", "template").(map[string]any)
	pod := func(spec any) error {
		_, err := api.Create(t.Context(), "/api/v1/namespaces/brokers/pods?dryRun=All", kubeapi.Object{
			"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{"name": "broker"}, "spec": spec,
		})
		return err
	}
	spec, _ := template["spec"].(map[string]any)
	spec["volumes"] = append(spec["volumes"].([]any), map[string]any{ //nolint:forcetypeassert // the chart has volumes
		"name": "state", "persistentVolumeClaim": map[string]any{"claimName": "state-tradewind-0"},
	})
	if err := pod(spec); err != nil {
		t.Errorf("the broker's pod: %v", err)
	}
	delete(spec, "securityContext")
	if err := pod(spec); err == nil || !strings.Contains(err.Error(), "restricted") {
		t.Errorf("a pod that may be root: %v", err)
	}
}

// checksJobs creates valid jobs, and jobs that the API server itself must reject.
func checksJobs(t *testing.T, api *kubeapi.API) {
	path := kubeapi.Path(kubedeploy.JobsVersion, kubedeploy.JobsPlural, "brokers", "")
	job := func(name string, spec map[string]any) kubeapi.Object {
		return kubeapi.Object{
			"apiVersion": kubedeploy.JobsVersion, "kind": "Job", "metadata": map[string]any{
				"name": name, "finalizers": []string{kubedeploy.Finalizer},
			}, "spec": spec,
		}
	}
	tasks := map[string]any{"tasks": map[string]any{"a": map[string]any{"run": "echo", "resources": map[string]any{"cpus": "2+"}}}}
	if _, err := api.Create(t.Context(), path, job("both", map[string]any{"dag": tasks, "text": "x"})); err == nil ||
		!strings.Contains(err.Error(), "either as dag") {
		t.Errorf("dag and text: %v", err)
	}
	if _, err := api.Create(t.Context(), path, job("none", map[string]any{})); err == nil {
		t.Errorf("neither: %v", err)
	}
	made, err := api.Create(t.Context(), path, job("fine", map[string]any{"dag": tasks}))
	if err != nil {
		t.Fatal(err)
	}
	if got := made.At("spec", "dag", "tasks", "a", "resources", "cpus"); got != "2+" {
		t.Errorf("the stored spec is %v", made["spec"])
	}
	changed := kubeapi.Object{"spec": map[string]any{"dag": map[string]any{"budget": 3}}}
	if _, err := api.Merge(t.Context(), path+"/fine", changed); err == nil || !strings.Contains(err.Error(), "does not change") {
		t.Errorf("a change of the spec: %v", err)
	}
}
