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

func TestMembersOfArrayShareAMachine(t *testing.T) {
	h, _ := serve(t, host.Options{State: t.TempDir(), TimeScale: 0.02})
	spec, err := read.Job("job.yaml", strings.NewReader(`apiVersion: tradewind/v1
name: shared
tasks:
  a: {array: 12, run: 'echo $TRADEWIND_ARRAY_INDEX >"$TRADEWIND_OUTPUT/n"', time: 10s, resources: {cpus: 1, memory: 1}}
  sum: {run: 'test $(cat "$TRADEWIND_INPUTS"/a*/n | wc -l) = 12', after: [a], time: 10s}
`))
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
	h, _ := serve(t, host.Options{State: t.TempDir(), TimeScale: 0.02})
	count := filepath.Join(t.TempDir(), "count")
	spec, err := read.Job("job.yaml", strings.NewReader(fmt.Sprintf(`apiVersion: tradewind/v1
name: shared
tasks:
  a:
    {array: 12, share: true, setup: 'echo run >>%s; echo made >made', run: cat made, time: 10s, resources: {cpus: 1, memory: 1}}
`, count)))
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
	setups, err := os.ReadFile(count)
	if n := strings.Count(string(setups), "\n"); err != nil || d.State != apitypes.JobSucceeded || n != len(list.Machines) {
		t.Errorf("%s (%s): %d setups on %d machines, %v", d.State, d.Reason, n, len(list.Machines), err)
	}
}
