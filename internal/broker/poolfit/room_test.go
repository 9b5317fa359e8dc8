package poolfit_test

import (
	"fmt"
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tradewind-broker/tradewind/internal/broker/config"
	"github.com/tradewind-broker/tradewind/internal/broker/poolfit"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
)

// TestMakeIsFeasible: room is made for random tasks on random machines. No machine may then hold more than it has.
func TestMakeIsFeasible(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		machines, runs := drawMachines(t)
		task := poolfit.Task{Nodes: rapid.IntRange(1, 2).Draw(t, "nodes"), May: map[record.MachineClass]float64{},
			Hold: apitypes.Capacity{CPUs: rapid.Float64Range(0.5, 8).Draw(t, "cpus"), MemoryGiB: 1}}
		direct := 0
		for _, m := range machines {
			if rapid.IntRange(0, 4).Draw(t, "may") > 0 {
				task.May[m.Class()] = 1
			}
		}
		for _, m := range machines {
			if _, may := task.May[m.Class()]; may && record.Fits(task.Hold, m.Free()) {
				direct++
			}
		}
		most := rapid.Float64Range(0.1, 10).Draw(t, "most")
		room, err := poolfit.MakeRoom(machines, task, runs, most)
		if err != nil {
			t.Fatal(err)
		}
		if room == nil {
			if direct >= task.Nodes {
				t.Fatalf("%d machines have room already", direct)
			}
			return
		}
		if direct >= task.Nodes && len(room.Leaves) > 0 {
			t.Fatalf("%d machines have room, but %d tasks leave", direct, len(room.Leaves))
		}
		free, loss := map[string]apitypes.Capacity{}, 0.0
		for _, m := range machines {
			free[m.ID] = m.Free()
		}
		give := func(id string, hold apitypes.Capacity) {
			if !record.Fits(hold, free[id]) {
				t.Fatalf("%s has %+v free and is given %+v", id, free[id], hold)
			}
			f := free[id]
			f.CPUs, f.MemoryGiB = f.CPUs-hold.CPUs, f.MemoryGiB-hold.MemoryGiB
			free[id] = f
		}
		for _, l := range room.Leaves { // the new machine must have room before any task has left it
			if l.To == "" {
				loss += l.Runs.LeaveUSD
				continue
			}
			loss += l.Runs.MoveUSD
			give(l.To, l.Runs.Hold)
			if l.To == l.Runs.Machine {
				t.Fatalf("%s moves to its own machine", l.Runs.Cluster)
			}
		}
		for _, l := range room.Leaves {
			f := free[l.Runs.Machine]
			f.Add(l.Runs.Hold)
			free[l.Runs.Machine] = f
		}
		for i, host := range room.Hosts {
			if i > 0 && host == room.Hosts[0] {
				t.Fatalf("two nodes are on %s", host)
			}
			give(host, task.Hold)
		}
		if math.IsNaN(loss) || loss >= most || len(room.Hosts) != task.Nodes {
			t.Fatalf("it loses %v of %v, on %v", loss, most, room.Hosts)
		}
	})
}

func drawMachines(t *rapid.T) (machines []*record.PoolMachine, runs []poolfit.RunningTask) {
	all := map[record.MachineClass]float64{}
	for n := range rapid.IntRange(1, 5).Draw(t, "machines") {
		m := &record.PoolMachine{ID: fmt.Sprint("m", n), Type: rapid.SampledFrom([]string{"a", "b"}).Draw(t, "type"),
			Capacity: apitypes.Capacity{CPUs: float64(rapid.IntRange(4, 8).Draw(t, "has")), MemoryGiB: 64}}
		all[m.Class()] = 1
		for k := range rapid.IntRange(0, 3).Draw(t, "uses") {
			use := record.PoolUse{Cluster: fmt.Sprintf("j%d.%d.1", n, k),
				Hold: apitypes.Capacity{CPUs: rapid.Float64Range(0.5, 4).Draw(t, "holds"), MemoryGiB: 2}}
			if !record.Fits(use.Hold, m.Free()) {
				continue
			}
			m.Uses = append(m.Uses, use)
			if rapid.IntRange(0, 3).Draw(t, "stays") > 0 {
				r := poolfit.RunningTask{Cluster: use.Cluster, Machine: m.ID, Hold: use.Hold, May: all, LeaveUSD: math.Inf(1),
					MoveUSD: rapid.Float64Range(0, 5).Draw(t, "loses")}
				if rapid.Bool().Draw(t, "lower") {
					r.LeaveUSD = r.MoveUSD + 1
				}
				runs = append(runs, r)
			}
		}
		machines = append(machines, m)
	}
	return machines, runs
}

// TestKeptMachineUntilTaken: room that is promised to a task counts as used for all other tasks, until the promise
// expires.
func TestKeptMachineUntilTaken(t *testing.T) {
	now := time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)
	times := config.DefaultPoolTimes()
	has := apitypes.Capacity{CPUs: 8, MemoryGiB: 32}
	hold := apitypes.Capacity{CPUs: 6, MemoryGiB: 8}
	m := record.PoolMachine{ID: "m1", Capacity: has, Uses: []record.PoolUse{{Cluster: "j.0.1",
		Hold: apitypes.Capacity{CPUs: 4, MemoryGiB: 8}}}}
	m.Promise(record.PoolPromise{For: "k/x", Hold: hold, Until: now.Add(time.Minute), Waits: true}, now)
	kept := func(at time.Time, task string) (there, free, waits bool) {
		part := record.PartSeen{Seen: map[string]time.Time{"m1": at}}
		part.Machines = []record.PoolMachine{m}
		p := &record.PoolSeen{Parts: []record.PartSeen{part}}
		machines, free, waits := poolfit.Kept(p, task, 1, hold, times, at)
		return machines != nil, free, waits
	}
	if there, free, waits := kept(now, "k/x"); !there || free || !waits {
		t.Error("the task does not wait for the running task to leave")
	}
	m.Uses = nil
	if there, free, waits := kept(now, "k/x"); !there || !free || waits {
		t.Error("the task does not start after the other has left")
	}
	if there, _, _ := kept(now, "k/y"); there {
		t.Error("it is kept for another task")
	}
	if there, _, _ := kept(now.Add(time.Minute), "k/x"); there {
		t.Error("it is kept for too long")
	}
	if left := m.WithPromises("k/y", now); left.Free().CPUs != 2 || len(m.Uses) != 0 {
		t.Errorf("another has %+v", left.Free())
	}
	if left := m.WithPromises("k/y", now.Add(time.Minute)); left.Free().CPUs != 8 {
		t.Errorf("another has %+v after it has expired", left.Free())
	}
	m.Draining = true
	if there, _, _ := kept(now, "k/x"); there {
		t.Error("it was placed on a machine that accepts no tasks")
	}
	if m.Forget("k/x", now); m.Promises != nil {
		t.Errorf("remaining promises: %+v", m.Promises)
	}
}
