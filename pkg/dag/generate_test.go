package dag

import (
	"fmt"
	"strings"
	"time"

	"pgregory.net/rapid"
)

// The generators of valid jobs for property tests.

// genName draws names, some of which YAML would take for something else.
func genName() *rapid.Generator[string] {
	return rapid.OneOf(
		rapid.StringMatching(`[A-Za-z0-9][A-Za-z0-9._-]{0,8}`),
		rapid.SampledFrom([]string{"true", "null", "no", "0x10", "1e3", "1.5", "2001-01-01", "a.b", "default", "y", strings.Repeat("x", maxNameBytes)}),
	)
}

// genText draws texts that are hard to write down.
func genText() *rapid.Generator[string] {
	part := rapid.OneOf(
		rapid.SampledFrom([]string{"\n", "\n\n", " ", "\t", "\r", "\r\n", ": ", " #", "- ", "'", "\"", "\\", "|", "%", "@", "`", "&a", "*a", "!t", "{", "}", "[", ",", "?", "~",
			"---", "...", "null", "true", "1", "echo", "é", "☃", "\u0085", "\u2028", "\ufeff", "\u0001", "\x7f", "$X", "<<"}),
		rapid.String(),
	)
	return rapid.Map(rapid.SliceOfN(part, 0, 12), func(parts []string) string {
		return strings.ReplaceAll(strings.Join(parts, ""), "\x00", "0")
	})
}

func genLine() *rapid.Generator[string] {
	return rapid.Map(genText(), func(s string) string {
		return "x" + strings.NewReplacer("\n", "", "\r", "", "://", "").Replace(s)
	})
}

func genWord() *rapid.Generator[string] { return rapid.StringMatching(`[a-z][a-z0-9-]{0,9}`) }

func genSize() *rapid.Generator[GiB] {
	return rapid.OneOf(
		rapid.Just(GiB(0)),
		rapid.Map(rapid.IntRange(1, 1<<40), func(n int) GiB { return GiB(n) / (1 << 30) }),
		rapid.Map(rapid.Float64Range(0, float64(MaxSize)/1e6), func(v float64) GiB { return GiB(v) }),
		rapid.Map(rapid.IntRange(1, 1000), func(n int) GiB { return GiB(n) }),
	)
}

func genDuration() *rapid.Generator[time.Duration] {
	return rapid.OneOf(
		rapid.Map(rapid.Int64Range(1, int64(MaxDuration)), func(n int64) time.Duration { return time.Duration(n) }),
		rapid.Map(rapid.Int64Range(1, 10000), func(n int64) time.Duration { return time.Duration(n) * time.Minute }),
	)
}

func genRange(most float64) *rapid.Generator[Range] {
	amount := rapid.OneOf(rapid.Float64Range(1e-9, most), rapid.Map(rapid.IntRange(1, 512), func(n int) float64 { return float64(n) }))
	return rapid.Custom(func(t *rapid.T) Range {
		a, b := amount.Draw(t, "a"), amount.Draw(t, "b")
		return rapid.SampledFrom([]Range{{}, {Min: a}, {Min: a, Max: a}, {Min: min(a, b), Max: max(a, b)}, {Max: a}}).Draw(t, "range")
	})
}

func maybe[T any](t *rapid.T, what string, g *rapid.Generator[T]) T {
	if rapid.Bool().Draw(t, what+"?") {
		return g.Draw(t, what)
	}
	var zero T
	return zero
}

func genResources() *rapid.Generator[Resources] {
	return rapid.Custom(func(t *rapid.T) Resources {
		r := Resources{
			CPUs: genRange(MaxCPUs).Draw(t, "cpus"), Memory: genRange(MaxMemoryGiB).Draw(t, "memory"),
			Region: maybe(t, "region", genWord()), Zone: maybe(t, "zone", genWord()), InstanceType: maybe(t, "type", genWord()),
			Arch: maybe(t, "arch", rapid.SampledFrom(arches())), Market: maybe(t, "market", rapid.SampledFrom(markets())),
			DiskGiB: genSize().Draw(t, "disk"), Image: maybe(t, "image", genLine()),
		}
		if rapid.Bool().Draw(t, "accelerated") {
			r.Accelerator = rapid.SampledFrom([]string{"V100", "A100-80GB", "tpu-v3-8", "T4"}).Draw(t, "accelerator")
			r.AcceleratorCount = rapid.SampledFrom([]float64{1, 8, 0.5, 0.25}).Draw(t, "count")
		}
		if rapid.Bool().Draw(t, "managed") {
			r.Service = rapid.SampledFrom(sortedKeys(services())).Draw(t, "service")
			r.Cloud = maybe(t, "itsCloud", rapid.Just(services()[r.Service]))
		} else {
			r.Cloud = maybe(t, "cloud", rapid.SampledFrom(clouds()))
		}
		return r
	})
}

