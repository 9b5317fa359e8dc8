package slurm

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/tradewind-broker/tradewind/pkg/dag/internal/podtext"
)

// prelude returns the shell code that provides Slurm's variables and the functions that the script may call. With
// several nodes the script runs on the first one.
func prelude(a *requirements, job string, nodes int, functions string) string {
	var b strings.Builder
	if nodes > 1 {
		b.WriteString("export TRADEWIND_GIVEN=\"$(" + variables + ")\"\n")
	}
	id := `"$TRADEWIND_JOB"`
	if a.array != nil { // each task of an array has its own job ID
		b.WriteString("export SLURM_ARRAY_JOB_ID=\"$TRADEWIND_JOB\"\n")
		switch {
		case nodes > 1: // it is in the task's environment
		case a.distance() > 0:
			b.WriteString("export SLURM_ARRAY_TASK_ID=\"$TRADEWIND_ARRAY_INDEX\"\n")
		default:
			b.WriteString("export SLURM_ARRAY_TASK_ID=\"$TRADEWIND_ARRAY_VALUE\"\n")
		}
		fmt.Fprintf(&b, "export SLURM_ARRAY_TASK_COUNT=%d SLURM_ARRAY_TASK_MIN=%d SLURM_ARRAY_TASK_MAX=%d"+
			" SLURM_ARRAY_TASK_STEP=%d\n", len(a.array), slices.Min(a.array), slices.Max(a.array), a.step)
		id = `"${TRADEWIND_JOB}_$SLURM_ARRAY_TASK_ID"`
	}
	onNode := func(n int) string { // Slurm's notation for a value that is equal on all nodes
		if nodes > 1 {
			return fmt.Sprintf("'%d(x%d)'", n, nodes)
		}
		return strconv.Itoa(n)
	}
	tasks := onNode(a.perNode)
	if full := nodes - 1; nodes > 1 && a.tasks < a.perNode*nodes && a.tasks > a.perNode*full {
		tasks = fmt.Sprintf("'%d(x%d),%d'", a.perNode, full, a.tasks-a.perNode*full)
		if full == 1 {
			tasks = fmt.Sprintf("%d,%d", a.perNode, a.tasks-a.perNode)
		}
	}
	cpus := a.perNode * a.cpus
	fmt.Fprintf(&b, `export SLURM_JOB_ID=%s SLURM_JOBID=%s SLURM_JOB_NAME=%s SLURM_CLUSTER_NAME=tradewind
export SLURM_NNODES=%d SLURM_JOB_NUM_NODES=%d SLURM_NTASKS=%d SLURM_NPROCS=%d
export SLURM_NTASKS_PER_NODE=%d SLURM_CPUS_PER_TASK=%d SLURM_NODEID=0 SLURM_PROCID=0 SLURM_LOCALID=0
export SLURM_SUBMIT_DIR="$PWD" SLURM_CPUS_ON_NODE=%d SLURM_JOB_CPUS_PER_NODE=%s SLURM_TASKS_PER_NODE=%s
`, id, id, podtext.Quote(job), nodes, nodes, a.tasks, a.tasks, a.perNode, a.cpus, cpus, onNode(cpus), tasks)
	switch {
	case a.memory > 0:
		fmt.Fprintf(&b, "export SLURM_MEM_PER_NODE=%.0f\n", float64(a.memory)*1024)
	case a.perCPU > 0:
		fmt.Fprintf(&b, "export SLURM_MEM_PER_CPU=%.0f\n", float64(a.perCPU)*1024)
	}
	if a.memoryGPU > 0 {
		fmt.Fprintf(&b, "export SLURM_MEM_PER_GPU=%.0f\n", float64(a.memoryGPU)*1024)
	}
	if gpus := a.devices(nodes); gpus > 0 {
		fmt.Fprintf(&b, "export SLURM_GPUS_ON_NODE=%d SLURM_JOB_GPUS=%s\n", gpus, numbered(gpus))
		for _, one := range []struct {
			name  string
			count int
		}{{"SLURM_GPUS", a.gpus}, {"SLURM_GPUS_PER_NODE", a.gpusNode}, {"SLURM_GPUS_PER_TASK", a.gpusA},
			{"SLURM_CPUS_PER_GPU", a.cpusGPU}, {"SLURM_NTASKS_PER_GPU", a.tasksGPU}} {
			if one.count > 0 {
				fmt.Fprintf(&b, "export %s=%d\n", one.name, one.count)
			}
		}
	}
	b.WriteString(`export SLURM_TMPDIR="${TMPDIR:-/tmp}" SLURM_JOB_USER="$(id -un)" SLURM_JOB_UID="$(id -u)"
export SLURM_SUBMIT_HOST="$(uname -n)" SLURM_TASK_PID=$$ SLURM_JOB_PARTITION=tradewind SLURM_JOB_QOS=normal
export SLURM_JOB_ACCOUNT="$(id -un)" SLURM_GTIDS=0 SLURM_RESTART_COUNT="$TRADEWIND_RESTORED" \
  SLURM_JOB_START_TIME="$(date +%s)"
`)
	if nodes > 1 {
		fmt.Fprintf(&b, `cut -d' ' -f1 "$TRADEWIND_HOSTS" >.slurm-nodes
sed 's/$/ slots=%d/' .slurm-nodes >.slurm-hostfile
export SLURM_JOB_NODELIST="$(paste -sd, .slurm-nodes)" SLURM_NODELIST="$(paste -sd, .slurm-nodes)"
export OMPI_MCA_ras=^slurm OMPI_MCA_plm=rsh
export OMPI_MCA_orte_default_hostfile="$PWD/.slurm-hostfile" HYDRA_HOST_FILE="$PWD/.slurm-hostfile"
`, a.perNode)
	} else {
		b.WriteString("export SLURM_JOB_NODELIST=\"$(uname -n)\" SLURM_NODELIST=\"$(uname -n)\"\n")
	}
	b.WriteString("export SLURMD_NODENAME=\"${SLURM_JOB_NODELIST%%,*}\"\n" + a.signal.shell(a.time) + functions)
	return b.String()
}

