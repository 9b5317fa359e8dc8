package broker_test

import (
	"testing"

	"github.com/tradewind-broker/tradewind/internal/agent/wire"
	"github.com/tradewind-broker/tradewind/internal/broker/config"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/dag"
)

// A queue allows one running task. The machine that two tasks share counts as that one, so both tasks run on it.
func TestTasksThatShareAMachineCountAsOne(t *testing.T) {
	s := &queueBench{bench: newBench(t), agents: map[string]*queueAgent{}, specs: map[string]*dag.Job{}, ids: map[string]string{}}
	if err := s.b.Users.SetQueue(t.Context(), "lab", record.QueueSettings{MaxRunning: 1}); err != nil {
		t.Fatal(err)
	}
	s.deliverAll()
	if err := s.submit("shared", map[string]string{"queue": "lab"},
		"tasks:\n  a: &t {run: x, share: true, resources: {cpus: 1, market: on-demand}, time: 1h}\n  b: *t\n"); err != nil {
		t.Fatal(err)
	}
	clusters := s.clusters()
	if len(clusters) != 1 {
		t.Fatalf("%v are bought, not one worker", clusters)
	}
	worker := clusters[0]
	if _, err := s.b.Agents.Hello(t.Context(), s.claims(worker), wire.Hello{Address: "10.0.0.1"}); err != nil {
		t.Fatal(err)
	}
	s.deliverAll()
	work, err := s.b.Agents.Work(t.Context(), s.claims(worker), 0)
	if err != nil || work.Assignment == nil || work.Assignment.Worker == nil {
		t.Fatalf("the machine is no worker: %+v, %v", work, err)
	}
	s.report(worker, wire.Report{Event: wire.Started})
	on := work.Assignment.Worker
	claims := wire.PoolClaims{Pool: on.Pool, Machine: on.Machine, Joined: s.now}
	orders, err := s.b.Agents.SyncMachine(t.Context(), claims, wire.PoolReport{Type: on.Type, Capacity: on.Capacity})
	if err != nil {
		t.Fatal(err)
	}
	s.deliverAll()
	if orders, err = s.b.Agents.SyncMachine(t.Context(), claims,
		wire.PoolReport{Type: on.Type, Capacity: on.Capacity}); err != nil || len(orders.Agents) != 2 {
		t.Errorf("%d of 2 tasks run on the worker: %+v, %v", len(orders.Agents), orders, err)
	}
	s.deliverAll()
	for _, o := range orders.Agents {
		if _, err := s.b.Agents.Hello(t.Context(), s.claims(o.Cluster), wire.Hello{Address: "10.0.0.1"}); err != nil {
			t.Fatal(err)
		}
		s.report(o.Cluster, wire.Report{Event: wire.Started})
	}
	s.deliverAll()
	if orders, err = s.b.Agents.SyncMachine(t.Context(), claims, wire.PoolReport{Type: on.Type, Capacity: on.Capacity,
		Running: []wire.PoolAgent{orders.Agents[0].PoolAgent, orders.Agents[1].PoolAgent}}); err != nil || orders.After != config.DefaultPoolTimes().Full {
		t.Errorf("a worker without room for another task calls again in %v: %v", orders.After, err)
	}
	queues, err := s.b.Views.Queues(t.Context())
	for _, q := range queues {
		if q.Name == "lab" && q.Running != 1 {
			t.Errorf("the queue counts %d running tasks, not 1", q.Running)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
}
