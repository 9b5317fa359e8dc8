package lambdahost

import (
	"context"
	"crypto/rand"
	"io"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/tradewind-broker/tradewind/internal/lambdahost/base"
	"github.com/tradewind-broker/tradewind/internal/lambdahost/emf"
	"github.com/tradewind-broker/tradewind/internal/quiet"
	"github.com/tradewind-broker/tradewind/pkg/agent/wire"
	"github.com/tradewind-broker/tradewind/pkg/broker"
	"github.com/tradewind-broker/tradewind/pkg/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/bus"
	"github.com/tradewind-broker/tradewind/pkg/catalog/egress"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
	"github.com/tradewind-broker/tradewind/pkg/store"
)

// Namespace of the deployment's metrics.
const Namespace = "Tradewind"

// Sandbox is one process of a function: its environment, its log and metrics, and its connections to the table and the
// queues, which every function has. It is complete when it is made and does not change: constructors of other adapters
// take what they need from it, in any order.
type Sandbox struct {
	Function string
	Env      Env
	AWS      aws.Config
	Config   record.Config
	Log      *slog.Logger
	Now      func() time.Time
	// Store is the table. It counts conflicts, and drops events that nobody hears.
	Store  store.Store
	Outbox Outbox // of the table's stream
	Bus    bus.Bus
	Queue  Queue

	urgent  Publisher
	metrics *emf.Writer
	count   *counts
	current *atomic.Pointer[base.Invocation]
}

// adapters are the connections to the table and the queues that a sandbox is made with.
type adapters struct {
	store  store.Store
	outbox Outbox
	bus    bus.Bus
	queue  Queue
	// urgent gets at once the events that cannot wait for the relay, and announces none; nil has them wait.
	urgent Publisher
}

// Publisher sends events to the queues of the functions that react to them.
type Publisher interface {
	Publish(ctx context.Context, messages ...bus.Message) error
}

// Open makes the sandbox of a function on the deployment's table and queues. It makes clients and no request: what
// start-up waits for, every first request waits for.
func Open(fn string, env Env, cfg aws.Config, out io.Writer) (*Sandbox, error) {
	return open(fn, env, cfg, out, time.Now, connect)
}

// open makes a sandbox with the adapters that connect makes by its log and clock.
func open(fn string, env Env, cfg aws.Config, out io.Writer, now func() time.Time,
	connect func(Env, aws.Config, *slog.Logger, func() time.Time) (adapters, error)) (*Sandbox, error) {
	var current atomic.Pointer[base.Invocation]
	count := &counts{}
	log := base.NewLog(out, env.LogLevel, fn, &current)
	a, err := connect(env, cfg, log, now)
	if err != nil {
		return nil, err
	}
	return &Sandbox{
		Function: fn, Env: env, AWS: cfg, Config: brokerConfig(env), Log: log, Now: now,
		Store: quiet.New(countingStore{a.store, count}, env.Announce...), Outbox: a.outbox, Bus: a.bus, Queue: a.queue,
		urgent: a.urgent, metrics: emf.New(out, Namespace), count: count, current: &current,
	}, nil
}

// Ports are the broker's ports that every function has. Functions add theirs.
func (s *Sandbox) Ports() broker.Ports {
	return broker.Ports{Store: s.Store, Bus: s.Bus, Log: s.Log, Now: s.Now, Committed: s.hurry}
}

// Broker makes the function's broker. It fails when the function lacks a port.
func (s *Sandbox) Broker(ports broker.Ports) (*broker.Broker, error) {
	if err := ports.Check(s.Function); err != nil {
		return nil, err
	}
	return broker.New(s.Config, ports), nil
}

// Counted counts the launches and refusals of a cloud.
func (s *Sandbox) Counted(c cloud.Cloud) cloud.Cloud { return countingCloud{c, s.count} }

