package slurm

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tradewind-broker/tradewind/internal/base/fault"
	"github.com/tradewind-broker/tradewind/pkg/dag"
	"github.com/tradewind-broker/tradewind/pkg/dag/internal/jobtext"
)

// option describes how an option is handled.
type option struct {
	needs bool // needs a value
	read  func(r *reader, value string) error
}

// short has the long names of one-letter options.
var short = map[byte]string{
	'A': "account", 'a': "array",
	'C': "constraint", 'c': "cpus-per-task", 'B': "extra-node-info", 'b': "begin", 'F': "nodefile",
	'S': "core-spec", 'k': "no-kill", 'O': "overcommit", 'W': "wait", 'D': "chdir", 'd': "dependency", 'e': "error",
	'G': "gpus", 'H': "hold", 'i': "input", 'J': "job-name", 'L': "licenses", 'M': "clusters", 'm': "distribution",
	'N': "nodes", 'n': "ntasks", 'o': "output", 'p': "partition", 'q': "qos", 'Q': "quiet", 's': "oversubscribe",
	't': "time", 'v': "verbose", 'w': "nodelist", 'x': "exclude",
}

const (
	bufferMissing = "data is not staged by burst buffers"
	bufferInstead = "convert it, and name the data as inputs of its task"

	bySlurm  = "concerns Slurm's own cluster: it has no effect here"
	byLogs   = "the broker keeps logs: tradewind logs"
	byMail   = "no mail is sent: tradewind status shows the state of a job"
	byNeeds  = "machines are chosen by the needs of the job, not by cluster or partition"
	byQueues = "queues decide the order of jobs: tradewind queue"
)

// options are the supported options.
var options map[string]option

// optional are options with an optional value, which comes after a =.
var optional = []string{"exclusive", "oversubscribe", "overcommit", "contiguous", "nice", "propagate", "get-user-env",
	"resv-ports", "stepmgr", "consolidate-segments", "spread-segments"}

