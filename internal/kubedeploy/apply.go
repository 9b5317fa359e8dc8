package kubedeploy

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/tradewind-broker/tradewind/internal/kubeapi"
)

// Change is the change of an object.
type Change struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	State     string `json:"state"` // made, changed, unchanged, removed
}

// States of a Change.
const (
	Made      = "made"
	Changed   = "changed"
	Unchanged = "unchanged"
	Removed   = "removed"
)

// The names in the cluster of a deployment and of the jobs that are handed over as objects.
const (
	// JobsVersion and JobsPlural are the API version and the plural of the objects that are jobs.
	JobsVersion = "tradewind.dev/v1"
	JobsPlural  = "tradewindjobs"
	// Finalizer keeps such an object until its job is cancelled.
	Finalizer = "tradewind.dev/cancel"
	// TokenSecret is the Secret in which a broker stores the token of its users, under TokenKey.
	TokenSecret = "tradewind-token" //nolint:gosec // its name
	TokenKey    = "token"
	// Port is the port of the broker's pod.
	Port = 8080
	// Name is the name of the objects of a deployment.
	Name = "tradewind"
)

// Hosts returns the DNS names of a deployment's service in its cluster.
func Hosts(namespace string) []string {
	return []string{
		Name,
		Name + "." + namespace,
		Name + "." + namespace + ".svc",
		Name + "." + namespace + ".svc.cluster.local",
	}
}

// plurals returns the chart's kinds and their plurals in paths.
func plurals() map[string]string {
	return map[string]string{
		"Namespace": "namespaces", "CustomResourceDefinition": "customresourcedefinitions",
		"ServiceAccount": "serviceaccounts",
		"Role":           "roles", "ClusterRole": "clusterroles", "RoleBinding": "rolebindings",
		"ClusterRoleBinding": "clusterrolebindings",
		"NetworkPolicy":      "networkpolicies", "Service": "services", "PodDisruptionBudget": "poddisruptionbudgets",
		"StatefulSet": "statefulsets", "PriorityClass": "priorityclasses",
	}
}

// pathOf returns the path of an object of the chart.
func pathOf(o kubeapi.Object) (string, error) {
	plural, ok := plurals()[o.Text("kind")]
	if !ok {
		return "", fmt.Errorf("the chart has the kind %s, which this program does not support", o.Text("kind"))
	}
	return kubeapi.Path(o.Text("apiVersion"), plural, o.Text("metadata", "namespace"), o.Text("metadata", "name")), nil
}

func change(o kubeapi.Object, state string) Change {
	return Change{
		Kind:      o.Text("kind"),
		Namespace: o.Text("metadata", "namespace"),
		Name:      o.Text("metadata", "name"),
		State:     state,
	}
}

// Apply creates missing objects and updates those that differ.
func Apply(ctx context.Context, api *kubeapi.API, objects []kubeapi.Object) ([]Change, error) {
	out := make([]Change, 0, len(objects))
	for _, o := range objects {
		path, err := pathOf(o)
		if err != nil {
			return out, err
		}
		state := Made
		before, err := api.Get(ctx, path)
		switch {
		case err == nil:
			state = Changed
		case !kubeapi.NotFound(err):
			return out, fmt.Errorf("%s %s: %w", o.Text("kind"), o.Text("metadata", "name"), err)
		}
		after, err := api.Apply(ctx, path, o, false)
		if err != nil {
			return out, fmt.Errorf("%s %s: %w", o.Text("kind"), o.Text("metadata", "name"), err)
		}
		if state == Changed && before.Text("metadata", "resourceVersion") == after.Text("metadata", "resourceVersion") {
			state = Unchanged
		}
		out = append(out, change(o, state))
	}
	return out, nil
}

// Remove removes a deployment. The volume, the token and the job objects stay, unless data is true; then the jobs of
// this namespace are removed, and the custom resource definition if no other namespace has jobs.
func Remove(
	ctx context.Context,
	api *kubeapi.API,
	namespace string,
	objects []kubeapi.Object,
	data bool,
) ([]Change, error) {
	var out []Change
	gone := func(path string, c Change) error {
		_, err := api.Get(ctx, path)
		if kubeapi.NotFound(err) {
			return nil
		}
		if err == nil {
			err = api.Delete(ctx, path)
		}
		if err != nil {
			return fmt.Errorf("%s %s: %w", c.Kind, c.Name, err)
		}
		out = append(out, c)
		return nil
	}
	for _, o := range slices.Backward(objects) {
		kind := o.Text("kind")
		if kind == "Namespace" || kind == "CustomResourceDefinition" {
			continue
		}
		path, err := pathOf(o)
		if err == nil {
			err = gone(path, change(o, Removed))
		}
		if err != nil {
			return out, err
		}
	}
	if !data {
		return out, nil
	}
	if err := removeJobs(ctx, api, namespace, gone); err != nil {
		return out, err
	}
	for _, o := range []struct{ kind, plural, name string }{
		{"Secret", "secrets", TokenSecret}, {"PersistentVolumeClaim", "persistentvolumeclaims", "state-" + Name + "-0"},
	} {
		c := Change{Kind: o.kind, Namespace: namespace, Name: o.name, State: Removed}
		if err := gone(kubeapi.Path("v1", o.plural, namespace, o.name), c); err != nil {
			return out, err
		}
	}
	return out, nil
}

// removeJobs removes the job objects of a namespace after the removal of its broker. It also removes the custom
// resource definition if no other namespace has job objects.
func removeJobs(ctx context.Context, api *kubeapi.API, namespace string, gone func(string, Change) error) error {
	all, err := api.Get(ctx, kubeapi.Path(JobsVersion, JobsPlural, "", ""))
	if kubeapi.NotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	others := 0
	for _, o := range all.Items() {
		if o.Text("metadata", "namespace") != namespace {
			others++
			continue
		}
		name := o.Text("metadata", "name")
		path := kubeapi.Path(JobsVersion, JobsPlural, namespace, name)
		if _, err := api.Merge(ctx, path, WithFinalizers(o, false)); err != nil && !kubeapi.NotFound(err) {
			return err
		}
		if err := gone(path, Change{Kind: "Job", Namespace: namespace, Name: name, State: Removed}); err != nil {
			return err
		}
	}
	if others > 0 {
		return nil
	}
	name := JobsPlural + "." + strings.Split(JobsVersion, "/")[0]
	return gone(kubeapi.Path("apiextensions.k8s.io/v1", "customresourcedefinitions", "", name),
		Change{Kind: "CustomResourceDefinition", Name: name, State: Removed})
}

// WithFinalizers returns a merge patch that adds our finalizer to an object, or removes it. The patch applies only if
// the object has not changed since it was read.
func WithFinalizers(o kubeapi.Object, ours bool) kubeapi.Object {
	list, _ := o.At("metadata", "finalizers").([]any)
	list = slices.DeleteFunc(slices.Clone(list), func(v any) bool { return v == Finalizer })
	if ours {
		list = append(list, Finalizer)
	}
	if list == nil {
		list = []any{}
	}
	return kubeapi.Object{"metadata": map[string]any{
		"finalizers": list, "resourceVersion": o.Text("metadata", "resourceVersion"),
	}}
}
