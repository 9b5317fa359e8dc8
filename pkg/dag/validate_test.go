package dag

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/pkg/dag/internal/jobtext"
)

func validJob() *Job {
	j := tasksNamed("a", "b")
	j.Tasks[0].Outputs = []Output{{Name: "m", Size: 2}}
	j.Edges = []Edge{{From: 0, To: 1, Data: 2}}
	return j
}

func TestValidateErrors(t *testing.T) {
	if err := validJob().Validate(); err != nil {
		t.Fatal(err)
	}
	a := func(change func(*Task)) func(*Job) { return func(j *Job) { change(&j.Tasks[0]) } }
	res := func(change func(*Resources)) func(*Job) {
		return func(j *Job) { change(&j.Tasks[0].Resources[0]) }
	}
	spark := func(change func(*Task)) func(*Job) {
		return a(func(t *Task) {
			t.Run, t.Spark = "", &SparkApp{Main: "etl.py"}
			change(t)
		})
	}
	nan := math.NaN()
	for _, c := range []struct {
		want   string // start of the message
		change func(*Job)
	}{
		{`name: "" is not a name`, func(j *Job) { j.Name = "" }},
		{`description: has 5000 bytes`, func(j *Job) { j.Description = strings.Repeat("x", 5000) }},
		{`objective: unknown objective ""`, func(j *Job) { j.Objective = "" }},
		{`infeasible: unknown choice "x"`, func(j *Job) { j.Infeasible = "x" }},
		{`deadline: a time cannot be negative`, func(j *Job) { j.Deadline = -1 }},
		{`deadline: is more than 87600h`, func(j *Job) { j.Deadline = MaxDuration + 1 }},
		{`budget: a budget must be more than 0`, func(j *Job) { j.Budget = USD(nan) }},
		{`budget: is more than`, func(j *Job) { j.Budget = USD(math.Inf(1)) }},
		{`queue: "a b" is not a name`, func(j *Job) { j.Queue = "a b" }},
		{`priority: -1000001 is out of bounds`, func(j *Job) { j.Priority = -MaxPriority - 1 }},
		{`regions[1]: is empty`, func(j *Job) { j.Regions = []string{"aws", ""} }},
		{`regions[0]: "aws:" is not a place`, func(j *Job) { j.Regions = []string{"aws:"} }},
		{`tasks: is empty`, func(j *Job) { j.Tasks = nil }},
		{`tasks: 100001 tasks, more than 100000`, func(j *Job) { j.Tasks = make([]Task, jobtext.MaxTasks+1) }},
		{`tasks[""]: "" is not a name`, a(func(t *Task) { t.Name = "" })},
		{`tasks.b: is the name of two tasks, the 1. and the 2.`, a(func(t *Task) { t.Name = "b" })},
		{`tasks.a: has nothing to run`, a(func(t *Task) { t.Run = "" })},
		{`tasks.a.run: contains a NUL byte`, a(func(t *Task) { t.Run = "a\x00" })},
		{`tasks.a.setup: is not valid UTF-8`, a(func(t *Task) { t.Setup = "\xff" })},
		{`tasks.a.run: the script has 262145 bytes`, a(func(t *Task) { t.Run = strings.Repeat("x", MaxScriptBytes+1) })},
		{`tasks.a: setup and run have 262145 bytes`, a(func(t *Task) { t.Run, t.Setup = strings.Repeat("x", MaxScriptBytes), "x" })},
		{`tasks.a.recorded: cannot be combined with run`, a(func(t *Task) { t.Recorded = 1 })},
		{`tasks.a.env["A=B"]: "A=B" is not the name`, a(func(t *Task) { t.Env = map[string]string{"A=B": ""} })},
		{`tasks.a.env.A: contains a NUL byte`, a(func(t *Task) { t.Env = map[string]string{"A": "\x00"} })},
		{`tasks.a.env: has 65537 bytes`, a(func(t *Task) { t.Env = map[string]string{"A": strings.Repeat("x", MaxEnvBytes)} })},
		{`tasks.a.secrets.A: is in both env and secrets`, a(func(t *Task) { t.Env, t.Secrets = map[string]string{"A": ""}, []string{"A"} })},
		{`tasks.a.secrets.A: is not in order`, a(func(t *Task) { t.Secrets = []string{"B", "A"} })},
		{`tasks.a.workdir: must be one line`, a(func(t *Task) { t.Workdir = "a\nb" })},
		{`tasks.a.nodes: 0 is out of bounds`, a(func(t *Task) { t.Nodes = 0 })},
		{`tasks.a.retries: -1 is out of bounds`, a(func(t *Task) { t.Retries = -1 })},
		{`tasks.a.resources: 0 alternatives`, a(func(t *Task) { t.Resources = nil })},
		{`tasks.a.resources[1].cpus: cannot be negative`, a(func(t *Task) { t.Resources = []Resources{{}, {CPUs: Range{Min: -1}}} })},
		{`tasks.a.resources.cpus: is not a number`, res(func(r *Resources) { r.CPUs.Min = nan })},
		{`tasks.a.resources.memory: the minimum, 14.9, is more than the maximum, 1`,
			res(func(r *Resources) { r.Memory = Range{16e9 / (1 << 30), 1} })},
		{`tasks.a.resources.memory: the minimum, 14.901, is more than the maximum, 14.9`,
			res(func(r *Resources) { r.Memory = Range{14.901, 14.9} })},
		{`tasks.a.resources.memory: the minimum, 2, is more than the maximum, 1`, res(func(r *Resources) { r.Memory = Range{2, 1} })},
		{`tasks.a.resources.memory: is more than any machine has`, res(func(r *Resources) { r.Memory.Min = math.Inf(1) })},
		{`tasks.a.resources.accelerators: a count without`, res(func(r *Resources) { r.AcceleratorCount = 1 })},
		{`tasks.a.resources.accelerators: 0 is not a valid number of accelerators`, res(func(r *Resources) { r.Accelerator = "V100" })},
		{`tasks.a.resources.accelerators: NaN is not a valid number of accelerators`, res(func(r *Resources) { r.Accelerator, r.AcceleratorCount = "V100", nan })},
		{`tasks.a.resources.accelerators: "V100:1" is not the name`, res(func(r *Resources) { r.Accelerator, r.AcceleratorCount = "V100:1", 1 })},
		{`tasks.a.resources.cloud: unknown cloud "azur"`, res(func(r *Resources) { r.Cloud = "azur" })},
		{`tasks.a.resources.zone: "a*" has an invalid character`, res(func(r *Resources) { r.Zone = "a*" })},
		{`tasks.a.resources.arch: unknown architecture "x86"`, res(func(r *Resources) { r.Arch = "x86" })},
		{`tasks.a.resources.market: unknown market "reserved"`, res(func(r *Resources) { r.Market = "reserved" })},
		{`tasks.a.resources.service: is not a machine`, res(func(r *Resources) { r.Service = "emr" })},
		{`tasks.a.services[0].service: "emr" runs only Spark`, a(func(t *Task) { t.Services = []Resources{{Service: "emr"}} })},
		{`tasks.a.executors: only a Spark task`, a(func(t *Task) { t.Executors = Range{Min: 2, Max: 2} })},
		{`tasks.a.services[1].service: unknown service "x"`, spark(func(t *Task) { t.Services = []Resources{{Service: "emr"}, {Service: "x"}} })},
		{`tasks.a.nodes: a Spark task has executors`, spark(func(t *Task) { t.Nodes = 2 })},
		{`tasks.a.executors: from 3 to 2 executors`, spark(func(t *Task) { t.Nodes, t.Executors = 3, Range{Min: 3, Max: 2} })},
		{`tasks.a.spark.main: a jar needs its main class`, spark(func(t *Task) { t.Spark.Main = "x.jar" })},
		{`tasks.a.resources.image: executors on several machines`, spark(func(t *Task) {
			t.Nodes, t.Executors, t.Resources = 2, Range{Min: 2, Max: 4}, []Resources{{Image: "docker:apache/spark:3.5.3"}}
		})},
		{`tasks.a.resources.disk: a size cannot be negative`, res(func(r *Resources) { r.DiskGiB = -1 })},
		{`tasks.a.resources.image: has 5000 bytes`, res(func(r *Resources) { r.Image = strings.Repeat("x", 5000) })},
		{`tasks.a.inputs[0].uri: is empty`, a(func(t *Task) { t.Inputs = []Input{{}} })},
		{`tasks.a.inputs[0].path: "../x" leaves`, a(func(t *Task) { t.Inputs = []Input{{URI: "x", Path: "../x"}} })},
		{`tasks.a.inputs[0].size: a size cannot be negative`, a(func(t *Task) { t.Inputs = []Input{{URI: "x", Size: GiB(nan)}} })},
		{`tasks.a: 10001 inputs or outputs`, a(func(t *Task) { t.Inputs = make([]Input, jobtext.MaxFiles+1) })},
		{`tasks.a.inputs[1]: has the same path as "s3://a/x"`, a(func(t *Task) { t.Inputs = []Input{{URI: "s3://a/x"}, {URI: "gs://b/c/x/"}} })},
		{`tasks.a.outputs[0].name: "" is not a name`, a(func(t *Task) { t.Outputs[0].Name = "" })},
		{`tasks.a.outputs[0].path: "~/x" is not relative`, a(func(t *Task) { t.Outputs[0].Path = "~/x" })},
		{`tasks.a.outputs[0].uri: data cannot be read from`, a(func(t *Task) { t.Outputs[0].URI = "x://y" })},
		{`tasks.a.outputs[0].size: a size of more than 1EiB`, a(func(t *Task) { t.Outputs[0].Size = 2 * MaxSize })},
		{`tasks.a.outputs[1].name: there are two outputs "m"`, a(func(t *Task) { t.Outputs = append(t.Outputs, t.Outputs[0]) })},
		{`tasks.a.checkpoint.path: is empty`, a(func(t *Task) { t.Checkpoint = &Checkpoint{} })},
		{`tasks.a.checkpoint.every: a time cannot be negative`, a(func(t *Task) { t.Checkpoint = &Checkpoint{Path: "x", Every: -1} })},
		{`tasks.a.checkpoint.size: a size cannot be negative`, a(func(t *Task) { t.Checkpoint = &Checkpoint{Path: "x", Size: -1} })},
		{`tasks.a.recorded: a time cannot be negative`, a(func(t *Task) { t.Run, t.Recorded = "", -1 })},
		{`tasks.a.time: a time cannot be negative`, a(func(t *Task) { t.Time.Default = -1 })},
		{`tasks.a.time.v100: "v100" is not the canonical name`, a(func(t *Task) { t.Time.On = map[string]time.Duration{"v100": 1} })},
		{`tasks.a.time.V100: must be more than 0`, a(func(t *Task) { t.Time.On = map[string]time.Duration{"V100": 0} })},
		{`tasks.a.time.default: "default" is not`, a(func(t *Task) { t.Time.On = map[string]time.Duration{"default": 1} })},
		{`edges[0]: from task 0 to task 2 of 2`, func(j *Job) { j.Edges[0].To = 2 }},
		{`edges[0]: from task -1 to task 1 of 2`, func(j *Job) { j.Edges[0].From = -1 }},
		{`tasks.b.after: a size cannot be negative`, func(j *Job) { j.Edges[0].Data = -1 }},
		{`tasks.b.after: waits twice for task "a"`, func(j *Job) { j.Edges = append(j.Edges, j.Edges[0]) }},
		{`tasks.b.after: task "a" has no output "n"`, func(j *Job) { j.Edges[0].Outputs = []string{"n"} }},
		{`tasks.b.after: names an output of task "a" twice`, func(j *Job) { j.Edges[0].Outputs = []string{"m", "m"} }},
		{`tasks.a.after: task "a" waits for itself`, func(j *Job) { j.Edges[0].To = 0 }},
		{`tasks.a.after: tasks wait for each other: a → b → a`, func(j *Job) { j.Edges = append(j.Edges, Edge{From: 1, To: 0}) }},
	} {
		j := validJob()
		c.change(j)
		err := j.Validate()
		var e *Error
		if err == nil || !strings.HasPrefix(err.Error(), c.want) || !errors.As(err, &e) {
			t.Errorf("%v\nwant\n%s", err, c.want)
		}
	}
}

func TestValidateRejectsTooManyEdges(t *testing.T) {
	j := validJob()
	j.Edges = make([]Edge, jobtext.MaxEdges+1)
	if err := j.Validate(); !errors.Is(err, ErrLimit) {
		t.Error(err)
	}
}
