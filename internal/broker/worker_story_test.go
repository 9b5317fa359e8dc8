package broker_test

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/internal/agent/wire"
	"github.com/tradewind-broker/tradewind/internal/broker"
	"github.com/tradewind-broker/tradewind/internal/broker/config"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
)

// TestWorkerStories runs the files of testdata/workers: tasks that share machines. The commands are those of
// TestPoolStories, and:
//
//	boot                   the machines that were bought call the broker, and join the pool of their job
//	take WORKER            the cloud takes the machine of a worker, without notice
//	warn WORKER            the cloud announces that it will take it in two minutes
//	spoil WORKER           the agent of the machine fails
//	depart WORKER          the worker has left its pool: its agent has ended
//	machines               all machines that were bought
//	chunk TIME             short members of arrays run in chunks of at most TIME; before submit
//	chunk-ends TASK ok=N fail=M   the agent of a chunk reports its end
//	suspend
//	resume
func TestWorkerStories(t *testing.T) {
	datadriven.Walk(t, filepath.Join("testdata", "workers"), func(t *testing.T, path string) {
		s := &workerBench{poolBench: &poolBench{bench: newBench(t), machines: map[string]*poolMachine{}}, own: map[string]*poolAgent{}}
		ports := s.b.Ports()
		ports.Planner = struct{ broker.Planner }{ports.Planner}
		s.b = broker.New(config.Default(), ports)
		datadriven.RunTest(t, path, s.command)
	})
}

// workerBench is a poolBench whose machines are workers.
type workerBench struct {
	*poolBench
	own map[string]*poolAgent // the agent of each worker's own attempt, by its name
}

func (s *workerBench) command(t *testing.T, d *datadriven.TestData) string {
	f, ok := map[string]func(*datadriven.TestData) error{
		"boot": s.boot, "take": s.take, "warn": s.warn, "spoil": s.fail, "depart": s.depart, "machines": s.bought,
		"suspend": s.suspend, "resume": s.resume, "chunk": s.chunk, "chunk-ends": s.chunkEnds,
	}[d.Cmd]
	if !ok {
		return s.poolBench.command(t, d)
	}
	s.t = t
	s.out.Reset()
	if err := f(d); err != nil {
		s.printf("error: %v", err)
	}
	return s.out.String()
}

// boot makes the agents of bought machines say hello. Those of workers become machines of their job's pool.
func (s *workerBench) boot(*datadriven.TestData) error {
	list, err := s.b.Views.Machines(context.Background(), false)
	if err != nil {
		return err
	}
	for _, m := range list.Machines {
		task, number, ok := record.ClusterAttempt(m.ID)
		name := record.WorkerName(task, number)
		if !ok || m.Job != s.job || m.State != "booting" || s.own[name] != nil {
			continue
		}
		a := &poolAgent{claims: wire.Claims{Job: m.Job, Cluster: m.ID}}
		w, err := s.b.Agents.Hello(context.Background(), a.claims, wire.Hello{Address: "10.0.0.9"})
		if err != nil {
			return err
		}
		s.deliverAll()
		if w.Assignment == nil {
			if w, err = s.b.Agents.Work(context.Background(), a.claims, 0); err != nil {
				return err
			}
		}
		if w.Assignment == nil || w.Assignment.Worker == nil {
			s.printf("%s is no worker", m.ID)
			continue
		}
		is := w.Assignment.Worker
		s.printf("%s joins as %s with %g vCPUs, %g GiB", m.Task, is.Machine, is.Capacity.CPUs, is.Capacity.MemoryGiB)
		s.own[name] = a
		s.say(a, wire.Report{Event: wire.Started})
		of := &poolMachine{pool: is.Pool, id: is.Machine, agents: map[wire.PoolAgent]*poolAgent{},
			claims: wire.PoolClaims{Pool: is.Pool, Machine: is.Machine, Joined: s.now},
			report: wire.PoolReport{Type: is.Type, Capacity: is.Capacity}}
		s.machines[is.Machine] = of
		if err := s.syncOne(of); err != nil {
			return err
		}
	}
	return nil
}

