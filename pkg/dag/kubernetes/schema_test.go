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

// Every field in testdata/schema.txt must be converted, without effect, ignored with a warning, or refused, as the
// documentation says. The fields are those of the operators' Go types: kubernetes/api (commit 10b39a39bcee),
// kubernetes-sigs/jobset (08dfbdfd6827), kubeflow/training-operator (v1.9.0), kubeflow/trainer (8c0f5059bd51) and
// volcano-sh/apis (536f121f5365). The keys of labels and annotations include those of kubernetes-sigs/kueue
// (ff69552e79ad). The fields of a pod are listed once, under Pod.
func TestEveryFieldOfOperatorsIsConsidered(t *testing.T) {
	dagtest.Effects(t, "kubernetes-manifests.md", manifest, func(f dagtest.Field) string {
		_, also, _ := strings.Cut(f.Value, " + ")
		f.Value = " + " + also
		return manifest(f)
	}, parse)
}

// parse reads a job. A file that has only queues becomes a job whose task contains the queues' settings.
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

// manifest returns a manifest of a field's kind in which the field has its value. Without a value, the field is
// omitted. After +, the value lists other fields that the field needs, each as PATH=VALUE.
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
		_ = to.Encode(doc) // writes to memory
	}
	return out.String()
}

// set sets the value at a path such as spec.tasks[].name, where [] is the first element and * the first key.
func set(in map[string]any, path, value string) {
	name, rest, deeper := strings.Cut(path, ".")
	if name == "labels" || name == "annotations" { // one key that contains dots, with a text as its value
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
