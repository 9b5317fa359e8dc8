package read_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/tradewind-broker/tradewind/internal/base/lineartest"
	"github.com/tradewind-broker/tradewind/pkg/dag"
	"github.com/tradewind-broker/tradewind/pkg/dag/read"
)

// list returns n elements, joined by a separator.
func list(n int, separator string, element func(i int) string) string {
	all := make([]string, n)
	for i := range all {
		all[i] = element(i)
	}
	return strings.Join(all, separator)
}

const container = `{"containers":[{"name":"c","image":"busybox:1","command":["true"]}],"restartPolicy":"Never"}`

// shapes returns functions that make files of n elements, for each format. JSON files have one line.
func shapes() map[string]func(n int) string {
	return map[string]func(n int) string{
		"wfformat.json": func(n int) string {
			return `{"schemaVersion":"1.5","workflow":{"specification":{"tasks":[` + list(n, ",", func(i int) string {
				return fmt.Sprintf(`{"id":"t%d","parents":[],"inputFiles":["f%d"],"outputFiles":["f%d"]}`, i, i-1, i)
			}) + `],"files":[` + list(n, ",", func(i int) string {
				return fmt.Sprintf(`{"id":"f%d","sizeInBytes":10}`, i)
			}) + `]},"execution":{"tasks":[` + list(n, ",", func(i int) string {
				return fmt.Sprintf(`{"id":"t%d","runtimeInSeconds":1}`, i)
			}) + `]}}}`
		},
		"dax.xml": func(n int) string {
			return `<adag>` + list(n, "", func(i int) string {
				return fmt.Sprintf(`<job id="t%d" runtime="1"><uses name="f%d" link="output"/></job>`, i, i)
			}) + list(n-1, "", func(i int) string {
				return fmt.Sprintf(`<child ref="t%d"><parent ref="t%d"/></child>`, i+1, i)
			}) + `</adag>`
		},
		"native.json": func(n int) string {
			return `{"apiVersion":"tradewind/v1","tasks":{"t":{"run":"x"},` + list(n, ",", func(i int) string {
				return fmt.Sprintf(`"t%d":{"run":"true","after":["t"],"env":{"A":"b"},"outputs":[{"name":"o"}]}`, i)
			}) + `}}`
		},
		"native.yaml": func(n int) string {
			return "apiVersion: tradewind/v1\ntasks:\n  t: {run: x}\n" + list(n, "", func(i int) string {
				return fmt.Sprintf("  t%d:\n    run: |\n      true\n    after: [t]\n", i)
			})
		},
		"chain.yaml": func(n int) string {
			return "apiVersion: tradewind/v1\ntasks:\n  t0: {run: x, outputs: [{name: o}]}\n" + list(n, "", func(i int) string {
				return fmt.Sprintf("  t%d: {run: x, inputs: [t%d/o], outputs: [{name: o}]}\n", i+1, i)
			})
		},
		"gangs.yaml": func(n int) string {
			return "apiVersion: tradewind/v1\ntasks:\n" + list(n, "", func(i int) string {
				return fmt.Sprintf("  t%d: {gang: {roles: {a: {run: x}, b: {run: y}}}}\n", i)
			})
		},
		"services.yaml": func(n int) string {
			return "apiVersion: tradewind/v1\ntasks:\n" + list(n, "", func(i int) string {
				return fmt.Sprintf("  t%d: {run: x, service: {port: 80, replicas: 2, readiness: {path: /}}}\n", i)
			})
		},
		"placement.yaml": func(n int) string {
			return "apiVersion: tradewind/v1\ntasks:\n" + list(n, "", func(i int) string {
				return fmt.Sprintf("  t%d: {run: x, labels: {app: a%d}}\n", i, i)
			}) + "placement: [{spread: zone, of: [" + list(n, ", ", func(i int) string { return fmt.Sprintf("t%d", i) }) + "]}]\n"
		},
		"skypilot.yaml": func(n int) string {
			return list(n, "---\n", func(i int) string {
				return fmt.Sprintf("name: t%d\nresources: {cpus: 2}\nrun: |\n  true\n", i)
			})
		},
		"group.yaml": func(n int) string { // at most dag.MaxGang tasks
			return "name: g\nexecution: parallel\n---\n" + list(n/16, "---\n", func(i int) string {
				return fmt.Sprintf("name: t%d\nrun: |\n%s", i, strings.Repeat("  true\n", 20))
			})
		},
		"any_of.yaml": func(n int) string {
			return "run: x\nenvs: {A: b}\nresources:\n  any_of:\n" + list(n, "", func(i int) string {
				return fmt.Sprintf("  - {cpus: %d, infra: aws/us-east-1, use_spot: true}\n", 1+i%8)
			})
		},
		"labels.yaml": func(n int) string {
			return "apiVersion: batch/v1\nkind: Job\nmetadata:\n  name: j\n  labels:\n" + list(n, "", func(i int) string {
				return fmt.Sprintf("    kueue.x-k8s.io/l%d: a\n", i)
			}) + "spec: {template: {spec: " + container + "}}\n"
		},
		"envs.yaml": func(n int) string {
			return "run: x\nenvs:\n" + list(n/8, "", func(i int) string { return fmt.Sprintf("  A%d: b\n", i) }) +
				"file_mounts:\n" + list(n/8, "", func(i int) string { return fmt.Sprintf("  /a%d: s3://b${A%d}/x\n", i, i) })
		},
		"jobs.json": func(n int) string {
			return `{"apiVersion":"v1","kind":"List","items":[` + list(n, ",", func(i int) string {
				return fmt.Sprintf(`{"apiVersion":"batch/v1","kind":"Job","metadata":{"name":"t%d"},`+
					`"spec":{"template":{"spec":%s}}}`, i, container)
			}) + `]}`
		},
		"pods.yaml": func(n int) string {
			return list(n, "---\n", func(i int) string {
				return fmt.Sprintf("apiVersion: v1\nkind: Pod\nmetadata: {name: t%d}\nspec: %s\n", i, container)
			})
		},
		"jobset.json": func(n int) string {
			return `{"apiVersion":"jobset.x-k8s.io/v1alpha2","kind":"JobSet","metadata":{"name":"s"},"spec":{"replicatedJobs":[` +
				list(n/8, ",", func(i int) string {
					return fmt.Sprintf(`{"name":"t%d","template":{"spec":{"template":{"spec":%s}}}}`, i, container)
				}) + `]}}`
		},
		"jobset-chain.json": func(n int) string {
			return `{"apiVersion":"jobset.x-k8s.io/v1alpha2","kind":"JobSet","metadata":{"name":"s"},"spec":{"replicatedJobs":[` +
				list(n/8, ",", func(i int) string {
					depends := fmt.Sprintf(`"dependsOn":[{"name":"t%d","status":"Complete"}],`, i-1)
					if i == 0 {
						depends = ""
					}
					return fmt.Sprintf(`{"name":"t%d",%s"template":{"spec":{"template":{"spec":%s}}}}`, i, depends, container)
				}) + `]}}`
		},
		"volcano.json": func(n int) string {
			return `{"apiVersion":"batch.volcano.sh/v1alpha1","kind":"Job","metadata":{"name":"v"},"spec":{"plugins":{"svc":[]},"tasks":[` +
				list(n/8, ",", func(i int) string {
					return fmt.Sprintf(`{"name":"t%d","template":{"spec":%s}}`, i, container)
				}) + `]}}`
		},
		"flow.json": func(n int) string {
			return `{"apiVersion":"v1","kind":"List","items":[` + list(n, ",", func(i int) string {
				return fmt.Sprintf(`{"apiVersion":"flow.volcano.sh/v1alpha1","kind":"JobTemplate",`+
					`"metadata":{"name":"t%d"},"spec":{"tasks":[{"name":"a","template":{"spec":%s}}]}}`, i, container)
			}) + `,{"apiVersion":"flow.volcano.sh/v1alpha1","kind":"JobFlow","metadata":{"name":"f"},"spec":{"flows":[` +
				list(n, ",", func(i int) string {
					return fmt.Sprintf(`{"name":"t%d","dependsOn":{"targets":[%s]}}`, i, list(min(i, 1), "", func(int) string {
						return fmt.Sprintf(`"t%d"`, i-1)
					}))
				}) + `]}}]}`
		},
		"vars.json": func(n int) string {
			return `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p"},"spec":{"containers":[{"name":"c","image":"b:1",` +
				`"command":["echo","$(A1)"],"env":[` + list(n/8, ",", func(i int) string {
				return fmt.Sprintf(`{"name":"A%d","value":"x$(A%d)"}`, i, 0)
			}) + `]}]}}`
		},
		"options.sbatch": func(n int) string {
			return "#!/bin/bash\n" + strings.Repeat("#SBATCH --mem=4G\n", n/4) + strings.Repeat("echo x\n", n)
		},
		"programs.sbatch": func(n int) string {
			return "#!/bin/bash\n#SBATCH -n 2\n# SBATCH -t 5\n" + strings.Repeat("srun -n 1 x; squeue; module load y; echo $SLURM_NTASKS\n", n)
		},
		"array.sbatch": func(n int) string {
			return fmt.Sprintf("#!/bin/bash\n#SBATCH --array=1-%d\n#SBATCH --comment=%s\necho x\n", n, strings.Repeat("x", n))
		},
	}
}

