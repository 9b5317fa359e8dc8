package pool

import (
	"testing"

	"github.com/tradewind-broker/tradewind/internal/agent/wire"
	"github.com/tradewind-broker/tradewind/internal/broker/config"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/dag"
)

// A worker reports the end of a task and no task is ready. The worker must ask again as soon as a task can be ready.
func TestWorkerWithRoomAsksAgainSoonAfterAnEnd(t *testing.T) {
	cfg := config.Default()
	cfg.Pace.Polls = true
	s := syncing{
		cfg: cfg, worker: &record.PoolWorker{},
		m:    &record.PoolMachine{Capacity: apitypes.Capacity{CPUs: 2, MemoryGiB: 8}},
		spec: &dag.Job{Tasks: []dag.Task{{ShareGroup: 1, Resources: []dag.Resources{{}}}}},
	}
	var quiet, ended wire.PoolOrders
	s.pace(&quiet, cfg.Pool.Idle)
	s.report.Ended = []wire.PoolEnd{{}}
	s.pace(&ended, cfg.Pool.Idle)
	if quiet.After != cfg.Pool.Busy || ended.After != cfg.Pool.Gather {
		t.Errorf("it asks again in %v, after an end in %v", quiet.After, ended.After)
	}
}
