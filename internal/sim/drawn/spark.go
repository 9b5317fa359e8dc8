package drawn

import (
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/internal/sim/timeline"
	"github.com/tradewind-broker/tradewind/pkg/dag"
)

// Spark makes some tasks of a job Spark tasks, which may run on the services of one cloud and mostly also on
// machines. With always, it takes all tasks that can be Spark tasks.
func Spark(r timeline.Random, j *dag.Job, always bool) {
	if len(j.Arrays) > 0 || record.IsPlaced(j) || !always && !r.Chance(0.7) {
		return
	}
	for i := range j.Tasks {
		t := &j.Tasks[i]
		if t.Gang != "" || t.Joins != "" || t.Share != "" || t.Worker != nil || t.Service != nil ||
			t.Resources[0].Accelerator != "" || !always && !r.Chance(0.7) {
			continue
		}
		scheme, services := "s3", []string{"emr", "emr-serverless"}
		if r.Chance(0.5) {
			scheme, services = "gs", []string{"dataproc", "dataproc-serverless"}
		}
		if n := r.IntN(3); n < len(services) {
			services = services[n : n+1]
		}
		t.Run, t.Recorded, t.Checkpoint = "", 0, nil
		t.Spark = &dag.SparkApp{Main: scheme + "://code/main.py", Args: []string{"$TRADEWIND_OUTPUT/" + SparkOutput}}
		least := float64(1 + r.IntN(3))
		t.Executors = dag.Range{Min: least, Max: least + float64(r.IntN(4))}
		t.MakeSpark(func(string) {})
		for _, name := range services {
			t.Services = append(t.Services, dag.Resources{Service: name})
		}
		if always || r.Chance(0.3) {
			t.Resources = nil
		}
	}
}

// SparkOutput is the folder below a task's outputs to which Spark applications write.
const SparkOutput = "rows"
