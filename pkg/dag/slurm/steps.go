package slurm

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/tradewind-broker/tradewind/internal/base/fault"
)

// stepValue states whether an option of srun has a value, as in Slurm's src/common/slurm_opt.c.
type stepValue int

const (
	noValue       stepValue = iota
	needsValue              // in the same word or in the next one
	optionalValue           // in the same word only
)

// stepOption describes an option of srun. The function srun of the script and the check at conversion are both made
// from it, so they agree.
type stepOption struct {
	name  string
	short byte // 0 if it has no letter
	value stepValue
	// set is the shell code that applies $_value. If it is empty, the option is ignored or refused.
	set string
	// effect describes an option that is ignored: it has no effect on the result.
	effect string
	// why is set for an option that is refused, because it would change the result. instead says what to write.
	why, instead string
	// check returns the reason for which a value is refused, and the text to write instead. The shell code refuses
	// the same values.
	check func(value string) (why, instead string)
}

const (
	noStepContainer = "containers of a step are not started"
	imageOfScript   = "name the image for the whole script: #SBATCH --container-image"
	noHetStep       = "heterogeneous steps are not supported"
	gangOfRoles     = "write a gang of roles"
	onlyAllocation  = "concerns new allocations of Slurm, not steps of a job"
	sharedMachine   = "steps start at once and share the machine's processors and memory"
	notBound        = "processes are not bound to processors or memory"
	leaveOut        = "leave it out"
)

// stepOptions are all options of srun.
var stepOptions = allSteps() //nolint:gochecknoglobals // a table

func allSteps() (all []stepOption) {
	done := func(name string, short byte, value stepValue, set string) {
		all = append(all, stepOption{name: name, short: short, value: value, set: set})
	}
	done("ntasks", 'n', needsValue, `_tasks=$_value`)
	done("nodes", 'N', needsValue, `_nodes=$_value`)
	done("ntasks-per-node", 0, needsValue, `_each=$_value`)
	done("tasks-per-node", 0, needsValue, `_each=$_value`)
	done("cpus-per-task", 'c', needsValue, `_cpus=$_value`)
	done("nodelist", 'w', needsValue, `_list=$_value`)
	done("exclude", 'x', needsValue, `_without=$_value`)
	done("relative", 'r', needsValue, `_skip=$_value`)
	done("input", 'i', needsValue, `_input=$_value`)
	done("output", 'o', needsValue, `_output=$_value`)
	done("error", 'e', needsValue, `_error=$_value`)
	done("open-mode", 0, needsValue, `_mode=$_value`)
	done("chdir", 'D', needsValue, `_dir=$_value`)
	done("label", 'l', noValue, `_label=1`)
	done("time", 't', needsValue, `_limit=$_value`)
	done("wait", 'W', needsValue, `_late=$_value`)
	done("kill-on-bad-exit", 'K', optionalValue, `_bad=${_value:-1}`)
	done("preserve-env", 'E', noValue, `_keep=1`)
	for _, name := range []string{"quiet Q", "verbose v", "unbuffered u", "disable-status X"} {
		done(name[:len(name)-2], name[len(name)-1], noValue, `:`)
	}
	done("threads", 'T', needsValue, `:`)
	done("treewidth", 0, needsValue, `:`)
	done("msg-timeout", 0, needsValue, `:`)
	all = append(all, checkedSteps()...)
	all = append(all, ignoredSteps()...)
	return append(all, refusedSteps()...)
}

