package kubernetes_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/tradewind-broker/tradewind/internal/cloud/kubernetes"
	"github.com/tradewind-broker/tradewind/internal/kubetest"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
)

// by sets which scheduler binds the gangs of a world.
func (w *world) by(text string) {
	w.Helper()
	g, err := kubernetes.ParseGang(text)
	if err != nil {
		w.Fatal(err)
	}
	w.cfg.Places[0].Gang = g
	w.again()
}

// again makes a new driver with the current configuration.
func (w *world) again() { w.driver = kubernetes.New(w.cfg) }

// observed makes the driver call see before each request.
func (w *world) observed(see func(*http.Request)) {
	w.Helper()
	cfg := rest.CopyConfig(w.cluster.Config)
	cfg.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return around(func(r *http.Request) (*http.Response, error) {
			see(r)
			return next.RoundTrip(r)
		})
	})
	client, err := kubernetes.NewClient(cfg)
	if err != nil {
		w.Fatal(err)
	}
	w.cfg.Places[0].Client = client
	w.again()
}

func (w *world) dynamic() dynamic.Interface { return w.cfg.Places[0].Dynamic }

// The native scheduler of Kubernetes 1.36 must bind a gang that has room. It must bind no pod of a gang without room,
// even if the broker cannot check for room.
func TestNativeSchedulerBindsGang(t *testing.T) {
	w := newWorldWith(t, kubetest.Options{Gangs: true}, large("a"))
	w.by("native")
	w.launch("first", 60)
	w.cfg.Places[0].Client = blind(t, w.cluster)
	_, err := w.driver.Launch(t.Context(), spec("second", 8))
	if cloud.KindOf(err) != cloud.Capacity || cloud.Late(err) != 0 {
		t.Errorf("a gang of 8 with room for 4: %v (%d pods were bound)", err, cloud.Late(err))
	}
	if err := w.driver.Terminate(t.Context(), "first"); err != nil {
		t.Fatal(err)
	}
	groups := w.cluster.Client.SchedulingV1alpha2().PodGroups(namespace)
	w.await("an empty namespace", func() bool {
		list, err := groups.List(t.Context(), metav1.ListOptions{})
		return err == nil && len(list.Items) == 0 && len(w.left()) == 0
	})
}

// A cluster lacks the configured scheduler. The error must say so and name a next step.
func TestMissingGangScheduler(t *testing.T) {
	w := newWorld(t, large("a"))
	for _, by := range []string{"native", "volcano"} {
		w.by(by)
		_, err := w.driver.Launch(t.Context(), spec("a-"+by, 2))
		if cloud.KindOf(err) != cloud.Quota || !strings.Contains(err.Error(), "--gang gates") {
			t.Errorf("%s: %v", by, err)
		}
		if left := w.left(); len(left) > 0 {
			t.Errorf("%s: left: %v", by, left)
		}
	}
}

// Kueue admits a group of pods when all of them exist and its queue has quota for all. The test simulates Kueue's
// controller as documented, with a quota of four pods.
func TestKueueAdmitsGang(t *testing.T) {
	w := newWorld(t, large("a"))
	w.install(crd("kueue.x-k8s.io", "v1beta1", "Workload", "workloads"))
	w.by("kueue:research")
	k := &kueue{world: w, quota: 4}
	go k.run(t.Context())
	w.launch("fits", 4)
	_, err := w.driver.Launch(t.Context(), spec("more", 2))
	if cloud.KindOf(err) != cloud.Capacity || cloud.Late(err) != 0 ||
		!strings.Contains(err.Error(), "insufficient unused quota for cpu") {
		t.Errorf("%v", err)
	}
	if err := w.driver.Terminate(t.Context(), "fits"); err != nil {
		t.Fatal(err)
	}
	w.await("an empty namespace", func() bool { return len(w.left()) == 0 })
}

// Volcano's scheduler binds the pods of a PodGroup. The test simulates it as documented, for groups of up to four
// pods.
func TestVolcanoBindsGang(t *testing.T) {
	w := newWorld(t, large("a"))
	w.install(crd("scheduling.volcano.sh", "v1beta1", "PodGroup", "podgroups"))
	w.by("volcano:research")
	v := &volcano{world: w, most: 4}
	go v.run(t.Context())
	w.launch("fits", 4)
	_, err := w.driver.Launch(t.Context(), spec("more", 6))
	if cloud.KindOf(err) != cloud.Capacity || cloud.Late(err) != 0 ||
		!strings.Contains(err.Error(), "6/6 tasks in gang unschedulable") {
		t.Errorf("%v", err)
	}
	if err := w.driver.Terminate(t.Context(), "fits"); err != nil {
		t.Fatal(err)
	}
	w.await("an empty namespace, and no group", func() bool {
		list, err := w.dynamic().Resource(volcanoGroups).Namespace(namespace).List(t.Context(), metav1.ListOptions{})
		return err == nil && len(list.Items) == 0 && len(w.left()) == 0
	})
}

func TestParseGang(t *testing.T) {
	for _, text := range []string{"kueue", "kueue:", "native:x", "gates:x", "volcano:", "slurm", "kueue:a b", ""} {
		if g, err := kubernetes.ParseGang(text); err == nil {
			t.Errorf("%q is parsed as %+v", text, g)
		}
	}
}

// crd returns a custom resource definition that does not validate its fields.
func crd(group, version, kind, plural string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	text := fmt.Sprintf(`{"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": {"name": "%[4]s.%[1]s",
			"annotations": {"api-approved.kubernetes.io": "https://github.com/kubernetes"}},
		"spec": {"group": "%[1]s", "scope": "Namespaced",
			"names": {"kind": "%[3]s", "listKind": "%[3]sList", "plural": "%[4]s"},
			"versions": [{"name": "%[2]s", "served": true, "storage": true,
				"schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}]}}`,
		group, version, kind, plural)
	if err := json.Unmarshal([]byte(text), &u.Object); err != nil {
		panic(err)
	}
	return u
}

