package kubedeploy_test

import (
	"bytes"
	"cmp"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"text/template"

	"go.yaml.in/yaml/v3"
	"pgregory.net/rapid"

	chart "github.com/tradewind-broker/tradewind/deploy/helm"
	"github.com/tradewind-broker/tradewind/internal/kubeapi"
	"github.com/tradewind-broker/tradewind/internal/kubedeploy"
)

var rewrite = flag.Bool("rewrite", false, "write objects.yaml from the chart")

// TestTemplateIsTheChart compares objects.yaml with the chart, rendered with placeholders as its values.
func TestTemplateIsTheChart(t *testing.T) {
	v, err := kubedeploy.Defaults()
	if err != nil {
		t.Fatal(err)
	}
	v.Image, v.CreateNamespace, v.PodNamespaces = "IMAGE", true, []string{"POD-NS"}
	objects, err := renderChart("NAMESPACE", v)
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	b.WriteString("# Generated from deploy/helm by `go test ./internal/kubedeploy -run TestTemplateIsTheChart -rewrite`.\n")
	if err := kubedeploy.Print(&b, objects); err != nil {
		t.Fatal(err)
	}
	if *rewrite {
		if err := os.WriteFile("objects.yaml", b.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	have, err := os.ReadFile("objects.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(have, b.Bytes()) {
		t.Error("objects.yaml is not the chart's: run this test with -rewrite")
	}
}

// TestRenderEqualsChart draws random values, and compares Render with the chart rendered with these values.
func TestRenderEqualsChart(t *testing.T) {
	name := rapid.StringMatching(`[a-z]([a-z0-9-]{0,8}[a-z0-9])?`)
	names := rapid.SliceOfN(name, 0, 3)
	rapid.Check(t, func(t *rapid.T) {
		v, err := kubedeploy.Defaults()
		if err != nil {
			t.Fatal(err)
		}
		v.Image = "registry.example.org/" + name.Draw(t, "image") + ":v1"
		v.ImagePullSecrets, v.Clouds = names.Draw(t, "secrets"), names.Draw(t, "clouds")
		v.PodNamespaces, v.Callers = names.Draw(t, "podNamespaces"), names.Draw(t, "callers")
		v.CreateNamespace = rapid.Bool().Draw(t, "createNamespace")
		v.PlaceholderPriority = rapid.Bool().Draw(t, "placeholderPriority")
		v.PublicURL = rapid.SampledFrom([]string{"", "https://broker.example.org"}).Draw(t, "publicURL")
		v.Storage.ClassName = rapid.SampledFrom([]string{"", "fast"}).Draw(t, "class")
		v.Storage.Size = rapid.SampledFrom([]string{"1Gi", "20Gi"}).Draw(t, "size")
		namespace := name.Draw(t, "namespace")
		want, err := renderChart(namespace, v)
		if err != nil {
			t.Fatal(err)
		}
		got, err := kubedeploy.Render(namespace, v)
		if err != nil {
			t.Fatal(err)
		}
		if len(got) != len(want) {
			t.Fatalf("%d objects, the chart has %d", len(got), len(want))
		}
		for i := range want {
			if !reflect.DeepEqual(got[i], want[i]) {
				t.Fatalf("object %d:\n%v\nthe chart's:\n%v", i, got[i], want[i])
			}
		}
	})
}

// renderChart renders the chart as Helm does.
func renderChart(namespace string, v kubedeploy.Values) ([]kubeapi.Object, error) {
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
			objects, err := kubedeploy.Decode(text)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", file, err)
			}
			out = append(out, objects...)
		}
	}
	order := []string{"Namespace", "CustomResourceDefinition", "PriorityClass", "ServiceAccount", "Role",
		"ClusterRole", "RoleBinding", "ClusterRoleBinding", "NetworkPolicy", "Service", "PodDisruptionBudget"}
	rank := func(o kubeapi.Object) int {
		if i := slices.Index(order, o.Text("kind")); i >= 0 {
			return i
		}
		return len(order)
	}
	slices.SortStableFunc(out, func(a, b kubeapi.Object) int { return cmp.Compare(rank(a), rank(b)) })
	return out, nil
}

// expand renders a template with the functions of Helm that the chart uses.
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
