package host_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tradewind-broker/tradewind/internal/agent"
	"github.com/tradewind-broker/tradewind/internal/host"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/client"
)

// A job group of SkyPilot runs on machines of this computer. Its tasks must start together, the trainer must reach
// the others by their names, and the trainer's end must end the tasks that would run for ever. Afterwards, the file
// of names must be as before.
func TestSkyPilotJobGroupRuns(t *testing.T) {
	const before = "127.0.0.1 localhost\n"
	hosts, met := filepath.Join(t.TempDir(), "hosts"), t.TempDir()
	if err := os.WriteFile(hosts, []byte(before), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv(agent.EnvHosts, hosts)
	h, stop := serve(t, host.Options{State: t.TempDir()})
	c := client.New(h.URL(), h.Token())
	file := strings.NewReplacer("HOSTS", hosts, "MET", met).Replace(`name: team
execution: parallel
primary_tasks: [trainer]
---
name: trainer
resources: {cpus: 1+, memory: 1+}
run: |
  set -e
  [ "$SKYPILOT_JOBGROUP_NAME" = team ]
  for name in trainer-0.team server-0.team server-1.team; do
    grep -q "^127[.0-9]* $name " HOSTS
  done
  until [ -e MET/address ]; do sleep 0.05; done
  grep -q "^$(cat MET/address) server-1.team " HOSTS
---
name: server
num_nodes: 2
resources: {cpus: 1+, memory: 1+}
setup: grep -q " trainer-0.team " HOSTS
run: |
  if [ "$SKYPILOT_NODE_RANK" = 1 ]; then
    echo "$SKYPILOT_NODE_IPS" | sed -n 2p >MET/.address
    mv MET/.address MET/address
  fi
  sleep 100000
`)
	job, err := c.Submit(t.Context(), "group.yaml", "", []byte(file), nil)
	if err != nil {
		t.Fatal(err)
	}
	d := await(t, h.Broker(), job.ID)
	if d.State != apitypes.JobSucceeded || len(d.Attempts) != 2 {
		t.Fatalf("%s after %d attempts: %s", d.State, len(d.Attempts), d.Reason)
	}
	stop()
	if after, err := os.ReadFile(hosts); string(after) != before || err != nil { //nolint:gosec // of the test
		t.Errorf("names that are left: %s %v", after, err)
	}
}
