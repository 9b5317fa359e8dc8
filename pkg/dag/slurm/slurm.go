// Package slurm reads Slurm batch scripts: shell scripts whose first comments, #SBATCH, have the requirements
// (https://slurm.schedmd.com/sbatch.html).
//
// A script becomes one task, or one for each index of its array. A script with several nodes becomes a gang: it runs
// on the first node, as under Slurm, and starts programs on all nodes with srun or mpirun. Options that concern
// Slurm's own cluster (account, partition, mail) get a warning, or are an error if the work would have another result
// without them.
package slurm

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tradewind-broker/tradewind/internal/base/fault"
	"github.com/tradewind-broker/tradewind/pkg/dag"
	"github.com/tradewind-broker/tradewind/pkg/dag/internal/jobtext"
)

const mark = "#SBATCH"

// IsScript reports whether the text is a script with #SBATCH before its first command.
func IsScript(data []byte) bool {
	for line := range bytes.Lines(data) {
		line = bytes.TrimSpace(line)
		if bytes.HasPrefix(line, []byte(mark)) {
			return true
		}
		if len(line) > 0 && line[0] != '#' {
			return false
		}
	}
	return false
}

// requirements has the requirements in the comments of a script.
type requirements struct {
	name                  string
	time                  time.Duration
	nodes, most           int     // minimum and maximum
	tasks, perNode        int     // processes, in total and per node
	cpus                  int     // per process
	minCPUs               int     // of a node
	disk                  dag.GiB // for temporary files, of a node
	memory, perCPU        dag.GiB
	gpus, gpusNode, gpusA int // in total, per node, per process
	tasksGPU, cpusGPU     int // per GPU
	memoryGPU             dag.GiB
	array                 []int
	arrayAt               fault.Position
	parallel              int // of the array
	step                  int // the step of its last range
	env                   map[string]string
	requeue               bool
	image                 string
	signal                warning
	signalAt              fault.Position
}

type reader struct {
	job          *dag.Job
	pos          fault.Position    // of the option that is being read
	gpuAt        fault.Position    // of the option that requests GPUs
	boxAt        fault.Position    // of the option that names an image
	kinds        map[string]string // by option: the type of GPU that it names
	name         string            // of the option that is being read
	requirements requirements
	after        []dependency
	warned       map[string]bool // options that have a warning
}

// Parse reads a batch script. data is the unpacked text.
func Parse(name string, data []byte) (*dag.Job, error) {
	r := newReader(name)
	err := r.read(data)
	for _, d := range r.after {
		switch {
		case err != nil:
		case d.kind == "singleton":
			r.job.Warn(d.pos, "--dependency", "singleton applies to scripts that are converted together: "+
				"tradewind convert a.sbatch b.sbatch")
		default:
			err = fault.At(d.pos, fault.Within("--dependency", fault.New("names a job that is not in the file",
				"convert its script together with this one, and use its -J: tradewind convert a.sbatch b.sbatch; "+
					"or write tasks in one file, with after: [NAME]")))
		}
	}
	return dag.CheckJob(name, r.job, err)
}

func newReader(name string) *reader {
	r := &reader{warned: map[string]bool{}}
	r.job, _ = dag.NewJob(name, dag.Slurm)
	return r
}

func (r *reader) read(data []byte) error {
	if len(data) > jobtext.MaxScriptBytes {
		return jobtext.CheckScript(string(data))
	}
	if i := bytes.Index(data, []byte("\r\n")); i >= 0 {
		return fault.At(fault.PositionIn(data, i), fault.New("has DOS line ends, with which a shell fails, as in Slurm",
			"dos2unix FILE"))
	}
	line := int32(0)
	var all fault.Faults
	for text := range strings.Lines(string(data)) {
		line++
		text = strings.TrimRight(text, "\r\n")
		trimmed := strings.TrimSpace(text)
		r.pos = fault.Position{Line: line, Column: 1}
		switch {
		case strings.HasPrefix(text, mark):
			words, err := split(strings.TrimSpace(text)[len(mark):])
			if len(words) > 0 && (words[0] == "hetjob" || words[0] == "packjob") {
				err = fault.New("heterogeneous jobs are not supported: all nodes of a job are alike",
					"write a gang of roles, one for each part, with its own resources")
			}
			if err == nil {
				err = r.options(words)
			}
			if !all.Add(fault.At(r.pos, err)) {
				return all.Err()
			}
		case strings.HasPrefix(trimmed, "#"):
			r.warnComment(trimmed)
		case trimmed != "":
			all.Add(r.checkSteps(string(data)))
			if !all.None() {
				return all.Err()
			}
			return r.build(string(data))
		}
	}
	all.Add(fault.New("the script has no command", "commands come after the #SBATCH lines"))
	return all.Err()
}

// lookalike matches comments that look like options but that Slurm does not read, and options of PBS and LSF.
var lookalike = regexp.MustCompile(`^(?:#\s*SBATCH\s+-|#(?i:sbatch)\s+-|#(PBS|BSUB)\s+-)`)

