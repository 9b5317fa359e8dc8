package slurm

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/tradewind-broker/tradewind/pkg/dag/kubernetes/podtext"
)

// prelude is what a script finds of Slurm: its variables, and srun. With several nodes the script runs on the first;
// srun starts a program on each node as often as was asked for, by the agents, and fails as the first of them does.
func prelude(a *asked, job string, nodes int) string {
	var b strings.Builder
	id := `"$TRADEWIND_JOB"`
	if a.array != nil { // each task of an array is a job of its own
		b.WriteString("export SLURM_ARRAY_JOB_ID=\"$TRADEWIND_JOB\"\n")
		id = `"${TRADEWIND_JOB}_$SLURM_ARRAY_TASK_ID"`
	}
	onNode := func(n int) string { // as Slurm writes what all nodes have
		if nodes > 1 {
			return fmt.Sprintf("'%d(x%d)'", n, nodes)
		}
		return strconv.Itoa(n)
	}
	cpus := a.perNode * a.cpus
	fmt.Fprintf(&b, `export SLURM_JOB_ID=%s SLURM_JOBID=%s SLURM_JOB_NAME=%s SLURM_CLUSTER_NAME=tradewind
export SLURM_NNODES=%d SLURM_JOB_NUM_NODES=%d SLURM_NTASKS=%d SLURM_NPROCS=%d
export SLURM_NTASKS_PER_NODE=%d SLURM_CPUS_PER_TASK=%d SLURM_NODEID=0 SLURM_PROCID=0 SLURM_LOCALID=0
export SLURM_SUBMIT_DIR="$PWD" SLURM_CPUS_ON_NODE=%d SLURM_JOB_CPUS_PER_NODE=%s SLURM_TASKS_PER_NODE=%s
`, id, id, podtext.Quote(job), nodes, nodes, a.tasks, a.tasks, a.perNode, a.cpus, cpus, onNode(cpus), onNode(a.perNode))
	switch {
	case a.memory > 0:
		fmt.Fprintf(&b, "export SLURM_MEM_PER_NODE=%.0f\n", float64(a.memory)*1024)
	case a.perCPU > 0:
		fmt.Fprintf(&b, "export SLURM_MEM_PER_CPU=%.0f\n", float64(a.perCPU)*1024)
	}
	if gpus := a.devices(nodes); gpus > 0 {
		fmt.Fprintf(&b, "export SLURM_GPUS_ON_NODE=%d\n", gpus)
	}
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
	b.WriteString("export SLURMD_NODENAME=\"${SLURM_JOB_NODELIST%%,*}\"\n")
	b.WriteString(srun)
	return b.String()
}

// srun takes the options that change how often a program is started; the others are Slurm's own.
const srun = `srun() (
  tasks= nodes=$SLURM_NNODES each=
  while [ $# -gt 0 ]; do
    case $1 in
    -n|--ntasks) tasks=$2; shift 2 ;;
    -n*) tasks=${1#-n}; shift ;;
    --ntasks=*) tasks=${1#*=}; shift ;;
    -N|--nodes) nodes=$2; shift 2 ;;
    -N*) nodes=${1#-N}; shift ;;
    --nodes=*) nodes=${1#*=}; shift ;;
    --ntasks-per-node) each=$2; shift 2 ;;
    --ntasks-per-node=*) each=${1#*=}; shift ;;
    --*=*) shift ;;
    -[ABcCdDeGiJLmMopqrStTwWx]) shift 2 ;;
    --account|--chdir|--constraint|--container-*|--cores-per-socket|--cpu-bind|--cpu-freq|--cpus-per-*) shift 2 ;;
    --dependency|--distribution|--epilog|--error|--exclude|--export|--export-file|--extra-node-info) shift 2 ;;
    --gpu-*|--gpus|--gpus-per-*|--gres|--gres-flags|--hint|--input|--job-name|--jobid|--licenses) shift 2 ;;
    --mail-*|--mem|--mem-*|--mincpus|--mpi|--network|--nodefile|--nodelist|--ntasks-per-*|--open-mode) shift 2 ;;
    --output|--partition|--prefer|--priority|--profile|--prolog|--qos|--relative|--reservation|--signal) shift 2 ;;
    --sockets-per-node|--switches|--task-*|--thread-spec|--threads|--threads-per-core|--time|--time-min) shift 2 ;;
    --tmp|--tres-per-task|--wait|--wckey) shift 2 ;;
    --) shift; break ;;
    -*) shift ;;
    *) break ;;
    esac
  done
  [ -n "$tasks" ] || [ -z "$each" ] || tasks=$(( each * nodes ))
  [ -n "$tasks" ] || tasks=$SLURM_NTASKS
  command=
  for word; do
    command="$command '$(printf %s "$word" | sed "s/'/'\\\\''/g")'"
  done
  per=$(( (tasks + nodes - 1) / nodes )) rank=0 started=
  while [ $rank -lt $tasks ]; do
    node=$(( rank / per ))
    set="export SLURM_PROCID=$rank SLURM_LOCALID=$(( rank % per )) SLURM_NODEID=$node"
    set="$set SLURM_NTASKS=$tasks SLURM_NPROCS=$tasks"
    if [ $node -eq 0 ]; then
      sh -c "$set; exec $command" &
    else
      "$TRADEWIND_RSH_AGENT" "$(sed -n $(( node + 1 ))p "$SLURM_SUBMIT_DIR/.slurm-nodes")" "$set; exec $command" &
    fi
    started="$started $!" rank=$(( rank + 1 ))
  done
  failed=0
  for child in $started; do
    wait $child || failed=$?
  done
  exit $failed
)
`