// numbered returns 0,1,2… for a number of devices.
func numbered(n int) string {
	all := make([]string, n)
	for i := range all {
		all[i] = strconv.Itoa(i)
	}
	return strings.Join(all, ",")
}

var (
	maySrun     = regexp.MustCompile(`\bsrun\b`)
	mayScontrol = regexp.MustCompile(`\bscontrol\b`)
	mayRead     = regexp.MustCompile(`(?m)(^|[;&|])\s*(\.|source|eval)\s`)
)

// functions returns the functions that a script may call, directly or in a file that it reads. It omits those that
// the script cannot call, to keep the converted job short.
func functions(script string) (found string) {
	reads := mayRead.MatchString(script)
	if reads || maySrun.MatchString(script) {
		found += ownInput + srun
	}
	if reads || mayScontrol.MatchString(script) {
		found += scontrol
	}
	return found
}

// scontrol prints the addresses of the nodes, one per line; scripts use this to find their head node.
const scontrol = `scontrol() (
  case "${1-} ${2-} $#" in
  'show hostname 2'|'show hostnames 2'|'show hostname 3'|'show hostnames 3') ;;
  *) echo 'scontrol: only scontrol show hostnames [LIST] is known here' >&2; exit 1 ;;
  esac
  case ${3:-$SLURM_JOB_NODELIST} in
  *[[]*) echo 'scontrol: lists of nodes are addresses with commas between here, without brackets' >&2; exit 1 ;;
  *) printf '%s\n' "${3:-$SLURM_JOB_NODELIST}" | tr , '\n' ;;
  esac
)
`

// nodeVariables are the variables that srun does not copy to another node: those that the system or the agent sets on
// each node, including its devices and network, and those that differ by rank. LC_ALL is copied separately, because
// awk needs it.
const nodeVariables = `TRADEWIND_.*|SKYPILOT_.*|SSH_.*|HOME|HOSTNAME|USER|LOGNAME|SHELL|TMPDIR|PWD|OLDPWD|SHLVL|_` +
	`|LC_ALL|SLURM_(NODEID|PROCID|LOCALID|SUBMIT_DIR)|SLURMD_NODENAME|(CUDA|NVIDIA)_VISIBLE_DEVICES|CUDA_DEVICE_ORDER` +
	`|HYDRA_(HOST_FILE|LAUNCHER_EXEC)|OMPI_MCA_(orte_default_hostfile|plm_rsh_agent|(oob|btl)_tcp_if_include)` +
	`|HOROVOD_GLOO_IFACE`