// warnComment warns about a comment that looks like options.
func (r *reader) warnComment(text string) {
	m := lookalike.FindStringSubmatch(text)
	switch {
	case m == nil:
	case m[1] != "":
		r.job.Warn(r.pos, "", "the options of #"+m[1]+" are not read: write them as #SBATCH")
	default:
		r.job.Warn(r.pos, "", "is a comment, as for Slurm: options begin with #SBATCH at the start of the line")
	}
}

// options reads the options of one line. The error has the faults of all of them.
func (r *reader) options(words []string) error {
	var all fault.Faults
	for i := 0; i < len(words); i++ {
		name, value, given := words[i], "", false
		switch {
		case strings.HasPrefix(name, "--"):
			name, value, given = strings.Cut(name[2:], "=")
		case len(name) > 1 && name[0] == '-':
			value, given = name[2:], len(name) > 2
			long, ok := short[name[1]]
			if !ok {
				all.Add(r.unknown("-" + name[1:2]))
				return all.Err() // the next word may be its value
			}
			name = long
		default:
			all.Add(fault.New(fmt.Sprintf("%s is not an option", fault.Quote(name)), "options begin with - or --"))
			return all.Err()
		}
		o, ok := options[name]
		if !ok {
			all.Add(r.unknown("--" + name))
			return all.Err()
		}
		if r.name = "--" + name; o.needs && !given {
			if i++; i == len(words) {
				all.Add(fault.Within(r.name, fault.New("has no value", "add the value after a space or =")))
				return all.Err()
			}
			value = words[i]
		}
		if !all.Add(fault.Within(r.name, o.read(r, strings.TrimPrefix(value, "=")))) {
			break
		}
	}
	return all.Err()
}

func (r *reader) unknown(name string) error {
	hint := "the supported options are in docs/from-slurm.md"
	if near := fault.Nearest(strings.TrimPrefix(name, "--"), slices.Sorted(maps.Keys(options))); near != "" {
		hint = "did you mean --" + near + "?"
	}
	return fault.New(name+" is not supported", hint)
}

// warn adds a warning about the current option, once per option.
func (r *reader) warn(text string) error {
	if !r.warned[r.name] {
		r.warned[r.name] = true
		r.job.Warn(r.pos, r.name, text)
	}
	return nil
}

// split splits a line into words like a shell, with quotes. A comment ends the line.
func split(line string) (words []string, err error) {
	var word strings.Builder
	in, quote := false, rune(0)
	for _, c := range line {
		switch {
		case quote != 0 && c == quote:
			quote = 0
		case quote != 0:
			word.WriteRune(c)
		case c == '"' || c == '\'':
			in, quote = true, c
		case c == '#' && !in:
			return words, nil
		case c == ' ' || c == '\t':
			if in {
				words = append(words, word.String())
				word.Reset()
				in = false
			}
		default:
			in = true
			word.WriteRune(c)
		}
	}
	if quote != 0 {
		return nil, fault.New("a quote is not closed", "add the closing quote on this line")
	}
	if in {
		words = append(words, word.String())
	}
	return words, nil
}

// build adds the tasks of the script.
func (r *reader) build(script string) error {
	a := &r.requirements
	if a.name != "" {
		r.job.Name = jobtext.ToName(a.name, r.job.Name)
	}
	nodes, err := a.spread()
	if err != nil {
		return err
	}
	res, err := a.resources(nodes)
	if err != nil {
		return err
	}
	kind, err := r.gpuKind()
	if err != nil {
		return err
	}
	if kind != "" {
		if res.Accelerator, _, err = dag.ParseAccelerator(kind); err != nil {
			return fault.At(r.gpuAt, err)
		}
	}
	alternatives := []dag.Resources{res}
	if res.AcceleratorCount > 0 && res.Accelerator == "" {
		alternatives = nil
		for _, name := range dag.CommonGPUs() {
			res.Accelerator = name
			alternatives = append(alternatives, res)
		}
		r.job.Warn(r.gpuAt, "", "does not name the GPU: any of "+strings.Join(dag.CommonGPUs(), ", ")+
			" is accepted (name one: --gres=gpu:a100:1)")
	}
	if nodes > 1 && a.image != "" {
		return fault.At(r.boxAt, fault.Within(
			"--container-image",
			fault.New(
				"cannot be combined with several nodes: srun and mpirun in a container start nothing on other nodes",
				"leave the image out, or write a gang of roles whose programs find each other by TRADEWIND_NODES",
			),
		))
	}
	r.warnMissing(script, nodes)
	r.warnOfSignal(script)
	job, in := cmp.Or(a.name, r.job.Name), interpreterOf(script)
	called := ""
	if in.shell {
		called = functions(script)
	}
	task := dag.Task{
		Nodes: nodes, Resources: alternatives, Env: a.env, Time: dag.TimeEstimate{Default: a.time}, Timeout: a.time,
		Run: in.taskScript(prelude(a, job, nodes, called), script),
	}
	if a.requeue {
		task.Retries = 1
	}
	if a.array == nil {
		r.add(r.job.Name, task, nodes)
		return nil
	}
	if nodes > 1 {
		return r.addGangs(task, nodes)
	}
	r.addArray(task)
	return nil
}

