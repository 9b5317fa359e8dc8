package broker

import (
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/internal/broker/attempt"
	"github.com/tradewind-broker/tradewind/internal/broker/config"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
)

// A worker was preempted, and its cloud refuses the call that would end the machine. The tasks on it must be lost once
// their agents are silent, although the worker is still in its pool. A task whose agent still calls must not be lost,
// nor one on another worker.
func TestSilentTasksOfEndedWorkerAreLost(t *testing.T) {
	cfg, now := config.Default(), time.Date(2026, 11, 21, 8, 0, 0, 0, time.UTC)
	began := now.Add(-time.Hour)
	on := func(id string, task int, worker string, seen time.Duration) record.Cluster {
		return record.Cluster{ID: id, Job: "j", Task: task, Attempt: 1, State: record.ClusterUp, Command: "run", Since: began,
			Launched: began, Offer: apitypes.Offer{Cloud: apitypes.PoolCloud, Region: record.JobPool("j")},
			Nodes: []record.Node{{Machine: worker, Seen: now.Add(-seen)}}}
	}
	clusters := []record.Cluster{
		on("j.0.1", 0, "w3-1", 9*time.Minute), on("j.1.1", 1, "w3-1", time.Minute), on("j.2.1", 2, "w3-2", 9*time.Minute),
		{ID: "j.3.1", Job: "j", Task: 3, Attempt: 1, Outcome: apitypes.OutcomePreempted, State: record.ClusterReleasing},
		{ID: "j.3.2", Job: "j", Task: 3, Attempt: 2, State: record.ClusterUp},
	}
	workers := map[string][]cloud.Machine{}
	for _, cl := range clusters[:3] {
		workers[cl.ID] = []cloud.Machine{{ID: cl.Nodes[0].Machine, Cluster: cl.ID}}
	}
	dropEndedWorkers(workers, record.Job{ID: "j", Tasks: 3}, clusters)
	list := attempt.Inventory{Asked: now, Of: map[string]map[string][]cloud.Machine{apitypes.PoolCloud: workers}}
	for i, lost := range []bool{true, false, false} {
		if got := attempt.Diagnose(clusters[i], cfg, list, now) == attempt.RemedyLost; got != lost {
			t.Errorf("%s on %s: lost is %v", clusters[i].ID, clusters[i].Nodes[0].Machine, got)
		}
	}
}