func TestReadingTakesTimeLinearInSize(t *testing.T) {
	for name, shape := range shapes() {
		t.Run(name, func(t *testing.T) {
			lineartest.Reading(t, shape, func(text string) error {
				if _, err := read.JobContext(t.Context(), name, strings.NewReader(text)); !errors.Is(err, dag.ErrLimit) {
					return err
				}
				return nil
			})
		})
	}
}

// countdown is a context that ends after a number of checks.
type countdown struct {
	context.Context
	left *int
}

func (c countdown) Err() error {
	if *c.left--; *c.left < 0 {
		return context.Canceled
	}
	return nil
}

func TestReadingStopsWhenItsCallerGivesUp(t *testing.T) {
	for name, shape := range shapes() {
		text := shape(3000)
		if len(text) < 200_000 {
			continue // read in one step
		}
		t.Run(name, func(t *testing.T) {
			const many = 1 << 30
			left := many
			if _, err := read.JobContext(countdown{t.Context(), &left}, name, strings.NewReader(text)); err != nil {
				t.Fatal(err)
			}
			looks := many - left
			if looks < len(text)/(64<<10) {
				t.Errorf("%d bytes are read with %d looks at the context", len(text), looks)
			}
			for _, left := range []int{0, 1, looks / 4, looks / 2, looks - 2} {
				_, err := read.JobContext(countdown{t.Context(), &left}, name, strings.NewReader(text))
				var bad *dag.Error
				if !errors.Is(err, context.Canceled) || errors.As(err, &bad) {
					t.Errorf("%v", err)
				}
				if left < -10 {
					t.Errorf("it read on for %d steps", -left)
				}
			}
		})
	}
}
