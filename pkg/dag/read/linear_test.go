package read_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/pkg/dag"
	"github.com/tradewind-broker/tradewind/pkg/dag/read"
)

// list returns n elements in a row. element returns each.
func list(n int, separator string, element func(i int) string) string {
	all := make([]string, n)
	for i := range all {
		all[i] = element(i)
	}
	return strings.Join(all, separator)
}

const container = `{"containers":[{"name":"c","image":"busybox:1","command":["true"]}],"restartPolicy":"Never"}`

// shapes are files of n elements, of each format. Those in JSON have one line.
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
		"array.sbatch": func(n int) string {
			return fmt.Sprintf("#!/bin/bash\n#SBATCH --array=1-%d\n#SBATCH --comment=%s\necho x\n", n, strings.Repeat("x", n))
		},
	}
}

func readShape(ctx context.Context, name, text string) (time.Duration, error) {
	begin := time.Now()
	_, err := read.JobContext(ctx, name, strings.NewReader(text))
	return time.Since(begin), err
}

func TestReadingTakesTimeLinearInSize(t *testing.T) {
	const small, times = 500, 16
	for name, shape := range shapes() {
		t.Run(name, func(t *testing.T) {
			texts := []string{shape(small), shape(small * times)}
			// The fastest of several attempts, because other programs may slow down each. A reader whose time is the
			// square of the size takes 16 times as long for each byte.
			best := []time.Duration{time.Hour, time.Hour}
			ratio := 0.0
			for range 8 {
				for i, text := range texts {
					took, err := readShape(t.Context(), name, text)
					if best[i] = min(best[i], took); err != nil && !errors.Is(err, dag.ErrLimit) {
						t.Fatal(err)
					}
				}
				perByte := func(i int) float64 { return float64(best[i]) / float64(len(texts[i])) }
				if ratio = perByte(1) / perByte(0); ratio < times/2. {
					return
				}
			}
			t.Errorf("a file %d times as long takes %.1f times as long for each byte: %v and %v", times, ratio, best[0], best[1])
		})
	}
}

// A countdown is a context that ends when it has been looked at a number of times.
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
			if _, err := readShape(countdown{t.Context(), &left}, name, text); err != nil {
				t.Fatal(err)
			}
			looks := many - left
			if looks < len(text)/(64<<10) {
				t.Errorf("%d bytes are read with %d looks at the context", len(text), looks)
			}
			for _, left := range []int{0, 1, looks / 4, looks / 2, looks - 2} {
				_, err := readShape(countdown{t.Context(), &left}, name, text)
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