// checkedSteps are the options that are supported with some values and refused with others.
func checkedSteps() []stepOption {
	only := func(why, instead string, values ...string) func(string) (string, string) {
		return func(value string) (string, string) {
			if slices.Contains(values, value) {
				return "", ""
			}
			return why, instead
		}
	}
	const (
		noPMI    = "programs get no PMI from srun, so each would run by itself"
		byMPIRun = "start it with mpirun, which finds all nodes"
		visible  = "a step's devices are those of --gpus-per-task"
	)
	of := func(name string, short byte, set string, check func(string) (string, string)) stepOption {
		return stepOption{name: name, short: short, value: needsValue, set: set, check: check}
	}
	return []stepOption{
		of("export", 0, `_export=$_value`, func(value string) (why, instead string) {
			if slices.Contains(strings.Split(value, ","), "ALL") {
				return "", ""
			}
			return "variables are not removed", "--export=ALL,NAME=VALUE, and unset those that the program must lack"
		}),
		of("mpi", 0, `[ "$_value" = none ] || refuse "$_name=$_value: `+noPMI+` (`+byMPIRun+`)"`,
			only(noPMI, byMPIRun, "none")),
		of("jobid", 0, `[ "$_value" = "$SLURM_JOB_ID" ] || refuse "$_name=$_value: steps run in their own job only"`,
			only("steps run in their own job only", leaveOut)),
		of("distribution", 'm', `case $_value in block*|'*'*) ;; *) refuse "$_name=$_value: `+
			`ranks fill one node after the other" ;; esac`,
			func(value string) (why, instead string) {
				if strings.HasPrefix(value, "block") || strings.HasPrefix(value, "*") {
					return "", ""
				}
				return "ranks fill one node after the other", "--distribution=block"
			}),
		of("gpu-bind", 0, `[ "$_value" = none ] || refuse "$_name=$_value: `+visible+`"`,
			only(visible, "--gpus-per-task=1", "none")),
		of("gpus-per-task", 0, `_gpus=${_value##*:}`, nil),
		of("gpus-per-node", 0, `check_gpus 1`, nil),
		of("gres", 0, `check_gpus 1`, func(value string) (why, instead string) {
			for _, one := range strings.Split(value, ",") {
				kind, _, _ := strings.Cut(strings.TrimPrefix(one, "gres/"), ":")
				if kind != "gpu" && kind != "none" {
					return fault.Quote(kind) + " is a resource of Slurm's own cluster", "only gpu is supported"
				}
			}
			return "", ""
		}),
		of("gpus", 'G', `check_gpus "$SLURM_NNODES"`, nil),
	}
}

// ignoredSteps are the options that have no effect on the result.
func ignoredSteps() (all []stepOption) {
	for effect, names := range map[string]string{
		onlyAllocation: "account:A acctg-freq cluster clusters:M cluster-constraint comment constraint:C contiguous- " +
			"cores-per-socket core-spec:S delay-boot dependency:d extra hold:H- mail-type mail-user mcs-label " +
			"mincpus network nice? partition:p prefer priority qos:q reboot- reservation segment " +
			"consolidate-segments- " +
			"sockets-per-node spread-job- spread-segments- stepmgr- switches thread-spec time-min tmp " +
			"use-min-nodes- wckey immediate:I? parsable-",
		sharedMachine: "exact- exclusive? overlap? overcommit:O- oversubscribe:s- whole- mem mem-per-cpu mem-per-gpu " +
			"mem-update cpus-per-gpu ntasks-per-core ntasks-per-socket oom-kill-step?",
		notBound: "cpu-bind cpu_bind mem-bind hint extra-node-info:B threads-per-core cpu-freq gpu-freq gres-flags",
		"a step has no name and no record of its own: tradewind logs": "job-name:J profile",
		"the step ends with its task, whose machines are ended together if one is lost": "no-kill:k? " +
			"ignore-signals quit-on-interrupt-",
		"limits of the shell apply on the first node only": "propagate?",
		"the broker writes its own logs":                   "slurmd-debug",
	} {
		for _, word := range strings.Fields(names) {
			o := stepOption{effect: effect, value: needsValue}
			if rest, ok := strings.CutSuffix(word, "-"); ok {
				word, o.value = rest, noValue
			} else if rest, ok := strings.CutSuffix(word, "?"); ok {
				word, o.value = rest, optionalValue
			}
			name, letter, lettered := strings.Cut(word, ":")
			if o.name = name; lettered {
				o.short = letter[0]
			}
			all = append(all, o)
		}
	}
	slices.SortFunc(all, func(a, b stepOption) int { return cmp.Compare(a.name, b.name) })
	return all
}

