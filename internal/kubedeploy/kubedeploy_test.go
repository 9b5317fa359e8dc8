package kubedeploy_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/tradewind-broker/tradewind/internal/kubeapi"
	"github.com/tradewind-broker/tradewind/internal/kubedeploy"
)

func rendered(t *testing.T, change func(*kubedeploy.Values)) []kubeapi.Object {
	t.Helper()
	v, err := kubedeploy.Defaults()
	if err != nil {
		t.Fatal(err)
	}
	v.Image = "registry.example.org/tradewind:v1"
	if change != nil {
		change(&v)
	}
	objects, err := kubedeploy.Render("brokers", v)
	if err != nil {
		t.Fatal(err)
	}
	return objects
}

// A deployment may have rights only in its own namespaces, except for reading nodes. Wildcards are not allowed.
func TestRolesAreMinimal(t *testing.T) {
	objects := rendered(t, func(v *kubedeploy.Values) { v.PodNamespaces = []string{"batch"} })
	for _, o := range objects {
		kind := o.Text("kind")
		if kind != "Role" && kind != "ClusterRole" {
			continue
		}
		rules, _ := o["rules"].([]any)
		for _, r := range rules {
			rule, _ := r.(map[string]any)
			for _, resource := range list(rule["resources"]) {
				allowed := map[string][]string{
					"ClusterRole": {"nodes"},
					"Role": {"pods", "secrets", "events", "tradewindjobs", "tradewindjobs/status",
						"podgroups", "workloads"}, // for gangs that other schedulers bind
				}[kind]
				if !slices.Contains(allowed, resource) {
					t.Errorf("%s %s: %s", kind, o.Text("metadata", "name"), resource)
				}
			}
			if kind == "ClusterRole" && !slices.Equal(list(rule["verbs"]), []string{"get", "list", "watch"}) {
				t.Errorf("%v", rule)
			}
			if slices.Contains(list(rule["verbs"]), "*") || slices.Contains(list(rule["apiGroups"]), "*") {
				t.Errorf("%v", rule)
			}
		}
		if kind == "Role" {
			if ns := o.Text("metadata", "namespace"); ns != "brokers" && ns != "batch" {
				t.Errorf("a role in %q", ns)
			}
		}
	}
}

func list(v any) []string {
	items, _ := v.([]any)
	var out []string
	for _, i := range items {
		s, _ := i.(string)
		out = append(out, s)
	}
	return out
}

func TestRenderRequiresImage(t *testing.T) {
	v, err := kubedeploy.Defaults()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := kubedeploy.Render("brokers", v); err == nil || !strings.Contains(err.Error(), "image has to be set") {
		t.Errorf("%v", err)
	}
}

func TestRenderPassesValuesToBroker(t *testing.T) {
	objects := rendered(t, func(v *kubedeploy.Values) {
		v.Clouds, v.PublicURL, v.CreateNamespace = []string{"aws", "gcp"}, "https://broker.example.org", true
		v.Storage.ClassName = "fast"
	})
	if objects[0].Text("kind") != "Namespace" ||
		objects[0].Text("metadata", "labels", "pod-security.kubernetes.io/enforce") != "restricted" {
		t.Errorf("the first object is %v", objects[0])
	}
	set := objects[len(objects)-1]
	containers, _ := set.At("spec", "template", "spec", "containers").([]any)
	broker, _ := containers[0].(map[string]any)
	want := []string{"up", "--state=/state", "--addr=:8080", "--kubernetes-jobs", "--clouds=aws,gcp",
		"--public-url=https://broker.example.org"}
	if got := list(broker["args"]); !slices.Equal(got, want) {
		t.Errorf("%v", got)
	}
	claims, _ := set.At("spec", "volumeClaimTemplates").([]any)
	claim, _ := claims[0].(map[string]any)
	if got := kubeapi.Object(claim).Text("spec", "storageClassName"); got != "fast" {
		t.Errorf("class %q", got)
	}
}

// Helm must render the same objects from the chart as the program.
func TestRenderEqualsHelm(t *testing.T) {
	render := filepath.Join("..", "..", ".tools", "helm", "render")
	if _, err := os.Stat(render); err != nil {
		t.Skip("Helm's engine is missing: scripts/helm.sh builds it")
	}
	values := filepath.Join(t.TempDir(), "values.yaml")
	given := "image: registry.example.org/tradewind:v1\nclouds: [aws, gcp]\npodNamespaces: [batch]\ncallers: [ui]\n"
	if err := os.WriteFile(values, []byte(given), 0o600); err != nil {
		t.Fatal(err)
	}
	chart := filepath.Join("..", "..", "deploy", "helm", "tradewind")
	out, err := exec.Command(render, chart, "brokers", values).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	theirs, err := kubedeploy.Decode(out)
	if err != nil {
		t.Fatal(err)
	}
	ours := rendered(t, func(v *kubedeploy.Values) {
		v.Clouds, v.PodNamespaces, v.Callers = []string{"aws", "gcp"}, []string{"batch"}, []string{"ui"}
	})
	byName := func(objects []kubeapi.Object) map[string]kubeapi.Object {
		out := map[string]kubeapi.Object{}
		for _, o := range objects {
			out[o.Text("kind")+" "+o.Text("metadata", "namespace")+"/"+o.Text("metadata", "name")] = o
		}
		return out
	}
	a, b := byName(ours), byName(theirs)
	for name := range b {
		if a[name] == nil {
			t.Errorf("only Helm renders %s", name)
		}
	}
	for name, o := range a {
		if !reflect.DeepEqual(o, b[name]) {
			t.Errorf("%s:\n%v\nby Helm\n%v", name, o, b[name])
		}
	}
}
