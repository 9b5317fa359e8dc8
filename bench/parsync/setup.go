package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/internal/agent/wire"
	"github.com/tradewind-broker/tradewind/internal/broker"
	"github.com/tradewind-broker/tradewind/internal/broker/config"
	"github.com/tradewind-broker/tradewind/internal/broker/planner"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/internal/emulator"
	"github.com/tradewind-broker/tradewind/internal/store/dynamo"
	"github.com/tradewind-broker/tradewind/pkg/catalog"
	"github.com/tradewind-broker/tradewind/pkg/catalog/egress"
	"github.com/tradewind-broker/tradewind/pkg/dag/read"
)

const (
	table = "parsync"
	pool  = "lab"
	cpus  = 4 // of a task
)

// ports are the ports of a broker on a table.
func ports(endpoint string) (broker.Ports, *dynamo.Store, error) {
	s, err := dynamo.New(emulator.Config(endpoint), table, dynamo.Options{RequestTimeout: time.Minute})
	if err != nil {
		return broker.Ports{}, nil, err
	}
	c, err := catalog.Default()
	if err != nil {
		return broker.Ports{}, nil, err
	}
	moves, err := egress.Default()
	if err != nil {
		return broker.Ports{}, nil, err
	}
	opt := planner.DefaultOptions()
	return broker.Ports{
		Store: s, Planner: planner.New(c, moves, opt), Moves: moves, Now: time.Now,
		Tokens: func(wire.Claims) (string, error) { return "token", nil },
	}, s, nil
}

// prepare creates a table with a pool and planned jobs. It returns the events that announce their tasks, by job.
func prepare(ctx context.Context, endpoint string, s sizes) (ready [][][]byte, err error) {
	p, records, err := ports(endpoint)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, records.Close()) }()
	if err := dynamo.CreateTable(ctx, emulator.Config(endpoint), table); err != nil {
		return nil, err
	}
	b := broker.New(config.Default(), p)
	if err := b.Users.SetPool(ctx, pool, record.PoolSettings{Partitions: s.partitions}); err != nil {
		return nil, err
	}
	joined := time.Now().Add(time.Second) // not before the pool was created
	for i := range s.machines {
		of := wire.PoolClaims{Pool: pool, Machine: fmt.Sprintf("m%03d", i), Joined: joined}
		has := wire.PoolReport{Capacity: wire.PoolCapacity{CPUs: slotsEach * cpus, MemoryGiB: slotsEach * cpus * 4}}
		if _, err := b.Agents.SyncMachine(ctx, of, has); err != nil {
			return nil, err
		}
	}
	index := map[string]int{}
	for i := range s.jobs {
		var text strings.Builder
		fmt.Fprintf(&text, "apiVersion: tradewind/v1\nname: job%d\nqueue: q%d\ntasks:\n", i, i)
		for n := range s.tasks {
			fmt.Fprintf(&text, "  t%d: {run: work, resources: {cpus: %d+}, time: 1h}\n", n, cpus)
		}
		spec, err := read.Job("job.yaml", strings.NewReader(text.String()))
		if err != nil {
			return nil, err
		}
		job, err := b.Users.Submit(ctx, broker.Submission{Spec: spec, Token: fmt.Sprint(i)})
		if err != nil {
			return nil, err
		}
		index[job.ID] = i
	}
	ready = make([][][]byte, s.jobs)
	return ready, announced(ctx, b, records, index, ready)
}

// announced handles events until only those that announce tasks are left, and returns these.
func announced(ctx context.Context, b *broker.Broker, records *dynamo.Store, index map[string]int,
	ready [][][]byte) error {
	const together = 100
	for {
		pending, err := records.Outbox(ctx, together)
		if err != nil || len(pending) == 0 {
			return err
		}
		for _, p := range pending {
			e, err := events.Parse(p.Body)
			if err != nil {
				return err
			}
			if of, is := e.Data.(events.TaskReady); is {
				ready[index[of.Job]] = append(ready[index[of.Job]], p.Body)
			} else {
				for _, fn := range events.Routes()[e.Type()] {
					if err := errors.Join(b.Functions.Handle(ctx, fn, []events.Event{e})...); err != nil {
						return fmt.Errorf("%s on %s: %w", fn, e.Type(), err)
					}
				}
			}
			if err := records.Published(ctx, p.ID); err != nil {
				return err
			}
		}
	}
}