// refusedSteps are the options with which a step would have another result.
func refusedSteps() []stepOption {
	return []stepOption{
		{name: "multi-prog", why: "the file of programs is not read",
			instead: "start each program with its own srun -n1"},
		{name: "container", value: needsValue, why: noStepContainer, instead: imageOfScript},
		{name: "container-id", value: needsValue, why: noStepContainer, instead: imageOfScript},
		{name: "container-image", value: needsValue, why: noStepContainer, instead: imageOfScript},
		{name: "container-mounts", value: needsValue, why: noStepContainer, instead: imageOfScript},
		{name: "container-name", value: needsValue, why: noStepContainer, instead: imageOfScript},
		{name: "container-save", value: needsValue, why: noStepContainer, instead: imageOfScript},
		{name: "container-workdir", value: needsValue, why: noStepContainer, instead: imageOfScript},
		{name: "container-mount-home", why: noStepContainer, instead: imageOfScript},
		{name: "no-container-mount-home", why: noStepContainer, instead: imageOfScript},
		{name: "container-env", value: needsValue, why: noStepContainer, instead: imageOfScript},
		{name: "container-remap-root", why: noStepContainer, instead: imageOfScript},
		{name: "no-container-remap-root", why: noStepContainer, instead: imageOfScript},
		{name: "container-entrypoint", why: noStepContainer, instead: imageOfScript},
		{name: "no-container-entrypoint", why: noStepContainer, instead: imageOfScript},
		{name: "container-writable", why: noStepContainer, instead: imageOfScript},
		{name: "container-readonly", why: noStepContainer, instead: imageOfScript},
		{name: "het-group", value: needsValue, why: noHetStep, instead: gangOfRoles},
		{name: "pack-group", value: needsValue, why: noHetStep, instead: gangOfRoles},
		{name: "prolog", value: needsValue, why: "programs before a step are not run", instead: "run it before srun"},
		{name: "epilog", value: needsValue, why: "programs after a step are not run", instead: "run it after srun"},
		{
			name: "task-prolog", value: needsValue, why: "programs before each task are not run",
			instead: "srun sh -c 'PROLOG; exec PROGRAM'",
		},
		{
			name: "task-epilog", value: needsValue, why: "programs after each task are not run",
			instead: "srun sh -c 'PROGRAM; EPILOG'",
		},
		{
			name: "begin", short: 'b', value: needsValue, why: "steps start when the script reaches them",
			instead: leaveOut,
		},
		{
			name: "deadline", value: needsValue, why: "steps are not removed before their time",
			instead: "srun --time=MINUTES PROGRAM",
		},
		{
			name: "bb", value: needsValue, why: "there are no burst buffers",
			instead: "name inputs of the converted job",
		},
		{
			name: "bbf", value: needsValue, why: "there are no burst buffers",
			instead: "name inputs of the converted job",
		},
		{name: "bcast", value: optionalValue, why: bcastMissing, instead: bcastInstead},
		{name: "bcast-exclude", value: needsValue, why: bcastMissing, instead: bcastInstead},
		{name: "send-libs", value: optionalValue, why: bcastMissing, instead: bcastInstead},
		{name: "compress", value: optionalValue, why: bcastMissing, instead: bcastInstead},
		{name: "resources", value: needsValue, why: "hierarchical resources are not counted", instead: leaveOut},
		{name: "runtime", value: needsValue, why: "plugins of Slurm are not loaded", instead: leaveOut},
		{name: "context", value: needsValue, why: "plugins of Slurm are not loaded", instead: leaveOut},
		{name: "test-only", why: "nothing would run", instead: leaveOut},
		{name: "help", short: 'h', why: "nothing would run", instead: leaveOut},
		{name: "usage", why: "nothing would run", instead: leaveOut},
		{name: "version", short: 'V', why: "nothing would run", instead: leaveOut},
		{name: "autocomplete", value: needsValue, why: "nothing would run", instead: leaveOut},
		{name: "async", why: "srun returns when its programs have ended", instead: "srun PROGRAM &"},
		{name: "pty", value: optionalValue, why: "tasks have no terminal", instead: leaveOut},
		{name: "interactive", why: "tasks have no terminal", instead: leaveOut},
		{name: "x11", value: optionalValue, why: "tasks have no display", instead: "xvfb-run PROGRAM"},
		{name: "debugger-test", why: "there is no debugger of Slurm", instead: leaveOut},
		{name: "external-launcher", value: optionalValue, why: "programs are started by srun or mpirun",
			instead: leaveOut},
		{name: "no-allocate", short: 'Z', why: "steps run on the job's nodes", instead: leaveOut},
		{
			name: "nodefile", short: 'F', value: needsValue, why: "the file is not read",
			instead: "-w $(paste -sd, FILE)",
		},
		{name: "licenses", short: 'L', value: needsValue, why: "licences are not counted", instead: leaveOut},
		{name: "accel-bind", value: needsValue, why: "devices are not bound", instead: "--gpus-per-task=N"},
		{
			name: "gpus-per-socket", value: needsValue, why: "sockets are not counted",
			instead: "--gpus-per-task=N",
		},
		{name: "tres-bind", value: needsValue, why: "devices are not bound", instead: "--gpus-per-task=N"},
		{name: "tres-per-task", value: needsValue, why: "is not read", instead: "--cpus-per-task, --gpus-per-task"},
		{name: "ntasks-per-gpu", value: needsValue, why: "GPUs are not shared out", instead: "-n N"},
		{name: "ntasks-per-tres", value: needsValue, why: "GPUs are not shared out", instead: "-n N"},
		{
			name: "signal", value: needsValue, why: "no signal is sent before the end of a step",
			instead: "timeout --signal=USR1 SECONDS PROGRAM",
		},
		{
			name: "resv-ports", value: optionalValue, why: "no ports are reserved",
			instead: "let the program choose its ports",
		},
		{
			name: "wait-for-children", why: "a step ends when its programs end",
			instead: "srun sh -c 'PROGRAM; wait'",
		},
	}
}