// variables prints the exported variables as quoted arguments of env. It omits the variables of the node, and those
// that the task got from the job. The other nodes already have the latter, and they may be secrets, which other users
// of a machine could read on a command line.
const variables = `LC_ALL=C awk -v q="'" -v ORS= 'BEGIN {
  for (name in ENVIRON) if (name !~ /^(` + nodeVariables + `)$/) {
    value = ENVIRON[name]
    gsub(q, q "\"" q "\"" q, value)
    one = " " q name "=" value q
    if (!index(ENVIRON["TRADEWIND_GIVEN"], one)) print one
  }
}'`

// whichInput identifies a standard input; a pipe has a unique number too.
const whichInput = `"$(stat -L -c %d:%i /dev/stdin 2>/dev/null || ls -L -i /dev/stdin 2>/dev/null || :)"`

// ownInput records the standard input of the script itself. It is usually empty, but it may never end, or contain the
// remaining lines of the script.
const ownInput = `export TRADEWIND_STDIN=` + whichInput + `
`

// srun starts a program on each node, as often as requested, through the agents. It fails if one of them fails. The
// table of steps.go states which of its options are done, ignored and refused.
//
// Programs run in parallel, and a shell gives background programs no standard input. A single program on the first
// node gets the standard input of srun directly. Otherwise each program must get all of it, so srun reads it to its
// end first. For another node it is part of the command, whose size is limited. srun never reads the standard input
// of the script itself, because that could block forever, or consume the rest of the script.
//
// Variables are passed as arguments of env, because it accepts names that a shell does not: bash exports functions as
// BASH_FUNC_f%%, which other shells drop, and some of its variables cannot be set. Awk reads them from the
// environment and not from the output of export -p, in which a value may have several lines. The working folder is
// found by the shell's name for it, or by its real path if a program other than a shell changed to it. The names of
// srun's own variables begin with _, because the script may export variables of any name.
var srun = `srun() (
  unset IFS
  _tasks= _nodes= _each= _cpus= _label= _list= _without= _skip= _input=all _dir= _output= _error= _mode=truncate
  _limit= _late= _bad= _keep= _gpus=${SLURM_GPUS_PER_TASK-} _export=ALL
  refuse() {
    echo "srun: $1" >&2
    exit 1
  }
` + checkGPUs + parseSteps() + srunExport + srunNodes + srunInput + srunGuard + `
  quoted() { # the quote that ends it comes before the last line's end, so that a word's own ends of lines are kept
    printf "'"
    printf '%s\n' "$1" | sed "s/'/'\\\\''/g; \$s/\$/'/"
  }
  labelled() { # by the shell, which keeps no line back, as sed and awk do
    while IFS= read -r _line || [ -n "$_line" ]; do
      printf '%s\n' "$_rank: $_line"
    done
  }
  started() {
    if [ -z "$_label" ]; then
      "$@"
      return
    fi
    { _code=$(
      exec 3>&1
      { { { "$@" 3>&- 4>&- 5>&- && echo 0 >&3 || echo $? >&3; } 2>&1 >&4 | labelled >&2; } 4>&1 | labelled >&5; }
    ); } 5>&1
    return "$_code"
  }
  _command=
  for _word; do
    _command="$_command $(quoted "$_word")"
  done
  if [ "$_addresses" != " $SLURMD_NODENAME" ]; then
    _environment=$(` + variables + `)
    [ -z "${LC_ALL+x}" ] || _environment="$_environment LC_ALL=$(quoted "$LC_ALL")"
    _folder=$PWD _top=$SLURM_SUBMIT_DIR
    case $_folder/ in
    "$_top"/*) ;;
    *) _folder=$(pwd -P) _top=$(cd "$_top" && pwd -P) || _top=$SLURM_SUBMIT_DIR ;;
    esac
    case $_folder/ in
    "$_top"/*) _folder=.${_folder#"$_top"} ;;
    esac
    _there="export SLURM_SUBMIT_DIR=\"\$PWD\"; cd $(quoted "$_folder") 2>/dev/null;"
    _environment="env$_environment SLURM_SUBMIT_DIR=\"\$SLURM_SUBMIT_DIR\""
  fi
  _per=$(( (_tasks + _nodes - 1) / _nodes )) _rank=0 _node=-1 _started=
  [ $(( _per * ${_gpus:-0} )) -le "${SLURM_GPUS_ON_NODE:-0}" ] ||
    refuse "$_gpus GPUs for each rank are more than the ${SLURM_GPUS_ON_NODE:-0} of a node"
  for _address in $_addresses; do
    _node=$(( _node + 1 )) _within=0
    while [ $_within -lt $_per ] && [ $_rank -lt "$_tasks" ]; do
      _set="SLURM_PROCID=$_rank SLURM_LOCALID=$_within SLURM_NODEID=$_node"
      [ -n "$_keep" ] || _set="$_set SLURM_NTASKS=$_tasks SLURM_NPROCS=$_tasks"
      [ -z "$_cpus" ] || _set="$_set SLURM_CPUS_PER_TASK=$_cpus"
      [ -z "$_gpus" ] || _set="$_set CUDA_VISIBLE_DEVICES=$(devices_of $_within)"
      _from=/dev/null _feed=exec
      case $_input in
      all|"$_rank") _from=$_kept _feed=$_carried ;;
      esac
      open_streams
      _pids=pids
      if [ "$_address" != "$SLURMD_NODENAME" ]; then
        _set="$_there $_feed $_environment $_set SLURMD_NODENAME=$_address$_noted$_command" _pids=links
        $_run "$TRADEWIND_RSH_AGENT" "$_address" "$_set" >&7 2>&8 &
      elif [ -n "$_direct" ]; then
        eval "$_run env $_set$_command" <&6 6<&- >&7 2>&8 &
      else
        eval "$_run env $_set$_command" <"$_from" >&7 2>&8 &
      fi
      _started="$_started $!" _rank=$(( _rank + 1 )) _within=$(( _within + 1 ))
    done
  done
  _failed=0 _watcher=
  if [ "$_run" = guarded ]; then
    guard &
    _watcher=$!
  fi
  for _child in $_started; do
    wait $_child || _failed=$?
  done
  if [ -n "$_watcher" ]; then
    kill $_watcher 2>/dev/null || :
    [ ! -e "$_watched/late" ] || [ $_failed -ne 0 ] || _failed=124
    rm -rf "$_watched"
  fi
  [ "$_kept" = /dev/null ] || rm -f "$_kept"
  exit $_failed
)
`