// How often agents call, if nothing else is said. A request of theirs costs some two millionths of a dollar, and an
// hour of a small machine a hundredth of one. That a machine is gone EC2 tells by itself, and of a notice its agent
// learns from the machine; what these calls find is an agent that died on a machine that lives, a job that was
// cancelled, whose machines are terminated anyway, and somebody who wants to get onto the machine.
const (
	agentsCall = 5 * time.Minute // a sign of life as well
	silentFor  = time.Minute     // beyond three signs of life that are missed
	logEvery   = 30 * time.Second
)

// brokerConfig fits the broker's times to requests that cost.
func brokerConfig(env Env) record.Config {
	cfg := record.DefaultConfig()
	cfg.Endpoint = env.API
	cfg.Process = rand.Text() // instances come and go
	cfg.Pace = wire.Pace{Alive: env.AgentsCall, Log: logEvery, Polls: true, Tail: wire.MaxReportLog}
	cfg.SilentFor = 3*env.AgentsCall + silentFor
	if !env.Unproven {
		for _, name := range env.Clouds {
			if slices.Contains([]string{"aws", "gcp", "azure"}, name) { // elsewhere there is none
				cfg.Proven = append(cfg.Proven, name)
			}
		}
	}
	cfg.StoreURL = "s3://" + env.WorkBucket
	cfg.Stores = Stores(env)
	cfg.Private = []string{"agent/", "events/", "logs/", "catalog/", "policy/"} // as infra/ lays it out
	return cfg
}

// Stores are the buckets that jobs keep data in: the work bucket in the deployment's own region, those of the others
// that machines are bought in, and those of other clouds.
func Stores(env Env) record.Stores {
	if len(env.Stores) == 0 || len(env.Regions) == 0 {
		return record.Stores{}
	}
	moves, err := egress.Default()
	if err != nil {
		return record.Stores{} // the table is in the program, and tested
	}
	s := record.Stores{Moves: moves, URLs: map[string]string{"aws:" + env.Regions[0]: "s3://" + env.WorkBucket}}
	for place, store := range env.Stores {
		if !strings.Contains(place, ":") {
			place, store = "aws:"+place, "s3://"+store
		}
		s.URLs[place] = store
	}
	return s
}

// FromEnvironment makes the sandbox of a function from the process's own environment.
func FromEnvironment(fn string) (*Sandbox, error) {
	env, err := LoadEnv(os.Getenv)
	if err != nil {
		return nil, err
	}
	cfg, err := base.AWSConfig(os.Getenv)
	if err != nil {
		return nil, err
	}
	return Open(fn, env, cfg, os.Stdout)
}

// Idle says that no work is open: no job that is not over, no event unpublished, no machine of ours on the clouds, no
// message in another function's queue.
func (s *Sandbox) Idle(ctx context.Context, f *broker.Functions, clouds map[string]cloud.Cloud) (bool, error) {
	if idle, err := f.Idle(ctx); err != nil || !idle {
		return false, err
	}
	for _, c := range clouds {
		machines, err := c.Machines(ctx, "")
		if err != nil {
			return false, err
		}
		if slices.ContainsFunc(machines, func(m cloud.Machine) bool { return m.State != cloud.Terminated }) {
			return false, nil
		}
	}
	for _, fn := range s.Env.Mappings {
		if fn == s.Function {
			continue // holds the message that is being handled
		}
		if n, err := s.Bus.Depth(ctx, fn); err != nil || n > 0 {
			return false, err
		}
	}
	return true, nil
}

// BuyIn are the regions in which machines are bought.
func (s *Sandbox) BuyIn() []string {
	if len(s.Env.Regions) > 0 {
		return s.Env.Regions
	}
	return []string{s.AWS.Region}
}

// Begin notes the request that the sandbox works on; done writes its metrics.
func (s *Sandbox) Begin(ctx context.Context) (done func()) {
	i := base.InvocationOf(ctx)
	s.current.Store(i)
	return func() { s.flush(i) }
}