func init() { //nolint:gochecknoinits // the table's functions refer to it
	options = map[string]option{
		"job-name": value(func(a *requirements) *string { return &a.name }),
		"container-image": {
			true,
			func(r *reader, s string) error {
				r.boxAt, r.requirements.image = r.pos, strings.Replace(s, "#", "/", 1) // nvcr.io#nvidia/pytorch
				return nil
			},
		},
		"ntasks":          number(func(a *requirements) *int { return &a.tasks }),
		"ntasks-per-node": number(func(a *requirements) *int { return &a.perNode }),
		"cpus-per-task":   number(func(a *requirements) *int { return &a.cpus }),
		"mem":             size(func(a *requirements) *dag.GiB { return &a.memory }),
		"mem-per-cpu":     size(func(a *requirements) *dag.GiB { return &a.perCPU }),
		"mem-per-gpu":     size(func(a *requirements) *dag.GiB { return &a.memoryGPU }),
		"cpus-per-gpu":    number(func(a *requirements) *int { return &a.cpusGPU }),
		"ntasks-per-gpu":  number(func(a *requirements) *int { return &a.tasksGPU }),
		"gpus":            devices(func(a *requirements) *int { return &a.gpus }),
		"gpus-per-node":   devices(func(a *requirements) *int { return &a.gpusNode }),
		"gpus-per-task":   devices(func(a *requirements) *int { return &a.gpusA }),
		"time":            {true, readTime},
		"nodes":           {true, readNodes},
		"gres":            {true, readGRES},
		"array":           {true, readArray},
		"export":          {true, readExport},
		"requeue":         {false, func(r *reader, _ string) error { r.requirements.requeue = true; return nil }},
		"no-requeue":      {false, func(r *reader, _ string) error { r.requirements.requeue = false; return nil }},
		"chdir":           warned("the task has its own folder: name local files as inputs"),
		"signal":          {true, readSignal},
		"dependency":      {true, readDependency},
		"mincpus":         number(func(a *requirements) *int { return &a.minCPUs }),
		"tmp":             size(func(a *requirements) *dag.GiB { return &a.disk }),
		"begin":           refused("jobs start when machines are available", "submit it when it should run"),
		"deadline":        refused("a job is not removed before its time", "tradewind run --deadline 6h"),
		"bb":              refused(bufferMissing, bufferInstead),
		"bbf":             refused(bufferMissing, bufferInstead),
		"container":       refused("bundles of OCI are not run", "--container-image=NAME"),
		"container-id":    refused("bundles of OCI are not run", "--container-image=NAME"),
		"export-file":     refused("the file is not read", "tradewind run --env-file FILE"),
		"nodefile":        refused("there are no named nodes", "leave it out"),
		"gpus-per-socket": refused("sockets are not counted", "--gpus-per-node=TYPE:N"),
		"tres-per-task":   refused("is not read", "--cpus-per-task, --gpus-per-task"),
		"wrap":            refused("the script is the command", "write the command below the options"),
		"resources": refused("hierarchical resources are not counted",
			"a queue with a quota limits how many run at once"),
		"runtime":   refused("plugins of Slurm are not loaded", "--container-image=NAME"),
		"help":      {false, refused("nothing would be submitted", "leave it out").read},
		"usage":     {false, refused("nothing would be submitted", "leave it out").read},
		"version":   {false, refused("nothing would be submitted", "leave it out").read},
		"test-only": {false, refused("nothing would be submitted", "tradewind plan FILE").read},
		"container-mounts": refused("folders of the nodes are not mounted",
			"convert it, and name the data as inputs of its task"),
		"container-workdir": refused("the container starts in the task's folder", "cd in the script"),
		"container-name":    refused("containers are not kept", "--container-image=NAME"),
		"container-save":    refused("containers are not kept", "--container-image=NAME"),
		"licenses":          refused("licences are not counted", "a queue with a quota limits how many run at once"),
		"input": {true, func(_ *reader, s string) error {
			if s == "/dev/null" {
				return nil
			}
			return fault.New("the script has no input", "read the file in the script: program <FILE")
		}},
		"hold": {false, refused("jobs are not held", "submit it when it should run").read},
	}
	for text, names := range map[string]string{
		bySlurm: "account uid gid wckey mcs-label clusters priority nice acctg-freq profile comment " +
			"cluster-constraint extra-node-info distribution hint cores-per-socket sockets-per-node threads-per-core " +
			"mem-bind thread-spec core-spec power switches reservation delay-boot time-min " +
			"gpu-bind gpu-freq gres-flags network cpu-freq ntasks-per-core ntasks-per-socket batch " +
			"segment kill-on-invalid-dep wait-all-nodes propagate extra resv-ports oom-kill-step stepmgr " +
			"consolidate-segments tres-bind mem-update spread-segments",
		byLogs: "output error open-mode",
		byMail: "mail-type mail-user",
		byNeeds: "partition constraint nodelist exclude exclusive oversubscribe overcommit contiguous " +
			"prefer",
		byQueues: "qos",
	} {
		for _, name := range strings.Fields(names) {
			o := warned(text)
			o.needs = !slices.Contains(optional, name)
			options[name] = o
		}
	}
	bare := "quiet verbose parsable no-kill get-user-env ignore-pbs wait spread-job use-min-nodes reboot"
	for _, name := range strings.Fields(bare) {
		options[name] = option{read: func(*reader, string) error { return nil }}
	}
}

func warned(text string) option {
	return option{true, func(r *reader, _ string) error { return r.warn(text) }}
}

func refused(why, instead string) option {
	return option{true, func(*reader, string) error { return fault.New(why, instead) }}
}

func value(to func(*requirements) *string) option {
	return option{true, func(r *reader, s string) error { *to(&r.requirements) = s; return nil }}
}

// maxCount limits counts over all nodes of a job: its tasks, their processors, its GPUs.
const maxCount = 10_000

func number(to func(*requirements) *int) option {
	return option{true, func(r *reader, s string) (err error) {
		*to(&r.requirements), err = jobtext.ParseInt(s, 1, maxCount)
		return err
	}}
}

