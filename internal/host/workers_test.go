package host_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tradewind-broker/tradewind/internal/broker"
	"github.com/tradewind-broker/tradewind/internal/host"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/dag/read"
)

// runShared runs a job with these tasks to its end. It returns the job and the machines that it had.
func runShared(t *testing.T, tasks string) (*apitypes.JobDetail, apitypes.MachineList) {
	t.Helper()
	h, _ := serve(t, host.Options{State: t.TempDir(), TimeScale: 0.02})
	spec, err := read.Job("job.yaml", strings.NewReader("apiVersion: tradewind/v1\nname: shared\ntasks:"+tasks))
	if err != nil {
		t.Fatal(err)
	}
	job, err := h.Broker().Users.Submit(context.Background(), broker.Submission{Spec: spec})
	if err != nil {
		t.Fatal(err)
	}
	d := await(t, h.Broker(), job.ID)
	list, err := h.Broker().Views.Machines(context.Background(), true)
	if err != nil {
		t.Fatal(err)
	}
	return d, list
}

func TestMembersOfArrayShareAMachine(t *testing.T) {
	d, list := runShared(t, `
  a: {array: 12, run: 'echo $TRADEWIND_ARRAY_INDEX >"$TRADEWIND_OUTPUT/n"', time: 10s, resources: {cpus: 1, memory: 1}}
  sum: {run: 'test $(cat "$TRADEWIND_INPUTS"/a*/n | wc -l) = 12', after: [a], time: 10s}
`)
	shared, usd := 0, 0.0
	for _, m := range list.Machines {
		if !m.Simulated {
			t.Errorf("%s is not marked as simulated", m.ID)
		}
		if usd += m.USD; strings.HasPrefix(m.Task, "worker[") {
			shared += m.Tasks
		}
	}
	if d.State != apitypes.JobSucceeded || len(d.TaskList) != 13 || shared < 12 || len(list.Machines) > 6 {
		t.Errorf("%s (%s), %d tasks, %d of them on workers: %+v", d.State, d.Reason, len(d.TaskList), shared, list.Machines)
	}
	if diff := d.SpentUSD - usd; diff > 1e-9 || diff < -1e-9 {
		t.Errorf("the job cost %v USD, its machines %v", d.SpentUSD, usd)
	}
}

func TestSetupRunsOnceOnEachWorker(t *testing.T) {
	count := filepath.Join(t.TempDir(), "count")
	d, list := runShared(t, fmt.Sprintf(`
  a:
    {array: 12, share: true, setup: 'echo run >>%s; echo made >made', run: cat made, time: 10s, resources: {cpus: 1, memory: 1}}
`, count))
	setups, err := os.ReadFile(count)
	if n := strings.Count(string(setups), "\n"); err != nil || d.State != apitypes.JobSucceeded || n != len(list.Machines) {
		t.Errorf("%s (%s): %d setups on %d machines, %v", d.State, d.Reason, n, len(list.Machines), err)
	}
}