const (
	bcastMissing = "files are not sent to other nodes"
	bcastInstead = "name the program as an input of the converted job"
)

// stepOf returns the option of srun with a long name or a letter.
func stepOf(name string) (stepOption, bool) {
	i := slices.IndexFunc(stepOptions, func(o stepOption) bool {
		return "--"+o.name == name || o.short != 0 && "-"+string(o.short) == name
	})
	if i < 0 {
		return stepOption{}, false
	}
	return stepOptions[i], true
}

// stepArgument is an option of a step in the text of a script. The value is empty if only the shell knows it.
type stepArgument struct {
	word, name, value string
	option            stepOption
	known             bool
}

// stepArguments returns the options before the program of srun. words are the words after srun.
func stepArguments(words []string) (found []stepArgument) {
	for len(words) > 0 {
		word := words[0]
		words = words[1:]
		switch {
		case word == "--" || word == "-":
			return found
		case strings.HasPrefix(word, "$") && mayHoldOptions(word):
			continue
		case !strings.HasPrefix(word, "-"):
			return found
		}
		a := stepArgument{word: word, name: word}
		attached := false
		if strings.HasPrefix(word, "--") {
			a.name, a.value, attached = strings.Cut(word, "=")
		} else if len(word) > 2 {
			a.name, a.value, attached = word[:2], word[2:], true
		}
		a.option, a.known = stepOf(a.name)
		switch {
		case !a.known:
		case a.option.value == needsValue && !attached && len(words) > 0:
			a.value, words = words[0], words[1:]
		case a.option.value == noValue && attached && !strings.HasPrefix(word, "--"): // letters in one word
			words = append([]string{"-" + a.value}, words...)
			a.value = ""
		}
		a.value = strings.Trim(a.value, `"'`)
		found = append(found, a)
		if !a.known {
			return found // the next word may be its value
		}
	}
	return found
}

// closes returns the character that ends the quote or expansion that c opens, or 0 if c opens none. before is the
// character before c, and top ends the quote or expansion around c.
func closes(before, c, top rune) rune {
	switch {
	case c == '\'' || c == '"' || c == '`':
		return c
	case c == '(' && (before == '$' || top == ')'):
		return ')'
	case c == '{' && before == '$':
		return '}'
	}
	return 0
}

// shellWords splits a part of a command into words. Quotes and expansions such as $(hostname -s) belong to their word.
func shellWords(text string) (words []string) {
	var word strings.Builder
	var open []rune // the ends of open quotes and expansions
	before := rune(0)
	for _, c := range text {
		top := rune(0)
		if len(open) > 0 {
			top = open[len(open)-1]
		}
		quoted := top == '\''
		switch {
		case before == '\\' && !quoted:
			before = 0
			word.WriteRune(c)
			continue
		case top != 0 && c == top:
			open = open[:len(open)-1]
		case quoted || c == '\'' && top == '"':
		case closes(before, c, top) != 0:
			open = append(open, closes(before, c, top))
		case len(open) == 0 && (c == ' ' || c == '\t'):
			if word.Len() > 0 {
				words = append(words, word.String())
				word.Reset()
			}
			before = c
			continue
		}
		word.WriteRune(c)
		before = c
	}
	if word.Len() > 0 {
		words = append(words, word.String())
	}
	return words
}

// mayHoldOptions reports whether the name of a variable suggests that it holds options of srun, and not the program.
func mayHoldOptions(word string) bool {
	word = strings.ToUpper(word)
	return slices.ContainsFunc([]string{"OPT", "ARG", "FLAG", "SRUN"}, func(part string) bool {
		return strings.Contains(word, part)
	})
}

// refusal returns why an option of a step is refused, or nil. gpus is the number of GPUs of a node.
func (a *stepArgument) refusal(gpus, nodes int) error {
	o := a.option
	switch {
	case !a.known:
		return fault.New(a.name+" is not supported", "the supported options of srun are in docs/from-slurm.md")
	case o.why != "":
		return fault.New("--"+o.name+": "+o.why, o.instead)
	case a.value == "" || strings.ContainsAny(a.value, "$`"): // the function checks what only the shell knows
		return nil
	}
	why, instead := someGPUs(o.name, a.value, gpus, nodes)
	if o.check != nil && why == "" {
		why, instead = o.check(a.value)
	}
	if why == "" {
		return nil
	}
	return fault.New("--"+o.name+"="+a.value+": "+why, instead)
}

