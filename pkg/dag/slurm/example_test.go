package slurm_test

import (
	"fmt"

	"github.com/tradewind-broker/tradewind/pkg/dag/slurm"
)

func ExampleParse() {
	job, err := slurm.Parse("sweep.sh", []byte(`#!/bin/bash
#SBATCH --job-name=sweep
#SBATCH --array=1-3
#SBATCH --cpus-per-task=4
#SBATCH --time=00:30:00
python sweep.py --seed "$SLURM_ARRAY_TASK_ID"
`))
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, t := range job.Tasks {
		fmt.Println(t.Name, t.Resources[0].CPUs.Min)
	}
	// Output:
	// sweep[1] 4
	// sweep[2] 4
	// sweep[3] 4
}