// srunExport applies --export, --chdir, --output and --error. A list of variables without ALL is refused, because it
// would remove the others. The names of a step's output files may contain the rank, the node and the job; a file that
// several ranks share gets the output of all. Without --error, errors go to the file of the output.
const srunExport = `  case ,$_export, in
  *,ALL,*) ;;
  *) refuse "--export=$_export: the other variables can not be removed: add ALL" ;;
  esac
  set -f
  IFS=,
  for _pair in $_export; do
    case $_pair in
    *=*) export "$_pair" ;;
    esac
  done
  set +f
  unset IFS
  case $_mode in
  a|append|t|truncate) ;;
  *) refuse "--open-mode=$_mode: is neither append nor truncate" ;;
  esac
  _opened=
  name_file() { # of a stream of this rank; none if the stream is that of srun
    _file=
    case $1 in
    ''|all|"$_rank") return ;;
    none|[0-9]|[1-9][0-9]|[1-9][0-9][0-9]|[1-9][0-9][0-9][0-9]) _file=/dev/null; return ;;
    esac
    case $(printf %s "$1" | sed 's/%[%tnNjJAaxu]//g') in
    *%*) refuse "$1: only %t, %n, %N, %j, %J, %A, %a, %x and %u are known in the name of a file" ;;
    esac
    _file=$(printf %s "$1" | sed "s|%t|$_rank|g; s|%n|$_node|g; s|%N|$_address|g; s|%A|\
${SLURM_ARRAY_JOB_ID:-$SLURM_JOB_ID}|g; s|%a|${SLURM_ARRAY_TASK_ID-}|g; s|%[jJ]|$SLURM_JOB_ID|g
s|%x|$SLURM_JOB_NAME|g; s|%u|$SLURM_JOB_USER|g; s|%%|%|g")
    case "$_opened " in
    *" $_file "*) return ;;
    esac
    case $_mode in
    a*) : >>"$_file" ;;
    *) : >"$_file" ;;
    esac || refuse "$_file can not be written"
    _opened="$_opened $_file"
  }
  open_streams() {
    exec 7>&1 8>&2
    name_file "$_output"
    if [ -n "$_file" ]; then
      exec 7>>"$_file"
      [ -n "$_error" ] || exec 8>&7
    fi
    name_file "$_error"
    [ -z "$_file" ] || exec 8>>"$_file"
  }
  if [ -n "$_dir" ]; then
    cd "$_dir" || refuse "--chdir=$_dir: there is no such folder"
  fi
`

