package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"github.com/tradewind-broker/tradewind/bench/internal/jsonlines"
	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/internal/broker"
	"github.com/tradewind-broker/tradewind/internal/broker/config"
	pools "github.com/tradewind-broker/tradewind/internal/broker/pool"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/internal/broker/txn"
	"github.com/tradewind-broker/tradewind/pkg/parsync"
	"github.com/tradewind-broker/tradewind/pkg/store"
)

// work is the input of a process, and done its output: lines of JSON.
type work struct {
	Endpoint string
	Name     string
	Policy   parsync.Policy
	Turn     time.Duration
	Ready    [][]byte // events
}

type done struct {
	Placed, Bought, Commits, Conflicts int
}

// countingStore counts the transactions of sessions, and those that conflicted.
type countingStore struct {
	store.Store
	commits, conflicts atomic.Int64
}

// Commit implements store.Store.
func (c *countingStore) Commit(ctx context.Context, tx store.Tx) error {
	err := c.Store.Commit(ctx, tx)
	for i := range tx.Writes {
		if tx.Writes[i].Key == record.SeatsKey() {
			return err // two brokers that take a number at once do not conflict over machines
		}
	}
	c.commits.Add(1)
	if errors.Is(err, store.ErrConflict) {
		c.conflicts.Add(1)
	}
	return err
}

// place is one process: it takes a number, reports it, and places its tasks when it is started.
func place(ctx context.Context, in io.Reader, out io.Writer) error {
	lines := bufio.NewReader(in)
	var w work
	if err := jsonlines.Read(lines, &w); err != nil {
		return err
	}
	p, records, err := ports(w.Endpoint)
	if err != nil {
		return err
	}
	defer func() { _ = records.Close() }()
	of := &countingStore{Store: records}
	p.Store = of
	cfg := config.Default()
	cfg.Process, cfg.Rotates, cfg.Pool.Turn = w.Name, w.Policy, w.Turn
	// It registers before the others start: a broker that starts after all have registered knows their number.
	txns := txn.NewTransactor(p.Store, p.Now, cfg, txn.Hooks{})
	if _, _, err := pools.New(txns, pools.NewKnown(), p.Tokens, nil).PoolsNow(ctx, time.Now()); err != nil {
		return err
	}
	if err := jsonlines.Write(out, "ready"); err != nil {
		return err
	}
	if err := jsonlines.Read(lines, new(string)); err != nil {
		return err
	}
	b := broker.New(cfg, p)
	for _, body := range w.Ready {
		e, err := events.Parse(body)
		if err != nil {
			return err
		}
		for err := errors.New("first"); err != nil; { // a queue would redeliver the event
			if err = errors.Join(b.Functions.Handle(ctx, events.FnSchedule, []events.Event{e})...); ctx.Err() != nil {
				return ctx.Err()
			}
		}
	}
	d := done{Commits: int(of.commits.Load()), Conflicts: int(of.conflicts.Load())}
	if err := jsonlines.Write(out, d); err != nil {
		return err
	}
	return nil
}

// runAll makes processes place all tasks at once, each the tasks of its jobs.
func runAll(ctx context.Context, s sizes, policy parsync.Policy, n int, program []string, endpoint string,
	ready [][][]byte) (m measure, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // ends the remaining processes
	m = measure{policy: policy, processes: n}
	var all []*jsonlines.Process
	for i := range n {
		w := work{Endpoint: endpoint, Name: fmt.Sprint("process ", i), Policy: policy, Turn: s.turn}
		for j := i; j < len(ready); j += n {
			w.Ready = append(w.Ready, ready[j]...)
		}
		p, err := jsonlines.Start(ctx, program[0], program[1:]...)
		if err != nil {
			return m, err
		}
		if err := p.Send(w); err != nil {
			return m, err
		}
		all = append(all, p)
	}
	for _, p := range all {
		if err := p.Receive(new(string)); err != nil {
			return m, err
		}
	}
	begun := time.Now()
	for _, p := range all {
		if err := p.Send("go"); err != nil {
			return m, err
		}
	}
	for _, p := range all {
		var d done
		if err := p.Receive(&d); err != nil {
			return m, err
		}
		m.commits, m.conflicts = m.commits+d.Commits, m.conflicts+d.Conflicts
	}
	m.took = time.Since(begun)
	for _, p := range all {
		if err := p.Wait(); err != nil {
			return m, err
		}
	}
	return m, m.count(ctx, endpoint, s)
}

// count counts the placed tasks, and checks that no machine holds more than its capacity.
func (m *measure) count(ctx context.Context, endpoint string, s sizes) error {
	p, records, err := ports(endpoint)
	if err != nil {
		return err
	}
	defer func() { _ = records.Close() }()
	views, err := broker.New(config.Default(), p).Views.Pools(ctx)
	if err != nil {
		return err
	}
	for _, v := range views {
		for _, machine := range v.Machines {
			if machine.Used.CPUs > slotsEach*cpus {
				return fmt.Errorf("%s holds %g vCPUs", machine.ID, machine.Used.CPUs)
			}
			m.placed += len(machine.Tasks)
		}
	}
	m.bought = s.jobs*s.tasks - m.placed
	return nil
}