// someGPUs returns why a step cannot have some of the GPUs of its nodes.
func someGPUs(option, value string, gpus, nodes int) (why, instead string) {
	switch option {
	case "gpus":
		gpus *= nodes
	case "gpus-per-node", "gres":
	default:
		return "", ""
	}
	if slices.Contains([]string{"none", "0", "gpu:0", "gres/gpu:0"}, value) {
		return "", ""
	}
	count, err := strconv.Atoi(value[strings.LastIndexByte(value, ':')+1:])
	if err != nil {
		count = 1
	}
	if count == gpus {
		return "", ""
	}
	return fmt.Sprintf("the job has %d: %s", gpus, allGPUs), "CUDA_VISIBLE_DEVICES=0 srun PROGRAM"
}

// parseSteps returns the shell code that reads the options of srun.
func parseSteps() string {
	var needs []string
	var needLetters, optionalLetters string
	for _, o := range stepOptions {
		letter := ""
		if o.short != 0 {
			letter = string(o.short)
		}
		switch o.value {
		case needsValue:
			needs, needLetters = append(needs, "--"+o.name), needLetters+letter
		case optionalValue:
			optionalLetters += letter
		case noValue:
		}
	}
	var b strings.Builder
	fmt.Fprintf(&b, `  while [ $# -gt 0 ]; do
    _name=$1 _value=
    case $1 in
    --) shift; break ;;
    --*=*) _name=${1%%%%=*} _value=${1#*=} ;;
    %s)
      [ $# -gt 1 ] || refuse "$1 has no value"
      _value=$2
      shift ;;
    --*) ;;
    -[%s])
      [ $# -gt 1 ] || refuse "$1 has no value"
      _value=$2
      shift ;;
    -[%s]?*) _value=${1#-?} _name=${1%%"${1#-?}"} ;;
    -?) ;;
    -?*)
      _value=${1#-?} _name=${1%%"${1#-?}"}
      shift
      set -- "$_name" "-$_value" "$@"
      continue ;;
    :) refuse ': starts several programs together, which is not supported' ;;
    *) break ;;
    esac
    shift
    case $_name in
`, wrapPatterns(needs), needLetters, needLetters+optionalLetters)
	groups := map[string][]string{}
	var order []string
	for _, o := range stepOptions {
		action := o.set
		switch {
		case o.why != "":
			action = "refuse \"$_name: " + shellText(o.why+" ("+o.instead+")") + `"`
		case o.effect != "":
			action = "echo \"srun: $_name is ignored: " + shellText(o.effect) + `" >&2`
		}
		if _, found := groups[action]; !found {
			order = append(order, action)
		}
		groups[action] = append(groups[action], "--"+o.name)
		if o.short != 0 {
			groups[action] = append(groups[action], "-"+string(o.short))
		}
	}
	for _, action := range order {
		fmt.Fprintf(&b, "    %s) %s ;;\n", wrapPatterns(groups[action]), action)
	}
	b.WriteString("    *) refuse \"$_name is not supported\" ;;\n    esac\n  done\n")
	return b.String()
}

// wrapPatterns joins the patterns of a case of a shell, with line ends so that lines stay short.
func wrapPatterns(patterns []string) string {
	var b strings.Builder
	width := 0
	for i, p := range patterns {
		if i > 0 {
			b.WriteString("|")
		}
		if width += len(p) + 1; width > 100 {
			b.WriteString("\\\n")
			width = len(p)
		}
		b.WriteString(p)
	}
	return b.String()
}

// shellText escapes a text for use between double quotes.
func shellText(text string) string {
	return strings.NewReplacer(`\`, `\\`, `"`, `\"`, "$", `\$`, "`", "\\`").Replace(text)
}

// checkGPUs is the shell function that refuses a step which would get only some GPUs of its nodes.
const checkGPUs = `  check_gpus() { # on how many nodes
    case $_value in
    none|0|gpu:0|gres/gpu:0) _gpus=0; return ;;
    esac
    _count=${_value##*:}
    case $_count in
    *[!0-9]*|'') _count=1 ;;
    esac
    [ "$_count" -eq $(( ${SLURM_GPUS_ON_NODE:-0} * $1 )) ] || refuse "$_name=$_value: ` + allGPUs + `"
  }
`

const allGPUs = "a step gets all GPUs of the job, or --gpus-per-task for each rank"
