package slurm

import (
	"fmt"
	"strings"
)

// prelude is what a script finds of Slurm: its variables, and srun. With several nodes the script runs on the first;
// srun starts a program on each node as often as was asked for, by the agents, and fails as the first of them does.
func prelude(a *asked, nodes int) string {
	var b strings.Builder
	fmt.Fprintf(&b, `export SLURM_JOB_ID="$TRADEWIND_JOB" SLURM_JOBID="$TRADEWIND_JOB" SLURM_JOB_NAME="$TRADEWIND_TASK"
export SLURM_NNODES=%d SLURM_JOB_NUM_NODES=%d SLURM_NTASKS=%d SLURM_NPROCS=%d
export SLURM_NTASKS_PER_NODE=%d SLURM_CPUS_PER_TASK=%d SLURM_NODEID=0 SLURM_PROCID=0 SLURM_LOCALID=0
export SLURM_SUBMIT_DIR="$PWD" SLURM_CPUS_ON_NODE=%d
`, nodes, nodes, a.tasks, a.tasks, a.perNode, a.cpus, a.perNode*a.cpus)
	if a.array != nil {
		b.WriteString("export SLURM_ARRAY_JOB_ID=\"$TRADEWIND_JOB\"\n")
	}
	if nodes > 1 {
		fmt.Fprintf(&b, `cut -d' ' -f1 "$TRADEWIND_HOSTS" >.slurm-nodes
sed 's/$/ slots=%d/' .slurm-nodes >.slurm-hostfile
export SLURM_JOB_NODELIST="$(paste -sd, .slurm-nodes)" SLURM_NODELIST="$(paste -sd, .slurm-nodes)"
export SLURM_TASKS_PER_NODE='%d(x%d)' OMPI_MCA_ras=^slurm OMPI_MCA_plm=rsh
export OMPI_MCA_orte_default_hostfile="$PWD/.slurm-hostfile" HYDRA_HOST_FILE="$PWD/.slurm-hostfile"
`, a.perNode, a.perNode, nodes)
	}
	b.WriteString(srun)
	return b.String()
}

// srun takes the options that change how often a program is started; the others are Slurm's own.
const srun = `srun() (
  tasks=$SLURM_NTASKS nodes=$SLURM_NNODES
  while [ $# -gt 0 ]; do
    case $1 in
    -n|--ntasks) tasks=$2; shift 2 ;;
    -n*) tasks=${1#-n}; shift ;;
    --ntasks=*) tasks=${1#*=}; shift ;;
    -N|--nodes) nodes=$2; shift 2 ;;
    --nodes=*) nodes=${1#*=}; shift ;;
    --*=*) shift ;;
    -[cGtJmpoew]) shift 2 ;;
    --) shift; break ;;
    -*) shift ;;
    *) break ;;
    esac
  done
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
      "$TRADEWIND_RSH_AGENT" "$(sed -n $(( node + 1 ))p .slurm-nodes)" "$set; exec $command" &
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