// srunGuard ends programs before their end if an option asks for it: after a time, when a program has failed, or some
// time after the first program has ended. A program gets SIGTERM, and SIGKILL 30 s later. Before the time limit of the
// job, programs get the signal of --signal. Each writes its process ID, which is that of its process group if setsid
// exists; when the program that connects to another node ends, the one there is ended.
//
// devices_of names the GPUs of a rank, as shell code for its node.
const srunGuard = `
  _seconds=
  case $_limit in
  ''|0|-1|UNLIMITED|INFINITE|unlimited|infinite) ;;
  *[!0-9:-]*) refuse "--time=$_limit: is not a time" ;;
  *)
    _seconds=$(printf '%s\n' "$_limit" | awk '{
      days = 0; clock = $0
      if (split($0, dated, "-") == 2) { days = dated[1]; clock = dated[2] }
      parts = split(clock, part, ":")
      if (clock != $0 || parts == 3) total = part[1] * 3600 + part[2] * 60 + part[3]
      else total = part[1] * 60 + part[2]
      print days * 86400 + total
    }') ;;
  esac
  [ "${_bad:-0}" != 0 ] || _bad=
  [ "${_late:-0}" != 0 ] || _late=
  _run=started _signal=${_SLURM_SIGNAL-} _noted=
  [ "$(date +%s)" -lt "${_SLURM_SIGNAL_AT:-0}" ] || _signal=
  if [ -n "$_seconds$_bad$_late$_signal" ]; then
    _run=guarded _watched=$(mktemp -d "$SLURM_SUBMIT_DIR/.slurm-step-XXXXXX") || refuse 'its programs cannot be watched'
    _apart=$(command -v setsid || :)
    : >"$_watched/ends" >"$_watched/pids" >"$_watched/links"
    _there_pids=${_watched##*/}.pids
    [ -z "$_signal" ] || _noted=" sh -c 'echo \$\$ >>\"\$SLURM_SUBMIT_DIR/\$0\"; exec \"\$@\"' $_there_pids"
  fi
  guarded() {
    if started $_apart sh -c 'echo $$ >>"$0"; exec "$@"' "$_watched/$_pids" "$@"; then
      _code=0
    else
      _code=$?
    fi
    echo $_code >>"$_watched/ends"
    return $_code
  }
  signal_all() { # the processes that the files after the signal's name list
    _name=$1
    shift
    cat "$@" | while read -r _pid; do
      [ -z "$_apart" ] || _pid=-$_pid
      kill -s "$_name" -- "$_pid" 2>/dev/null || kill -s "$_name" "$_pid" 2>/dev/null || : # busybox knows no --
    done
  }
  signal_programs() { # those on other nodes by a second connection, because the first only carries their output
    signal_all "$1" "$_watched/pids"
    for _address in $_addresses; do
      [ "$_address" = "$SLURMD_NODENAME" ] || "$TRADEWIND_RSH_AGENT" "$_address" \
        "while read -r p; do kill -s $1 \$p; done <$_there_pids" </dev/null >/dev/null 2>&1 || :
    done
  }
  pause() { # without the streams of the programs, which a reader waits for
    sleep "$1" </dev/null >/dev/null 2>&1 6<&- 7>&- 8>&-
  }
  guard() {
    _past=0 _over=0
    while pause 1; do
      _past=$(( _past + 1 ))
      if [ -n "$_signal" ] && [ "$(date +%s)" -ge "$_SLURM_SIGNAL_AT" ]; then
        signal_programs "$_signal"
        _signal=
      fi
      if [ -n "$_seconds" ] && [ $_past -ge $_seconds ]; then
        echo "srun: the programs are ended: --time=$_limit has passed" >&2
        : >"$_watched/late"
        break
      fi
      if [ -n "$_bad" ] && grep -qv '^0$' "$_watched/ends"; then
        echo "srun: the programs are ended: one has failed" >&2
        break
      fi
      if [ -n "$_late" ] && [ -s "$_watched/ends" ]; then
        _over=$(( _over + 1 ))
        if [ $_over -gt "$_late" ]; then
          echo "srun: the programs are ended: --wait=$_late has passed since the first one ended" >&2
          break
        fi
      fi
    done
    signal_all TERM "$_watched/pids" "$_watched/links"
    pause 30
    signal_all KILL "$_watched/pids" "$_watched/links"
  }
  devices_of() {
    if [ "$_gpus" = 0 ]; then
      return
    fi
    _first=$(( $1 * _gpus + 1 ))
    printf '"$(printf %%s "${CUDA_VISIBLE_DEVICES:-%s}" | cut -d, -f%s-%s)"' \
      "$(seq -s, 0 $(( SLURM_GPUS_ON_NODE - 1 )))" $_first $(( _first + _gpus - 1 ))
  }
`

