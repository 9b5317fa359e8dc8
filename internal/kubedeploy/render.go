// Package kubedeploy installs the broker in a Kubernetes cluster and removes it again. It applies the objects of the
// Helm chart in deploy/helm by server-side apply.
//
// The program has no template engine, as text/template makes the linker keep every exported method of every linked
// type. objects.yaml is the chart rendered with placeholders, and Render fills it in; a test renders the chart with the
// same values and compares.
package kubedeploy

import (
	"bytes"
	_ "embed"
	"errors"
	"io"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	chart "github.com/tradewind-broker/tradewind/deploy/helm"
	"github.com/tradewind-broker/tradewind/internal/kubeapi"
)

// The placeholders of objects.yaml.
const (
	namespaceHere    = "NAMESPACE"
	podNamespaceHere = "POD-NS"
)

// template is the chart with every option on and placeholders for its values.
// `go test ./internal/kubedeploy -run TestTemplateIsTheChart -rewrite` writes it.
//
//go:embed objects.yaml
var template []byte

// Values are the values of the chart (deploy/helm/tradewind/values.yaml).
type Values struct {
	Image            string   `yaml:"image"`
	ImagePullSecrets []string `yaml:"imagePullSecrets"`
	CreateNamespace  bool     `yaml:"createNamespace"`
	Clouds           []string `yaml:"clouds"`
	PublicURL        string   `yaml:"publicURL"`
	PodNamespaces    []string `yaml:"podNamespaces"`
	Keep             string   `yaml:"keep"`            // how long finished jobs are kept, as in up --keep
	LimitMachines    int      `yaml:"limitMachines"`   // as in up --limit-machines
	LimitUSD         float64  `yaml:"limitUSDPerHour"` // as in up --limit-usd-per-hour
	// PlaceholderPriority adds the PriorityClass of placeholder pods.
	PlaceholderPriority bool      `yaml:"placeholderPriority"`
	Storage             Storage   `yaml:"storage"`
	Resources           Resources `yaml:"resources"`
	Callers             []string  `yaml:"callers"`
}

// Storage describes the broker's volume.
type Storage struct {
	Size      string `yaml:"size"` // a Kubernetes quantity
	ClassName string `yaml:"className"`
}

// Resources are the requests of the broker's pod, as quantities of Kubernetes.
type Resources struct {
	CPU    string `yaml:"cpu"`
	Memory string `yaml:"memory"`
}

// Defaults returns the default values of the chart.
func Defaults() (Values, error) {
	var v Values
	body, err := chart.Chart.ReadFile("tradewind/values.yaml")
	if err == nil {
		dec := yaml.NewDecoder(bytes.NewReader(body))
		dec.KnownFields(true)
		err = dec.Decode(&v)
	}
	return v, err
}

// Render returns the objects of a deployment into a namespace, in the order in which they are created.
func Render(namespace string, v Values) ([]kubeapi.Object, error) {
	if v.Image == "" {
		return nil, errors.New("image has to be set: the one that scripts/image.sh builds")
	}
	objects, err := Decode(template)
	if err != nil {
		return nil, err
	}
	var out []kubeapi.Object
	for _, o := range objects {
		o = replace(o, namespaceHere, namespace)
		switch kind := o.Text("kind"); {
		case kind == "Namespace" && !v.CreateNamespace, kind == "PriorityClass" && !v.PlaceholderPriority:
			continue
		case o.Text("metadata", "namespace") == podNamespaceHere:
			for _, ns := range v.PodNamespaces {
				out = append(out, replace(o, podNamespaceHere, ns))
			}
			continue
		case kind == "NetworkPolicy":
			admit(o, slices.Concat(v.PodNamespaces, v.Callers))
		case kind == "StatefulSet":
			configure(o, v)
		}
		out = append(out, o)
	}
	return out, nil
}

// admit lets the pods of some namespaces call the broker.
func admit(policy kubeapi.Object, namespaces []string) {
	from := []any{map[string]any{"podSelector": map[string]any{}}}
	for _, ns := range namespaces {
		from = append(from, map[string]any{"namespaceSelector": map[string]any{
			"matchLabels": map[string]any{"kubernetes.io/metadata.name": ns},
		}})
	}
	first(policy, "spec", "ingress")["from"] = from
}

// configure applies the values to the broker's pod and its volume.
func configure(set kubeapi.Object, v Values) {
	pod, _ := set.At("spec", "template", "spec").(map[string]any)
	if len(v.ImagePullSecrets) > 0 {
		var names []any
		for _, s := range v.ImagePullSecrets {
			names = append(names, map[string]any{"name": s})
		}
		pod["imagePullSecrets"] = names
	}
	broker := first(pod, "containers")
	broker["image"] = v.Image
	args, _ := broker["args"].([]any)
	if len(v.Clouds) > 0 {
		args = append(args, "--clouds="+strings.Join(v.Clouds, ","))
	}
	if v.PublicURL != "" {
		args = append(args, "--public-url="+v.PublicURL)
	}
	if v.Keep != "" {
		args = append(args, "--keep="+v.Keep)
	}
	if v.LimitMachines > 0 {
		args = append(args, "--limit-machines="+strconv.Itoa(v.LimitMachines))
	}
	if v.LimitUSD > 0 {
		args = append(args, "--limit-usd-per-hour="+strconv.FormatFloat(v.LimitUSD, 'g', -1, 64))
	}
	broker["args"] = args
	broker["resources"] = map[string]any{
		"requests": map[string]any{"cpu": v.Resources.CPU, "memory": v.Resources.Memory},
	}

	claim, _ := first(set, "spec", "volumeClaimTemplates")["spec"].(map[string]any)
	if v.Storage.ClassName != "" {
		claim["storageClassName"] = v.Storage.ClassName
	}
	claim["resources"] = map[string]any{"requests": map[string]any{"storage": v.Storage.Size}}
}

// first returns the first element of a list of objects; objects.yaml has one.
func first(o kubeapi.Object, path ...string) map[string]any {
	list, _ := o.At(path...).([]any)
	m, _ := list[0].(map[string]any)
	return m
}

// replace returns a copy of an object in which every string has to in place of from.
func replace(o kubeapi.Object, from, to string) kubeapi.Object {
	out := make(kubeapi.Object, len(o))
	for k, v := range o {
		out[k] = replaceIn(v, from, to)
	}
	return out
}

func replaceIn(v any, from, to string) any {
	switch v := v.(type) {
	case string:
		return strings.ReplaceAll(v, from, to)
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = replaceIn(v[i], from, to)
		}
		return out
	case map[string]any:
		return map[string]any(replace(v, from, to))
	}
	return v
}

// Decode reads the objects of a YAML file.
func Decode(text []byte) ([]kubeapi.Object, error) {
	var out []kubeapi.Object
	dec := yaml.NewDecoder(bytes.NewReader(text))
	for {
		var o map[string]any // not an Object: the maps inside would become Objects, too
		err := dec.Decode(&o)
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return nil, err
		}
		if len(o) > 0 {
			out = append(out, o)
		}
	}
}

// Print writes objects as one YAML file.
func Print(w io.Writer, objects []kubeapi.Object) error {
	for i, o := range objects {
		if i > 0 {
			if _, err := io.WriteString(w, "---\n"); err != nil {
				return err
			}
		}
		enc := yaml.NewEncoder(w)
		enc.SetIndent(2)
		if err := errors.Join(enc.Encode(map[string]any(o)), enc.Close()); err != nil {
			return err
		}
	}
	return nil
}