// addArray adds the members of an array. Indexes without a fixed distance are the values of its members.
func (r *reader) addArray(t dag.Task) {
	a := &r.requirements
	name := jobtext.ToName(r.job.Name, "job")
	array := dag.Array{Name: name[:min(len(name), maxArrayName)], Size: len(a.array), MaxParallel: a.parallel}
	if step := a.distance(); step > 0 {
		array.From, array.Step = a.array[0], step
		if step == 1 || array.Size == 1 {
			array.Step = 0
		}
	} else {
		for _, i := range a.array {
			array.Values = append(array.Values, strconv.Itoa(i))
		}
	}
	for k := range array.Size {
		member := t
		member.Name = array.Member(k)
		r.job.Tasks = append(r.job.Tasks, member)
	}
	r.job.Arrays = []dag.Array{array}
}

// maxArrayName is the maximum length of an array's name, which leaves room for the indexes of its members.
const maxArrayName = 110

// distance returns the distance between the indexes of an array, or 0 if it differs.
func (a *requirements) distance() int {
	if len(a.array) == 1 {
		return 1
	}
	step := a.array[1] - a.array[0]
	for i := 1; i < len(a.array); i++ {
		if a.array[i]-a.array[i-1] != step {
			return 0
		}
	}
	return max(step, 0)
}

// addGangs adds one gang for each index of an array.
func (r *reader) addGangs(t dag.Task, nodes int) error {
	a := &r.requirements
	if a.parallel > 0 {
		r.job.Warn(a.arrayAt, "--array", "a limit for an array of gangs is not supported: the job's queue limits how "+
			"many run at once: tradewind queue set NAME --max-running "+strconv.Itoa(a.parallel))
	}
	for _, i := range a.array {
		member := t
		member.Env = dag.MergeEnv(map[string]string{"SLURM_ARRAY_TASK_ID": strconv.Itoa(i)}, a.env)
		r.add(fmt.Sprintf("%s-%d", r.job.Name, i), member, nodes)
	}
	return nil
}

// add adds a task. With several nodes it adds the roles of a gang: the first node, on which the script runs, and the
// others, on which the script starts programs.
func (r *reader) add(name string, t dag.Task, nodes int) {
	t.Name = jobtext.ToName(name, "job")
	if nodes > 1 {
		t.Gang, t.Role, t.Framework, t.Nodes = t.Name, "launcher", dag.MPI, 1
		others := t
		others.Name, others.Role, others.Nodes = t.Name+".nodes", "node", nodes-1
		others.Run = "exec sleep 2147483647 # ended with the first node\n"
		t.Name += ".batch"
		r.job.Tasks = append(r.job.Tasks, t, others)
		return
	}
	r.job.Tasks = append(r.job.Tasks, t)
}

// spread returns the number of nodes, and computes the number of processes on each.
func (a *requirements) spread() (nodes int, err error) {
	nodes = max(a.nodes, 1)
	if a.tasks == 0 && a.perNode == 0 {
		a.tasks, a.perNode = a.gpus*a.tasksGPU, a.gpusNode*a.tasksGPU
	}
	switch {
	case a.perNode > 0 && a.tasks > 0 && a.nodes == 0:
		nodes = (a.tasks + a.perNode - 1) / a.perNode
	case a.perNode == 0:
		a.perNode = (a.tasks + nodes - 1) / nodes
	}
	a.perNode, a.cpus = max(a.perNode, 1), max(a.cpus, 1)
	if a.tasks == 0 {
		a.tasks = a.perNode * nodes
	}
	if nodes > jobtext.MaxNodes || a.perNode*a.cpus > jobtext.MaxCPUs {
		return 0, fault.OverLimit(fmt.Sprintf("%d nodes of %d processors are more than can be requested", nodes,
			a.perNode*a.cpus), "")
	}
	return nodes, nil
}

// devices returns the number of GPUs of a node.
func (a *requirements) devices(nodes int) int {
	return max(a.gpusNode, a.gpusA*a.perNode, (a.gpus+nodes-1)/nodes)
}

// resources returns the minimum resources of a node.
func (a *requirements) resources(nodes int) (res dag.Resources, err error) {
	gpus := a.devices(nodes)
	cpus := max(a.perNode*a.cpus, gpus*a.cpusGPU, a.minCPUs)
	if cpus > jobtext.MaxCPUs {
		return res, fault.OverLimit(fmt.Sprintf("%d processors per node are more than can be requested", cpus), "")
	}
	res.CPUs.Min = float64(cpus)
	res.Memory.Min = float64(max(a.memory, a.perCPU*dag.GiB(cpus), a.memoryGPU*dag.GiB(gpus)))
	res.AcceleratorCount = float64(gpus)
	res.DiskGiB = a.disk
	if a.image != "" {
		res.Image = "docker:" + a.image
	}
	return res, nil
}
