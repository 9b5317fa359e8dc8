package dagtest

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"pgregory.net/rapid"

	"github.com/tradewind-broker/tradewind/pkg/dag"
	"github.com/tradewind-broker/tradewind/pkg/dag/internal/jobtext"
)

// The generators of valid jobs for property tests. genName also generates names that YAML reads as
// other types.

// addArray adds an array whose members are like a task.
func addArray(t *rapid.T, j *dag.Job, task dag.Task) {
	a := dag.Array{Name: task.Name, First: len(j.Tasks), MaxParallel: rapid.IntRange(0, 2).Draw(t, "maxParallel")}
	values := rapid.SliceOfN(genText(), 1, 3)
	switch rapid.IntRange(0, 2).Draw(t, "array") {
	case 0:
		a.Size, a.From = rapid.IntRange(1, 4).Draw(t, "size"), rapid.IntRange(0, 2).Draw(t, "from")
		if a.Size > 1 {
			a.Step = rapid.SampledFrom([]int{0, 3}).Draw(t, "step")
		}
	case 1:
		a.Values = values.Draw(t, "values")
		a.Size = len(a.Values)
	default:
		a.Matrix = []dag.Axis{
			{Name: "lr", Values: values.Draw(t, "lr")}, {Name: "Seed", Values: values.Draw(t, "seed")},
		}
		a.Size = len(a.Matrix[0].Values) * len(a.Matrix[1].Values)
	}
	a.AllowFailures = rapid.IntRange(0, a.Size).Draw(t, "allowFailures")
	task.Outputs = slices.Clone(task.Outputs)
	for i := range task.Outputs {
		task.Outputs[i].URI = rapid.SampledFrom([]string{"", "s3://bucket/{index}/out"}).Draw(t, "uri")
		if task.Outputs[i].URI != "" && a.OutputURIs == nil {
			a.OutputURIs = make([]string, len(task.Outputs))
		}
		if task.Outputs[i].URI != "" {
			a.OutputURIs[i] = task.Outputs[i].URI
		}
	}
	for k := range a.Size {
		member := task
		member.Name, member.Outputs = a.Member(k), slices.Clone(task.Outputs)
		j.Tasks = append(j.Tasks, member)
	}
	a.Expand(j.Tasks[a.First:])
	j.Arrays = append(j.Arrays, a)
}

// part is a task that is no member of an array, or an array.
type part struct {
	first int
	array *dag.Array
}

func partsOf(j *dag.Job) (parts []part) {
	for i := range j.Tasks {
		if a, member := j.ArrayOf(i); member == 0 {
			parts = append(parts, part{i, a})
		}
	}
	return parts
}

// addEdges adds edges between all tasks of two parts, or member to member.
func addEdges(t *rapid.T, j *dag.Job, from, to part, e dag.Edge) {
	size := func(p part) int {
		if p.array == nil {
			return 1
		}
		return p.array.Size
	}
	if from.array != nil {
		e.Each = to.array != nil && from.array.SameIndexes(to.array) && rapid.Bool().Draw(t, "each")
		e.All = !e.Each
	}
	for k := range size(to) {
		for m := range size(from) {
			if e.Each && k != m {
				continue
			}
			e.From, e.To = from.first+m, to.first+k
			j.Edges = append(j.Edges, e)
		}
	}
}

func genName() *rapid.Generator[string] {
	return rapid.OneOf(
		rapid.StringMatching(`[A-Za-z0-9][A-Za-z0-9._-]{0,8}`),
		rapid.SampledFrom(
			[]string{
				"true",
				"null",
				"no",
				"0x10",
				"1e3",
				"1.5",
				"2001-01-01",
				"a.b",
				"default",
				"y",
				strings.Repeat("x", 128),
			},
		),
	)
}