// size reads an amount of memory. The default unit is megabytes; 0 is all memory of a node.
func size(to func(*requirements) *dag.GiB) option {
	return option{true, func(r *reader, s string) error {
		digits := strings.TrimRight(s, "KMGTBkmgtb")
		v, err := strconv.ParseFloat(digits, 64)
		units := map[string]float64{"": 1. / 1024, "K": 1. / 1024 / 1024, "M": 1. / 1024, "G": 1, "T": 1024}
		said := strings.ToUpper(s[len(digits):])
		unit, known := units[said]
		if rest, bytes := strings.CutSuffix(said, "B"); bytes && rest != "" { // 16GB is 16G
			unit, known = units[rest]
		}
		if err == nil && v == 0 && known {
			return r.warn("all of a machine's memory cannot be requested: write how much is needed")
		}
		if err != nil || !(v > 0) || !known {
			return fault.New(fault.Quote(s)+" is not an amount of memory", "as in 4000M or 16G")
		}
		v *= unit
		if v > jobtext.MaxMemoryGiB {
			return fault.OverLimit(fault.Quote(s)+" is more than a machine has", "")
		}
		*to(&r.requirements) = dag.GiB(v)
		return nil
	}}
}

// devices reads a number of GPUs with an optional type: 2, a100:2.
func devices(to func(*requirements) *int) option {
	return option{true, func(r *reader, s string) error { return r.gpus(s, to(&r.requirements)) }}
}

func (r *reader) gpus(s string, to *int) (err error) {
	r.gpuAt = r.pos
	kind, count, typed := strings.Cut(s, ":")
	if !typed {
		kind, count = "", s
		if _, err := strconv.Atoi(s); err != nil {
			kind, count = s, "1"
		}
	}
	if *to, err = jobtext.ParseInt(count, 0, maxCount); err != nil || *to == 0 {
		kind = ""
	}
	if r.kinds == nil {
		r.kinds = map[string]string{}
	}
	r.kinds[r.name] = kind // the option of an earlier line does not count
	return err
}

// gpuKind returns the type of GPU that the options name, or an error if they name several.
func (r *reader) gpuKind() (kind string, err error) {
	first := ""
	for _, option := range slices.Sorted(maps.Keys(r.kinds)) {
		switch k := r.kinds[option]; {
		case k == "" || strings.EqualFold(k, kind):
		case kind != "":
			return "", fault.At(r.gpuAt, fault.New(
				fmt.Sprintf("%s names the GPU %s, and %s names %s", first, kind, option, k),
				"a machine has GPUs of one type: leave one of the two out"))
		default:
			first, kind = option, k
		}
	}
	return kind, nil
}

// readGRES reads generic resources. Only GPUs are supported.
func readGRES(r *reader, s string) error {
	if strings.EqualFold(s, "none") {
		return r.gpus("0", &r.requirements.gpusNode)
	}
	total, named := 0, ""
	for _, one := range strings.Split(s, ",") {
		kind, rest, more := strings.Cut(strings.TrimPrefix(one, "gres/"), ":")
		if kind != "gpu" {
			return fault.New(fault.Quote(kind)+" is a resource of Slurm's own cluster",
				"the only supported generic resource is gpu: gpu:a100:2")
		}
		if !more {
			rest = "1"
		}
		if err := r.gpus(rest, &r.requirements.gpusNode); err != nil {
			return err
		}
		if kind := r.kinds[r.name]; named != "" && kind != "" && !strings.EqualFold(kind, named) {
			return fault.New(fmt.Sprintf("names two types of GPU, %s and %s", named, kind),
				"a machine has GPUs of one type")
		}
		named = cmp.Or(named, r.kinds[r.name])
		total += r.requirements.gpusNode
	}
	r.requirements.gpusNode, r.kinds[r.name] = total, named
	return nil
}