// install adds a custom resource definition, and waits until the resource can be listed.
func (w *world) install(u *unstructured.Unstructured) {
	w.Helper()
	crds := schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1",
		Resource: "customresourcedefinitions"}
	if _, err := w.dynamic().Resource(crds).Create(w.Context(), u, metav1.CreateOptions{}); err != nil {
		w.Fatal(err)
	}
	plural, group, _ := strings.Cut(u.GetName(), ".")
	versions, _, _ := unstructured.NestedSlice(u.Object, "spec", "versions")
	version, _ := versions[0].(map[string]any)["name"].(string)
	of := schema.GroupVersionResource{Group: group, Version: version, Resource: plural}
	w.await(u.GetName(), func() bool {
		_, err := w.dynamic().Resource(of).Namespace(namespace).List(w.Context(), metav1.ListOptions{})
		return err == nil
	})
}

// again calls f again and again until ctx ends.
func again(ctx context.Context, f func()) {
	for ctx.Err() == nil {
		f()
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
		}
	}
}

// groups returns the pods of a namespace by the name of their group, except those being deleted.
func (w *world) groups(ctx context.Context, name func(*corev1.Pod) string) map[string][]*corev1.Pod {
	list, err := w.cluster.Client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil
	}
	found := map[string][]*corev1.Pod{}
	for i := range list.Items {
		if p := &list.Items[i]; p.DeletionTimestamp == nil && name(p) != "" {
			found[name(p)] = append(found[name(p)], p)
		}
	}
	return found
}

var (
	kueueWorkloads = schema.GroupVersionResource{Group: "kueue.x-k8s.io", Version: "v1beta1", Resource: "workloads"}
	volcanoGroups  = schema.GroupVersionResource{
		Group: "scheduling.volcano.sh", Version: "v1beta1", Resource: "podgroups",
	}
)

// kueue simulates Kueue's controller for groups of pods. When a group is complete and there is quota, it removes the
// gates of its pods. Otherwise it writes a Workload with the reason.
type kueue struct {
	*world
	quota int
}

func (k *kueue) run(ctx context.Context) {
	again(ctx, func() {
		used := 0
		groups := k.groups(ctx, func(p *corev1.Pod) string {
			if p.Labels["kueue.x-k8s.io/queue-name"] != "research" {
				return ""
			}
			return p.Labels["kueue.x-k8s.io/pod-group-name"]
		})
		for _, pods := range groups {
			for _, p := range pods {
				if len(p.Spec.SchedulingGates) == 0 {
					used++
				}
			}
		}
		for name, pods := range groups {
			gated := len(pods[0].Spec.SchedulingGates) > 0
			if pods[0].Annotations["kueue.x-k8s.io/pod-group-total-count"] != fmt.Sprint(len(pods)) || !gated {
				continue
			}
			if used+len(pods) > k.quota {
				k.say(ctx, name)
				continue
			}
			used += len(pods)
			for _, p := range pods {
				_, _ = k.cluster.Client.CoreV1().Pods(namespace).Patch(ctx, p.Name, types.JSONPatchType,
					[]byte(`[{"op":"remove","path":"/spec/schedulingGates"}]`), metav1.PatchOptions{})
			}
		}
	})
}

func (k *kueue) say(ctx context.Context, name string) {
	u := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "kueue.x-k8s.io/v1beta1", "kind": "Workload", "metadata": map[string]any{"name": name},
		"status": map[string]any{"conditions": []any{map[string]any{
			"type": "QuotaReserved", "status": "False", "reason": "Pending",
			"message": "couldn't assign flavors to pod set main: insufficient unused quota for cpu in flavor default",
		}}},
	}}
	_, _ = k.dynamic().Resource(kueueWorkloads).Namespace(namespace).Create(ctx, u, metav1.CreateOptions{})
}

// volcano simulates Volcano's scheduler: it binds the pods of a PodGroup when minMember of them exist.
type volcano struct {
	*world
	most int
}

func (v *volcano) run(ctx context.Context) {
	again(ctx, func() {
		groups := v.groups(ctx, func(p *corev1.Pod) string {
			if p.Spec.SchedulerName != "volcano" || p.Spec.NodeName != "" {
				return ""
			}
			return p.Annotations["scheduling.k8s.io/group-name"]
		})
		for name, pods := range groups {
			of := v.dynamic().Resource(volcanoGroups).Namespace(namespace)
			u, err := of.Get(ctx, name, metav1.GetOptions{})
			if err != nil {
				continue
			}
			least, _, _ := unstructured.NestedInt64(u.Object, "spec", "minMember")
			queue, _, _ := unstructured.NestedString(u.Object, "spec", "queue")
			if len(pods) < int(least) || queue != "research" {
				continue
			}
			if len(pods) > v.most {
				_, _ = of.Patch(ctx, name, types.MergePatchType, []byte(fmt.Sprintf(`{"status":{"conditions":[
					{"type":"Unschedulable","status":"True","reason":"NotEnoughResources",
					"message":"%d/%d tasks in gang unschedulable: pod group is not ready"}]}}`, len(pods), least)),
					metav1.PatchOptions{})
				continue
			}
			for _, p := range pods {
				_ = v.cluster.Client.CoreV1().Pods(namespace).Bind(ctx, &corev1.Binding{
					ObjectMeta: metav1.ObjectMeta{Name: p.Name, Namespace: namespace},
					Target:     corev1.ObjectReference{Kind: "Node", Name: "a"},
				}, metav1.CreateOptions{})
			}
		}
	})
}
