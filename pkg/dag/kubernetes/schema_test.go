package kubernetes_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/tradewind-broker/tradewind/pkg/dag"
	"github.com/tradewind-broker/tradewind/pkg/dag/internal/dagtest"
	"github.com/tradewind-broker/tradewind/pkg/dag/kubernetes"
)

// Every field of the operators' own Go types that testdata/schema.txt lists is done, without effect, ignored with a
// warning, or refused, as the documentation says. The types are those of kubernetes/api (commit 10b39a39bcee),
// kubernetes-sigs/jobset (08dfbdfd6827), kubeflow/training-operator (v1.9.0), kubeflow/trainer (8c0f5059bd51)
// and volcano-sh/apis (536f121f5365); the keys of labels and annotations are also those of kubernetes-sigs/kueue
// (ff69552e79ad). A pod's fields are listed once, under Pod.
func TestEveryFieldOfOperatorsIsConsidered(t *testing.T) {
	dagtest.Effects(t, "kubernetes-manifests.md", manifest, func(f dagtest.Field) string {
		_, also, _ := strings.Cut(f.Value, " + ")
		f.Value = " + " + also
		return manifest(f)
	}, parse)
}

// parse reads jobs; a file that has only queues becomes a job that names their settings.
func parse(name string, data []byte) (*dag.Job, error) {
	queues, warnings, are, err := kubernetes.Queues(name, data)
	if err != nil || !are {
		if err == nil {
			return kubernetes.Parse(name, data)
		}
		return nil, err
	}
	t := dag.Task{Name: "queues", Run: fmt.Sprintf("%+v", queues), Nodes: 1, Resources: []dag.Resources{{}}}
	return &dag.Job{Name: "queues", Tasks: []dag.Task{t}, Warnings: warnings, Format: dag.Native,
		Objective: dag.MinimizeCost, Infeasible: dag.Fail}, nil
}

// manifest returns the manifest of a field's kind with the field, or without it if it has no value. After +, a value
// has other fields that the field needs, each as PATH=VALUE.
func manifest(f dagtest.Field) string {
	kind, path, _ := strings.Cut(f.Path, ".")
	text, err := os.ReadFile(filepath.Join("testdata", "fields", kind+".yaml"))
	if err != nil {
		return err.Error()
	}
	value, also, _ := strings.Cut(f.Value, " + ")
	var out bytes.Buffer
	to := yaml.NewEncoder(&out)
	from := yaml.NewDecoder(bytes.NewReader(text))
	for first := true; ; first = false {
		var doc map[string]any
		if from.Decode(&doc) != nil {
			break
		}
		if first {
			for one := range strings.SplitSeq(also, " + ") {
				if at, v, found := strings.Cut(one, "="); found {
					set(doc, at, v)
				}
			}
			if value != "" {
				set(doc, path, value)
			}
		}
		_ = to.Encode(doc) // to memory
	}
	return out.String()
}

// set sets the value at a path such as spec.tasks[].name, where [] is the first element and * the first key.
func set(in map[string]any, path, value string) {
	name, rest, deeper := strings.Cut(path, ".")
	if name == "labels" || name == "annotations" { // a key with dots, and a text
		in[name] = map[string]any{rest: value}
		return
	}
	name, isList := strings.CutSuffix(name, "[]")
	if name == "*" {
		for key := range in {
			if name == "*" || key < name {
				name = key
			}
		}
	}
	if !deeper {
		var v any
		if err := yaml.Unmarshal([]byte(value), &v); err != nil {
			v = err.Error()
		}
		in[name] = v
		return
	}
	if isList {
		list, _ := in[name].([]any)
		if len(list) == 0 {
			list = []any{map[string]any{}}
		}
		in[name] = list
		set(list[0].(map[string]any), rest, value)
		return
	}
	next, _ := in[name].(map[string]any)
	if next == nil {
		next = map[string]any{}
	}
	in[name] = next
	set(next, rest, value)
}