// srunNodes determines the nodes on which a program is started, in the job's order: the named ones, and others up to
// the requested number.
const srunNodes = `  nodes_of() { # sets _found and _size: the nodes of a list, each once
    _found= _size=0
    for _name in $(printf %s "$1" | tr , ' '); do
      [ "$_name" != "$(uname -n)" ] || _name=$SLURMD_NODENAME
      case ,$SLURM_JOB_NODELIST, in
      *,"$_name",*) ;;
      *) refuse "$_name is no node of this job, which has $SLURM_JOB_NODELIST" ;;
      esac
      case "$_found " in
      *" $_name "*) ;;
      *) _found="$_found $_name" _size=$(( _size + 1 )) ;;
      esac
    done
  }
  case $_skip in
  *[!0-9]*) refuse "--relative=$_skip: is not a number" ;;
  esac
  [ -z "$_skip" ] || [ -z "$_list$_without" ] || refuse '--relative can not be used with --nodelist or --exclude'
  nodes_of "$_without"
  _without=$_found
  nodes_of "$_list"
  _named=$_found _count=$_size _all= _size=0 _place=0
  for _name in $(printf %s "$SLURM_JOB_NODELIST" | tr , ' '); do
    _place=$(( _place + 1 ))
    case "$_without " in
    *" $_name "*) continue ;;
    esac
    [ $_place -le "${_skip:-0}" ] || _all="$_all $_name" _size=$(( _size + 1 ))
  done
  [ -n "$_nodes" ] || _nodes=$_size
  _nodes=${_nodes%%-*}
  [ -n "$_tasks" ] || [ -z "$_each" ] || _tasks=$(( _each * _nodes ))
  [ -n "$_tasks" ] || _tasks=$SLURM_NTASKS
  [ $_size -gt 0 ] || refuse 'no node of this job remains for the step'
  [ "$_nodes" -le $_size ] || refuse "$_nodes nodes are more than the $_size of this job"
  [ "$_nodes" -ge $_count ] || refuse "--nodelist names $_count nodes, and --nodes asks for $_nodes"
  [ "$_tasks" -ge "$_nodes" ] || _nodes=$_tasks
  [ "$_nodes" -ge $_count ] || _nodes=$_count
  _others=$(( _nodes - _count )) _addresses=
  for _name in $_all; do
    case "$_named " in
    *" $_name "*) _addresses="$_addresses $_name" ;;
    *) [ $_others -eq 0 ] || _addresses="$_addresses $_name" _others=$(( _others - 1 )) ;;
    esac
  done
`

// srunInput determines the input of the programs: a redirection, a pipe or --input of srun, unless it is the input of
// the script itself. It is kept in a file, or passed directly if there is only one program.
const srunInput = `  case $_input in
  all|[0-9]|[1-9][0-9]|[1-9][0-9][0-9]|[1-9][0-9][0-9][0-9]) ;;
  none) exec </dev/null ;;
  *%*) refuse "--input=$_input: names with % are not known here" ;;
  *)
    [ -r "$_input" ] || refuse "--input=$_input: there is no such file to read"
    exec <"$_input"
    _input=all
    ;;
  esac
  _kept=/dev/null _carried=exec _direct=
  if { true 6<&0; } 2>/dev/null && ! [ -t 0 ] && ! [ /dev/stdin -ef /dev/null ] &&
    [ "${TRADEWIND_STDIN-}" != ` + whichInput + ` ]; then
    if [ "$_tasks" -eq 1 ] && [ "$_addresses" = " $SLURMD_NODENAME" ]; then
      _direct=1
      exec 6<&0
    else
      _kept=$(mktemp "$SLURM_SUBMIT_DIR/.slurm-input-XXXXXX") && cat >"$_kept" || refuse 'its input can not be kept'
    fi
  fi
  if [ -s "$_kept" ] && [ "$_addresses" != " $SLURMD_NODENAME" ]; then
    _size=$(( $(wc -c <"$_kept") ))
    if [ $_size -gt 65536 ]; then
      rm -f "$_kept"
      refuse "$_size bytes of input are too many for other nodes, 65536 at most: name it under inputs, and open it"
    fi
    _carried="printf %s $(base64 <"$_kept" | tr -d '\n') | base64 -d |"
  fi`
