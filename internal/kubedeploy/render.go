// Package kubedeploy deploys the broker to a Kubernetes cluster and removes it. It renders the objects of the Helm
// chart in deploy/helm and applies them with server-side apply.
package kubedeploy

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
	"text/template"

	"go.yaml.in/yaml/v3"

	chart "github.com/tradewind-broker/tradewind/deploy/helm"
	"github.com/tradewind-broker/tradewind/internal/kubeapi"
)

// Values are the values of the chart (deploy/helm/tradewind/values.yaml).
type Values struct {
	Image            string   `yaml:"image"`
	ImagePullSecrets []string `yaml:"imagePullSecrets"`
	CreateNamespace  bool     `yaml:"createNamespace"`
	Clouds           []string `yaml:"clouds"`
	PublicURL        string   `yaml:"publicURL"`
	PodNamespaces    []string `yaml:"podNamespaces"`
	// PlaceholderPriority creates the PriorityClass of placeholder pods.
	PlaceholderPriority bool      `yaml:"placeholderPriority"`
	Storage             Storage   `yaml:"storage"`
	Resources           Resources `yaml:"resources"`
	Callers             []string  `yaml:"callers"`
}

// Storage is the broker's volume.
type Storage struct {
	Size      string `yaml:"size"` // a Kubernetes quantity
	ClassName string `yaml:"className"`
}

// Resources are the requests of the broker's pod, as Kubernetes quantities.
type Resources struct {
	CPU    string `yaml:"cpu"`
	Memory string `yaml:"memory"`
}

// Defaults returns the chart's default values.
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

// Render returns the objects of a deployment in a namespace, in the order of their creation.
func Render(namespace string, v Values) ([]kubeapi.Object, error) {
	var raw map[string]any
	body, err := yaml.Marshal(v)
	if err == nil {
		err = yaml.Unmarshal(body, &raw)
	}
	if err != nil {
		return nil, err
	}
	given := map[string]any{"Values": raw, "Release": map[string]any{"Namespace": namespace, "Name": "tradewind"}}
	var out []kubeapi.Object
	for _, pattern := range []string{"tradewind/crds/*.yaml", "tradewind/templates/*.yaml"} {
		files, err := fs.Glob(chart.Chart, pattern)
		if err != nil {
			return nil, err
		}
		for _, file := range files {
			text, err := chart.Chart.ReadFile(file)
			if err != nil {
				return nil, err
			}
			if path.Base(path.Dir(file)) == "templates" {
				if text, err = expand(file, text, given); err != nil {
					return nil, err
				}
			}
			objects, err := Decode(text)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", file, err)
			}
			out = append(out, objects...)
		}
	}
	slices.SortStableFunc(out, func(a, b kubeapi.Object) int { return cmp.Compare(rank(a), rank(b)) })
	return out, nil
}

// rank returns the position of an object's kind in the order of creation.
func rank(o kubeapi.Object) int {
	order := []string{"Namespace", "CustomResourceDefinition", "PriorityClass", "ServiceAccount", "Role",
		"ClusterRole", "RoleBinding", "ClusterRoleBinding", "NetworkPolicy", "Service", "PodDisruptionBudget"}
	if i := slices.Index(order, o.Text("kind")); i >= 0 {
		return i
	}
	return len(order)
}

// expand renders a template with those of Helm's functions that the chart uses.
func expand(name string, text []byte, given any) ([]byte, error) {
	t, err := template.New(name).Option("missingkey=error").Funcs(template.FuncMap{
		"quote": func(v any) string { return strconv.Quote(fmt.Sprint(v)) },
		"join": func(sep string, list []any) string {
			words := make([]string, len(list))
			for i, v := range list {
				words[i] = fmt.Sprint(v)
			}
			return strings.Join(words, sep)
		},
		"required": func(why string, v any) (any, error) {
			if v == nil || v == "" {
				return nil, errors.New(why)
			}
			return v, nil
		},
	}).Parse(string(text))
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	err = t.Execute(&b, given)
	return b.Bytes(), err
}

// Decode reads the objects of a YAML file.
func Decode(text []byte) ([]kubeapi.Object, error) {
	var out []kubeapi.Object
	dec := yaml.NewDecoder(bytes.NewReader(text))
	for {
		var o map[string]any // not an Object: nested maps would then be Objects too
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

// Print writes objects as one file of YAML.
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