// genText generates texts that are hard to quote.
func genText() *rapid.Generator[string] {
	part := rapid.OneOf(
		rapid.SampledFrom(
			[]string{
				"\n",
				"\n\n",
				" ",
				"\t",
				"\r",
				"\r\n",
				": ",
				" #",
				"- ",
				"'",
				"\"",
				"\\",
				"|",
				"%",
				"@",
				"`",
				"&a",
				"*a",
				"!t",
				"{",
				"}",
				"[",
				",",
				"?",
				"~",
				"---",
				"...",
				"null",
				"true",
				"1",
				"echo",
				"é",
				"☃",
				"\u0085",
				"\u2028",
				"\ufeff",
				"\u0001",
				"\x7f",
				"$X",
				"<<",
			},
		),
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

// Size generates sizes in all units.
func Size() *rapid.Generator[dag.GiB] {
	return rapid.OneOf(
		rapid.Just(dag.GiB(0)),
		rapid.Map(rapid.IntRange(1, 1<<40), func(n int) dag.GiB { return dag.GiB(n) / (1 << 30) }),
		rapid.Map(rapid.Float64Range(0, float64(dag.MaxSize)/1e6), func(v float64) dag.GiB { return dag.GiB(v) }),
		rapid.Map(rapid.IntRange(1, 1000), func(n int) dag.GiB { return dag.GiB(n) }),
	)
}

// Duration generates times up to the limit.
func Duration() *rapid.Generator[time.Duration] {
	return rapid.OneOf(
		rapid.Map(
			rapid.Int64Range(1, int64(dag.MaxDuration)),
			func(n int64) time.Duration { return time.Duration(n) },
		),
		rapid.Map(rapid.Int64Range(1, 10000), func(n int64) time.Duration { return time.Duration(n) * time.Minute }),
	)
}

// Range generates amounts with all kinds of bounds.
func Range(most float64) *rapid.Generator[dag.Range] {
	amount := rapid.OneOf(
		rapid.Float64Range(1e-9, most),
		rapid.Map(rapid.IntRange(1, 512), func(n int) float64 { return float64(n) }),
	)
	return rapid.Custom(func(t *rapid.T) dag.Range {
		a, b := amount.Draw(t, "a"), amount.Draw(t, "b")
		return rapid.SampledFrom([]dag.Range{{}, {Min: a}, {Min: a, Max: a}, {Min: min(a, b), Max: max(a, b)},
			{Max: a}}).
			Draw(t, "range")
	})
}

func maybe[T any](t *rapid.T, what string, g *rapid.Generator[T]) T {
	if rapid.Bool().Draw(t, what+"?") {
		return g.Draw(t, what)
	}
	var zero T
	return zero
}

func genResources() *rapid.Generator[dag.Resources] {
	return rapid.Custom(func(t *rapid.T) dag.Resources {
		r := dag.Resources{
			CPUs: Range(jobtext.MaxCPUs).Draw(t, "cpus"), Memory: Range(jobtext.MaxMemoryGiB).Draw(t, "memory"),
			Region: maybe(
				t,
				"region",
				genWord(),
			), Zone: maybe(t, "zone", genWord()), InstanceType: maybe(t, "type", genWord()),
			Family: maybe(t, "family", genWord()), CPU: maybe(t, "cpu", rapid.SampledFrom([]string{"genoa", "Turin"})),
			Arch: maybe(
				t,
				"arch",
				rapid.SampledFrom([]string{"amd64", "arm64", dag.AnyArch}),
			), Market: maybe(t, "market",
				rapid.SampledFrom([]dag.Market{dag.MarketAuto, dag.MarketSpot, dag.MarketOnDemand})),
			DiskGiB: Size().Draw(t, "disk"), Image: maybe(t, "image", genLine()),
		}
		r.Burstable = rapid.Bool().Draw(t, "burstable")
		if rapid.Bool().Draw(t, "limited") {
			r.MaxUSDPerHour = rapid.SampledFrom([]dag.USD{0.001, 1, 98.32, dag.MaxBudget}).Draw(t, "maxUSDPerHour")
		}
		if rapid.Bool().Draw(t, "accelerated") {
			r.Accelerator = rapid.SampledFrom([]string{"V100", "A100-80GB", "tpu-v3-8", "T4"}).Draw(t, "accelerator")
			r.AcceleratorCount = rapid.SampledFrom([]float64{1, 8, 0.5, 0.25}).Draw(t, "count")
		}
		r.Cloud = maybe(t, "cloud", rapid.SampledFrom([]string{"aws", "gcp", "azure", "local", "my-own"}))
		return r
	})
}

// genLabels generates at least least labels.
func genLabels(least int) *rapid.Generator[map[string]string] {
	label := rapid.OneOf(rapid.SampledFrom([]string{"true", "1", "a/b.c", "no", "app"}),
		rapid.StringMatching(`[A-Za-z0-9]([A-Za-z0-9._/-]{0,9}[A-Za-z0-9])?`))
	return rapid.Map(rapid.MapOfN(label, label, least, 3), func(m map[string]string) map[string]string {
		if len(m) == 0 {
			return nil
		}
		return m
	})
}

// addSpark makes a task a Spark task, with its files in its working directory.
func addSpark(t *rapid.T, task *dag.Task) {
	task.Run, task.Workdir, task.Repository = "", "code", nil
	task.Spark = &dag.SparkApp{
		Main: "jobs/etl.py", Version: maybe(t, "version", rapid.SampledFrom([]string{"3.5", "3.5.1", "3+"})),
		Args:    rapid.SliceOfN(genText(), 0, 3).Draw(t, "args"),
		PyFiles: rapid.SampledFrom([][]string{nil, {"a.py", "lib/b.zip"}}).Draw(t, "pyFiles"),
	}
	if rapid.Bool().Draw(t, "jar") {
		task.Spark.Main, task.Spark.Class, task.Spark.PyFiles = "app.jar", "org.example.Main", nil
		task.Spark.Jars, task.Spark.Packages = []string{"lib/a.jar"}, []string{"a.b:c_2.12:1.0"}
		task.Spark.Conf = map[string]string{"spark.x": maybe(t, "conf", genLine()), "spark.a.b": "2"}
	}
	if len(task.Spark.Args) == 0 {
		task.Spark.Args = nil
	}
	task.Executors = rapid.SampledFrom([]dag.Range{{}, {Min: 2, Max: 2}, {Min: 1, Max: 10}}).Draw(t, "executors")
	task.Nodes = max(int(task.Executors.Min), 1)
	known := task.Spark.Version != "3.5.1" // no service has it
	if known && task.Setup == "" && !task.Login && !task.Ordered && task.Checkpoint == nil && task.Secrets == nil &&
		!task.Mounts() {
		task.Services = []dag.Resources{{Service: "emr", Release: "7.5+", Region: "eu-west-1"}, {Service: "dataproc"}}
	}
}

func genTask(name string) *rapid.Generator[dag.Task] {
	return rapid.Custom(func(t *rapid.T) dag.Task {
		task := dag.Task{
			Name: name, Setup: genText().Draw(t, "setup"), Nodes: rapid.IntRange(1, 5).Draw(t, "nodes"),
			Retries: rapid.IntRange(0, 3).Draw(t, "retries"), Workdir: maybe(t, "workdir", genLine()),
			Resources: rapid.SliceOfN(genResources(), 1, 3).Draw(t, "resources"),
			Ordered:   rapid.Bool().Draw(t, "ordered"), Login: rapid.Bool().Draw(t, "login"),
		}
		if rapid.Bool().Draw(t, "standIn") {
			task.Recorded = Duration().Draw(t, "recorded")
		} else {
			task.Run, task.Timeout = "x"+genText().Draw(t, "run"), Duration().Draw(t, "timeout")
		}
		task.Labels = genLabels(0).Draw(t, "labels")
		task.Placement = rapid.SampledFrom([][]dag.Placement{nil, {{Spread: dag.LevelRack, Max: 2},
			{Pack: dag.LevelZone}},
			{{Apart: map[string]string{"app": "db"}}}, {{Apart: genLabels(1).Draw(t, "apart"), By: dag.LevelZone}},
		}).Draw(t, "placement")
		env := rapid.MapOfN(rapid.StringMatching(`[A-Z_][A-Z0-9_]{0,5}`), genText(), 0, 4).Draw(t, "env")
		for _, variable := range slices.Sorted(maps.Keys(env)) {
			if rapid.Bool().Draw(t, "secret") {
				task.Secrets = append(task.Secrets, variable)
				continue
			}
			if task.Env == nil {
				task.Env = map[string]string{}
			}
			task.Env[variable] = env[variable]
		}
		for i := range rapid.IntRange(0, 3).Draw(t, "inputs") {
			in := dag.Input{
				URI:  genLine().Draw(t, "uri"),
				Path: fmt.Sprint("in", i, maybe(t, "path", genLine())),
				Size: Size().Draw(t, "size"),
			}
			if rapid.Bool().Draw(t, "bucket") {
				in.URI, in.Path = fmt.Sprint("s3://bucket/", i), fmt.Sprint("in", i)
				in.Mount = rapid.SampledFrom([]dag.Mount{
					dag.Copied, dag.MountRead, dag.MountWrite, dag.MountCached,
				}).Draw(t, "mount")
				in.Bucket = rapid.SampledFrom([]dag.Bucket{
					dag.BucketExists, dag.BucketCreate, dag.BucketTemporary,
				}).Draw(t, "whose")
				in.Source = maybe(t, "source", rapid.Just("code"))
			}
			task.Inputs = append(task.Inputs, in)
		}
		for i := range rapid.IntRange(0, 4).Draw(t, "outputs") {
			task.Outputs = append(
				task.Outputs,
				dag.Output{
					Name: fmt.Sprintf("o%d", i),
					Path: maybe(t, "kept", genLine()),
					URI:  maybe(t, "to", rapid.Just("s3://b/x")),
					Size: Size().Draw(t, "outSize"),
				},
			)
		}
		if task.Workdir == "" && rapid.Bool().Draw(t, "repository") {
			task.Repository = &dag.Repository{
				URL: "https://" + rapid.StringMatching(`[a-z/.]{1,20}`).Draw(t, "url"),
				Ref: maybe(t, "ref", rapid.StringMatching(`[a-z0-9][a-z0-9/-]{0,10}`)),
			}
		}
		if rapid.Bool().Draw(t, "checkpointed") {
			task.Checkpoint = &dag.Checkpoint{
				Every: maybe(t, "every", Duration()),
				Path:  genLine().Draw(t, "ckpt"),
				Size:  Size().Draw(t, "ckptSize"),
			}
		}
		task.Time.Default = maybe(t, "time", Duration())
		for _, key := range []string{"V100", "V100:4", "n1-standard-8", "p3.2xlarge"} {
			if rapid.Bool().Draw(t, key) {
				if task.Time.On == nil {
					task.Time.On = map[string]time.Duration{}
				}
				task.Time.On[key] = Duration().Draw(t, "on")
			}
		}
		if task.Time.Default > 0 && rapid.Bool().Draw(t, "counted") {
			task.Time.FLOPs = rapid.Float64Range(1, 1e30).Draw(t, "flops")
			task.Time.Efficiency = maybe(t, "efficiency", rapid.Float64Range(1e-9, 1))
		}
		task.Time.Only = task.Time.Default == 0 && len(task.Time.On) > 0 && rapid.Bool().Draw(t, "only")
		if task.Run != "" && rapid.IntRange(0, 3).Draw(t, "spark") == 0 {
			addSpark(t, &task)
		} else {
			scaleTime(t, &task)
		}
		return task
	})
}

// scaleTime may give a task a number of machines to choose, and times by that number.
func scaleTime(t *rapid.T, task *dag.Task) {
	if task.Run != "" && task.Nodes < 5 && rapid.Bool().Draw(t, "range") {
		task.MaxNodes = 5 // the placement rules of Job allow as many
		task.Placement = nil
	}
	switch rapid.IntRange(0, 3).Draw(t, "scaling") {
	case 0:
		serial := rapid.Float64Range(0, 1).Draw(t, "serial")
		task.Time.Serial = &serial
	case 1:
		task.Time = dag.TimeEstimate{ByNodes: map[int]time.Duration{task.Nodes: Duration().Draw(t, "byNodes")}}
	}
}

// Job generates valid jobs with sorted edges.
func Job() *rapid.Generator[*dag.Job] {
	return rapid.Custom(func(t *rapid.T) *dag.Job {
		j := &dag.Job{
			Name: genName().Draw(t, "job"), Description: genText().Draw(t, "description"),
			Objective: rapid.SampledFrom([]dag.Objective{dag.MinimizeCost, dag.MinimizeMakespan}).
				Draw(t, "objective"),
			Infeasible: rapid.SampledFrom([]dag.Infeasible{dag.Retry, dag.Fail, dag.Wait}).Draw(t, "infeasible"),
			Deadline: maybe(
				t,
				"deadline",
				Duration(),
			), Budget: maybe(t, "budget", rapid.Map(rapid.Float64Range(0.01, 1e6), func(v float64) dag.USD {
				return dag.USD(v)
			})),
			Queue: maybe(
				t,
				"queue",
				genName(),
			), Priority: rapid.IntRange(-10, 10).Draw(t, "priority"), Format: dag.Native,
			Regions: rapid.SampledFrom([][]string{nil, {"aws"}, {"gcp:europe-west4", "azure"}}).Draw(t, "regions"),
			Notify: rapid.SampledFrom([]dag.Notify{{}, {Webhook: "https://example.org/a?b=c"},
				{Command: "cat\ntrue", Email: []string{"me@example.org", "a.b+c@example.org"}}}).Draw(t, "notify"),
			OnFailure: rapid.SampledFrom([]dag.OnFailure{"", dag.StopJob, dag.ContinueJob}).Draw(t, "onFailure"),
		}
		if rapid.IntRange(0, 3).Draw(t, "weighted") == 0 {
			weight := rapid.Float64Range(1e-6, 1e9)
			j.Objective = dag.MinimizeWeighted
			j.Weights = &dag.Weights{Cost: weight.Draw(t, "cost"), Time: weight.Draw(t, "time")}
		}
		for _, name := range rapid.SliceOfNDistinct(genName(), 1, 6, rapid.ID[string]).Draw(t, "names") {
			task := genTask(name).Draw(t, "task")
			if len(name) > 100 || rapid.IntRange(0, 3).Draw(t, "is an array") > 0 {
				j.Tasks = append(j.Tasks, task)
				continue
			}
			addArray(t, j, task)
		}
		if n := len(j.Tasks); n > 1 && rapid.Bool().Draw(t, "placed") {
			j.Placement = []dag.Placement{{Spread: dag.LevelZone, Max: 5, Of: []string{j.Tasks[0].Name,
				j.Tasks[n-1].Name}},
				{Pack: dag.LevelRegion, Of: []string{j.Tasks[n-2].Name, j.Tasks[n-1].Name}}}
		}
		parts := partsOf(j)
		rank := rapid.Permutation(indices(len(parts))).Draw(t, "rank")
		sizes := dag.NewOutputSizes(j)
		for to := range parts {
			for from := range parts {
				if rank[from] >= rank[to] || !rapid.Bool().Draw(t, "edge") {
					continue
				}
				first := parts[from].first
				e := dag.Edge{From: first}
				switch rapid.IntRange(0, 2).Draw(t, "reads") {
				case 1:
					e.Outputs = []string{}
					for _, o := range j.Tasks[first].Outputs {
						if rapid.Bool().Draw(t, "read") {
							e.Outputs = append(e.Outputs, o.Name)
						}
					}
					e.Data, _ = sizes.Total(first, e.Outputs)
				case 2:
					e.Data = Size().Draw(t, "data")
				default:
					e.Data, _ = sizes.Total(first, e.Outputs)
				}
				addEdges(t, j, parts[from], parts[to], e)
			}
		}
		j.MergeEdges()
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