func genTask(name string) *rapid.Generator[Task] {
	return rapid.Custom(func(t *rapid.T) Task {
		task := Task{
			Name: name, Setup: genText().Draw(t, "setup"), Nodes: rapid.IntRange(1, 5).Draw(t, "nodes"), Retries: rapid.IntRange(0, 3).Draw(t, "retries"),
			Workdir:   maybe(t, "workdir", genLine()),
			Resources: rapid.SliceOfN(genResources(), 1, 3).Draw(t, "resources"),
			Ordered:   rapid.Bool().Draw(t, "ordered"),
		}
		if rapid.Bool().Draw(t, "standIn") {
			task.Recorded = genDuration().Draw(t, "recorded")
		} else {
			task.Run = "x" + genText().Draw(t, "run")
		}
		env := rapid.MapOfN(rapid.StringMatching(`[A-Z_][A-Z0-9_]{0,5}`), genText(), 0, 4).Draw(t, "env")
		for _, variable := range sortedKeys(env) {
			if task.Env == nil {
				task.Env = map[string]string{}
			}
			task.Env[variable] = env[variable]
			if rapid.Bool().Draw(t, "secret") {
				task.Secrets = append(task.Secrets, variable)
			}
		}
		for range rapid.IntRange(0, 3).Draw(t, "inputs") {
			task.Inputs = append(task.Inputs, Input{URI: genLine().Draw(t, "uri"), Path: maybe(t, "path", genLine()), Size: genSize().Draw(t, "size"), Mount: rapid.Bool().Draw(t, "mount")})
		}
		for i := range rapid.IntRange(0, 4).Draw(t, "outputs") {
			task.Outputs = append(task.Outputs, Output{Name: fmt.Sprintf("o%d", i), Path: maybe(t, "kept", genLine()), URI: maybe(t, "to", rapid.Just("s3://b/x")), Size: genSize().Draw(t, "outSize")})
		}
		if rapid.Bool().Draw(t, "checkpointed") {
			task.Checkpoint = &Checkpoint{Every: maybe(t, "every", genDuration()), Path: genLine().Draw(t, "ckpt"), Size: genSize().Draw(t, "ckptSize")}
		}
		task.Time.Default = maybe(t, "time", genDuration())
		for _, key := range []string{"V100", "V100:4", "n1-standard-8", "p3.2xlarge"} {
			if rapid.Bool().Draw(t, key) {
				if task.Time.On == nil {
					task.Time.On = map[string]time.Duration{}
				}
				task.Time.On[key] = genDuration().Draw(t, "on")
			}
		}
		return task
	})
}

// genJob draws valid jobs with edges in order.
func genJob() *rapid.Generator[*Job] {
	return rapid.Custom(func(t *rapid.T) *Job {
		j := &Job{
			Name: genName().Draw(t, "job"), Description: genText().Draw(t, "description"),
			Objective: rapid.SampledFrom(objectives()).Draw(t, "objective"), Infeasible: rapid.SampledFrom(infeasibles()).Draw(t, "infeasible"),
			Deadline: maybe(t, "deadline", genDuration()), Budget: maybe(t, "budget", rapid.Map(rapid.Float64Range(0.01, 1e6), func(v float64) USD { return USD(v) })),
			Queue: maybe(t, "queue", genName()), Priority: rapid.IntRange(-10, 10).Draw(t, "priority"), Format: Native,
			Regions: rapid.SampledFrom([][]string{nil, {"aws"}, {"gcp:europe-west4", "azure"}}).Draw(t, "regions"),
		}
		for _, name := range rapid.SliceOfNDistinct(genName(), 1, 6, rapid.ID[string]).Draw(t, "names") {
			j.Tasks = append(j.Tasks, genTask(name).Draw(t, "task"))
		}
		rank := rapid.Permutation(indices(len(j.Tasks))).Draw(t, "rank")
		sizes := newOutputSizes(j)
		for to := range j.Tasks {
			for from := range j.Tasks {
				if rank[from] >= rank[to] || !rapid.Bool().Draw(t, "edge") {
					continue
				}
				e := Edge{From: from, To: to}
				switch rapid.IntRange(0, 2).Draw(t, "reads") {
				case 1:
					e.Outputs = []string{}
					for _, o := range j.Tasks[from].Outputs {
						if rapid.Bool().Draw(t, "read") {
							e.Outputs = append(e.Outputs, o.Name)
						}
					}
				case 2:
					e.Data = genSize().Draw(t, "data")
					j.Edges = append(j.Edges, e)
					continue
				}
				e.Data, _ = sizes.of(from, e.Outputs)
				j.Edges = append(j.Edges, e)
			}
		}
		return j
	})
}

func indices(n int) []int {
	list := make([]int, n)
	for i := range list {
		list[i] = i
	}
	return list
}
