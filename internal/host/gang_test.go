package host_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/internal/host"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/client"
)

// A gang runs on machines of this computer. Its launcher must find the workers and run a program on each, without
// ssh. The workers never end by themselves: they must count as succeeded when the launcher has succeeded.
func TestGangFindsMembersAndEndsWithChief(t *testing.T) {
	state := t.TempDir()
	h, _ := serve(t, host.Options{State: state})
	c := client.New(h.URL(), h.Token())
	file := []byte(`apiVersion: tradewind/v1
name: gang
tasks:
  ring:
    framework: mpi
    resources: {cpus: 1+}
    time: 1m
    gang:
      roles:
        launcher:
          run: |
            set -e
            [ "$(cut -d' ' -f1 "$TRADEWIND_HOSTFILE" | paste -sd,)" = "$TRADEWIND_HOSTS_WORKER" ]
            grep " worker-1$" "$TRADEWIND_HOSTS"
            for host in $(echo "$TRADEWIND_HOSTS_WORKER" | tr , ' '); do
              "$TRADEWIND_RSH_AGENT" $host 'echo "$TRADEWIND_ROLE $TRADEWIND_NODE_RANK of gang $TRADEWIND_GANG"'
            done
        worker: {replicas: 2, run: sleep 100000}
  after: {run: "true", after: [ring]}
`)
	job, err := c.Submit(t.Context(), "job.yaml", "", file, nil)
	if err != nil {
		t.Fatal(err)
	}
	d := await(t, h.Broker(), job.ID)
	var log strings.Builder
	for _, body := range files(t, filepath.Join(state, "logs")) {
		log.WriteString(body)
	}
	if d.State != apitypes.JobSucceeded {
		t.Fatalf("%s: %s\n%s", d.State, d.Reason, log.String())
	}
	for _, want := range []string{"worker 0 of gang ring\n", "worker 1 of gang ring\n"} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("no %q in the log:\n%s", want, log.String())
		}
	}
}

// A task has retries, and fails with an exit code that aborts the job. It must not be retried.
func TestAbortingExitCodeIsNotRetried(t *testing.T) {
	h, _ := serve(t, host.Options{State: t.TempDir()})
	c := client.New(h.URL(), h.Token())
	file := []byte(`apiVersion: tradewind/v1
name: gang
tasks:
  work:
    run: exit 3
    retries: 5
    on: {podFailed: [{action: abort, exitCodes: [3]}, {action: restartGang}]}
    resources: {cpus: 1+}
    time: 1m
`)
	job, err := c.Submit(t.Context(), "job.yaml", "", file, nil)
	if err != nil {
		t.Fatal(err)
	}
	if d := await(t, h.Broker(), job.ID); d.State != apitypes.JobFailed || len(d.Attempts) != 1 {
		t.Errorf("%s after %d attempts: %s", d.State, len(d.Attempts), d.Reason)
	}
}

// Machines join a role while the role's own members run. They must get the addresses of the members. They never end
// by themselves: they must count as succeeded when the role's own members have succeeded.
func TestMachinesJoinRunningRole(t *testing.T) {
	h, _ := serve(t, host.Options{State: t.TempDir()})
	c := client.New(h.URL(), h.Token())
	file := []byte(`apiVersion: tradewind/v1
name: grow
env: {SHARED: ` + t.TempDir() + `}
tasks:
  work:
    resources: {cpus: 1+}
    time: 1m
    gang:
      roles:
        worker:
          min: 1
          max: 3
          run: |
            set -e
            if [ "$TRADEWIND_GANG_RANK" = 0 ]; then
              until [ "$(ls "$SHARED" | wc -l)" = 2 ]; do sleep 0.1; done
              exit
            fi
            [ "${TRADEWIND_HOSTS_WORKER%%,*}" = "$TRADEWIND_GANG_HEAD" ]
            touch "$SHARED/$TRADEWIND_TASK"
            sleep 100000
  after: {run: "true", after: [work]}
`)
	job, err := c.Submit(t.Context(), "job.yaml", "", file, nil)
	if err != nil {
		t.Fatal(err)
	}
	if d := await(t, h.Broker(), job.ID); d.State != apitypes.JobSucceeded || d.Tasks != 4 {
		t.Fatalf("%s: %s, %d tasks", d.State, d.Reason, d.Tasks)
	}
}

// A role restarts while the other roles keep running. Their files of addresses must get the role's new address.
func TestRoleRestartsWhileOthersContinue(t *testing.T) {
	t.Parallel()
	h, _ := serve(t, host.Options{State: t.TempDir()})
	c := client.New(h.URL(), h.Token())
	shared := t.TempDir()
	file := []byte(`apiVersion: tradewind/v1
name: again
env: {SHARED: ` + shared + `}
tasks:
  pair:
    resources: {cpus: 1+}
    time: 1m
    gang:
      roles:
        server:
          on: {taskCompleted: complete}
          run: |
            until [ -e "$SHARED/failed" ]; do sleep 0.1; done
            until "$TRADEWIND_RSH_AGENT" worker-0 'echo "attempt $TRADEWIND_ATTEMPT"' | grep '\.1\.2$'; do sleep 0.1; done
        worker:
          on: {podFailed: {action: restartRole, limit: 1}}
          run: |
            [ -e "$SHARED/failed" ] && exec sleep 100000
            until [ -e "$SHARED/both-run" ]; do sleep 0.1; done
            touch "$SHARED/failed"
            exit 3
`)
	job, err := c.Submit(t.Context(), "job.yaml", "", file, nil)
	if err != nil {
		t.Fatal(err)
	}
	// The broker must know that the other members run. Otherwise it would restart the whole gang.
	for running := 0; running < 2; {
		d, err := h.Broker().Views.JobDetail(t.Context(), job.ID)
		if err != nil || d.State.Finished() {
			t.Fatal(d, err)
		}
		running = 0
		for _, task := range d.TaskList {
			if task.State == string(record.TaskRunning) {
				running++
			}
		}
		time.Sleep(20 * time.Millisecond)
	}
	if err := os.WriteFile(filepath.Join(shared, "both-run"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	d := await(t, h.Broker(), job.ID)
	if d.State != apitypes.JobSucceeded {
		t.Fatalf("%s: %s", d.State, d.Reason)
	}
	attempts := map[int]int{}
	for _, a := range d.Attempts {
		attempts[a.Task]++
	}
	if attempts[0] != 1 || attempts[1] != 2 {
		t.Errorf("attempts: %v", attempts)
	}
}