func (s *workerBench) notice(d *datadriven.TestData, kind cloud.NoticeKind, lead time.Duration) error {
	name := d.CmdArgs[0].Key
	a := s.own[name]
	if kind == cloud.Taken {
		s.machines[name].vanished = true
	}
	s.serial++
	e := events.New(fmt.Sprint("notice", s.serial), "test", s.now, events.SpotInterrupted{Cluster: a.claims.Cluster,
		Job: a.claims.Job, Kind: string(kind), At: s.now.Add(lead)})
	errs := s.b.Functions.Handle(context.Background(), events.FnInterrupt, []events.Event{e})
	s.deliverAll()
	return errs[0]
}

func (s *workerBench) take(d *datadriven.TestData) error { return s.notice(d, cloud.Taken, 0) }

func (s *workerBench) warn(d *datadriven.TestData) error {
	return s.notice(d, cloud.Interruption, 2*time.Minute)
}

func (s *workerBench) fail(d *datadriven.TestData) error {
	name := d.CmdArgs[0].Key
	s.say(s.own[name], wire.Report{Event: wire.Failed, ExitCode: -1, Phase: wire.PhaseRun, Message: "no disk"})
	delete(s.machines, name)
	s.deliverAll()
	return nil
}

func (s *workerBench) depart(d *datadriven.TestData) error {
	name := d.CmdArgs[0].Key
	m := s.machines[name]
	m.report.Leaving = true
	if err := s.syncOne(m); err != nil {
		return err
	}
	s.say(s.own[name], wire.Report{Event: wire.Succeeded, Empty: true})
	delete(s.machines, name)
	s.deliverAll()
	return nil
}

func (s *workerBench) bought(*datadriven.TestData) error {
	list, err := s.b.Views.Machines(context.Background(), true)
	if err != nil {
		return err
	}
	slices.SortStableFunc(list.Machines, func(x, y apitypes.WorkerView) int { return strings.Compare(x.ID, y.ID) })
	for _, m := range list.Machines {
		s.printf("%s %s: %s, %d tasks", m.ID, m.Task, m.State, m.Tasks)
	}
	return nil
}

func (s *workerBench) suspend(*datadriven.TestData) error {
	err := s.b.Users.Suspend(context.Background(), s.job, apitypes.Suspension{By: "me"}, "")
	s.deliverAll()
	return err
}

func (s *workerBench) resume(*datadriven.TestData) error {
	err := s.b.Users.Resume(context.Background(), s.job, "me", "")
	s.deliverAll()
	return err
}

// chunk makes the broker run short members of arrays in chunks of at most the given time.
func (s *workerBench) chunk(d *datadriven.TestData) (err error) {
	cfg := config.Default()
	if cfg.Chunk, err = time.ParseDuration(d.CmdArgs[0].Key); err != nil {
		return err
	}
	ports := s.b.Ports()
	s.b = broker.New(cfg, ports)
	return nil
}

// chunkEnds makes the agent of a chunk report its end: its own task and the next ok members have succeeded, the next fail
// members have failed, and the others did not run.
func (s *workerBench) chunkEnds(d *datadriven.TestData) error {
	_, named := words(d)
	ok, fails := int(number(named["ok"])), int(number(named["fail"]))
	for _, name := range slices.Sorted(maps.Keys(s.machines)) {
		for ref, a := range s.machines[name].agents {
			if a.over || s.taskOf(ref.Cluster) != d.CmdArgs[0].Key {
				continue
			}
			task, attempt, _ := record.ClusterAttempt(ref.Cluster)
			r := wire.Report{Event: wire.Succeeded, Ran: 30 * time.Second}
			for i := range ok + fails {
				end := wire.ChunkEnd{Attempt: record.ClusterID(s.job, task+1+i, attempt), Ran: 30 * time.Second}
				if i >= ok {
					end.Failed, end.ExitCode, end.Message = true, 3, "sorry"
				}
				r.Chunk = append(r.Chunk, end)
			}
			s.say(a, r)
			a.over = true
		}
	}
	return nil
}