// readTime reads a time limit: MINUTES, MINUTES:SECONDS, HOURS:MINUTES:SECONDS, DAYS-HOURS,
// DAYS-HOURS:MINUTES[:SECONDS]. Plans use it as the expected run time.
func readTime(r *reader, s string) error {
	if strings.EqualFold(s, "UNLIMITED") || strings.EqualFold(s, "INFINITE") {
		r.requirements.time = 0 // no limit, so the run time is unknown
		return nil
	}
	wrong := fault.New(fault.Quote(s)+" is not a time", "as in 90, 1:30:00 or 2-12:00")
	days, rest, dated := strings.Cut(s, "-")
	if !dated {
		days, rest = "0", s
	}
	parts := strings.Split(rest, ":")
	units := []time.Duration{time.Minute, time.Second}
	if dated || len(parts) == 3 {
		units = []time.Duration{time.Hour, time.Minute, time.Second}
	}
	if len(parts) > len(units) {
		return wrong
	}
	d, err := strconv.Atoi(days)
	if err != nil || d < 0 || d > 3650 {
		return wrong
	}
	total := time.Duration(d) * 24 * time.Hour
	for i, p := range parts {
		v, err := strconv.Atoi(p)
		if err != nil || v < 0 || v > 10_000_000 {
			return wrong
		}
		total += time.Duration(v) * units[i]
	}
	if total > dag.MaxDuration {
		return wrong
	}
	r.requirements.time = total // 0 is no limit
	return nil
}

// readNodes reads the number of nodes: 4, or 2-4.
func readNodes(r *reader, s string) (err error) {
	least, most, span := strings.Cut(s, "-")
	if r.requirements.nodes, err = jobtext.ParseInt(least, 1, jobtext.MaxNodes); err != nil || !span {
		return err
	}
	if r.requirements.most, err = jobtext.ParseInt(most, 1, jobtext.MaxNodes); err != nil {
		return err
	}
	if r.requirements.most < r.requirements.nodes {
		return fault.New(fmt.Sprintf("%s ends before it begins", fault.Quote(s)), "")
	}
	if r.requirements.most > r.requirements.nodes {
		return r.warn(fmt.Sprintf("it gets %d: under Slurm the number depends on the nodes that are free",
			r.requirements.nodes))
	}
	return nil
}

// maxArray limits the indexes of an array.
const maxArray = 10_000

// readArray reads the indexes of an array: 0-9, 1-10:2, 1,3,5, each with %LIMIT at its end.
func readArray(r *reader, s string) error {
	list, limit, limited := strings.Cut(s, "%")
	r.requirements.parallel, r.requirements.arrayAt = 0, r.pos
	if limited {
		var err error
		if r.requirements.parallel, err = jobtext.ParseInt(limit, 1, maxArray); err != nil {
			return err
		}
	}
	r.requirements.array, r.requirements.step = nil, 1
	seen := map[int]bool{}
	for _, one := range strings.Split(list, ",") {
		span, by, stepped := strings.Cut(one, ":")
		first, last, ranged := strings.Cut(span, "-")
		from, err := jobtext.ParseInt(first, 0, jobtext.MaxTasks)
		if err != nil {
			return err
		}
		to, step := from, 1
		if ranged {
			if to, err = jobtext.ParseInt(last, 0, jobtext.MaxTasks); err != nil {
				return err
			}
		}
		if stepped {
			if step, err = jobtext.ParseInt(by, 1, jobtext.MaxTasks); err != nil {
				return err
			}
			r.requirements.step = step
		}
		if to < from {
			return fault.New(fault.Quote(one)+" ends before it begins", "")
		}
		for i := from; i <= to; i += step {
			if seen[i] {
				return fault.New(fmt.Sprintf("index %d is listed twice", i), "")
			}
			seen[i] = true
			if r.requirements.array = append(r.requirements.array, i); len(r.requirements.array) > maxArray {
				return fault.OverLimit(fmt.Sprintf("an array of more than %d", maxArray), "")
			}
		}
	}
	return nil
}

// readExport reads variables with values. Names without values get a warning, because the submitter's environment is
// not used. The option of an earlier line does not count.
func readExport(r *reader, s string) error {
	r.requirements.env = nil
	var missing []string
	for _, one := range strings.Split(s, ",") {
		name, value, given := strings.Cut(one, "=")
		switch {
		case given:
			if err := jobtext.CheckEnvName(name); err != nil {
				return err
			}
			if r.requirements.env == nil {
				r.requirements.env = map[string]string{}
			}
			r.requirements.env[name] = value
		case one != "" && one != "ALL" && one != "NONE" && one != "NIL":
			missing = append(missing, name)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	return r.warn("the submitter's environment is not used: tradewind run --env " + strings.Join(missing, " --env "))
}
