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

	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/internal/agent/wire"
	"github.com/tradewind-broker/tradewind/internal/broker"
	"github.com/tradewind-broker/tradewind/internal/broker/config"
	"github.com/tradewind-broker/tradewind/internal/broker/outbox"
	"github.com/tradewind-broker/tradewind/internal/lambdahost/base"
	"github.com/tradewind-broker/tradewind/internal/notify"
	"github.com/tradewind-broker/tradewind/internal/notify/ses"
	"github.com/tradewind-broker/tradewind/pkg/bus"
	"github.com/tradewind-broker/tradewind/pkg/catalog/egress"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
	"github.com/tradewind-broker/tradewind/pkg/cloud/service"
	"github.com/tradewind-broker/tradewind/pkg/store"
)

// Namespace is the CloudWatch namespace of the deployment's metrics.
const Namespace = "Tradewind"

// Sandbox is one process of a function: its environment, log and metrics, and the connections to the table and the
// queues, which every function needs. It is complete when made and does not change: constructors of other adapters take
// what they need from it, in any order.
type Sandbox struct {
	Function string
	Env      Env
	AWS      aws.Config
	Config   config.Config
	Log      *slog.Logger
	Now      func() time.Time
	// Store is the table. It counts conflicts, and drops events to which no function reacts.
	Store  store.Store
	Outbox Outbox // of the table's stream
	Bus    bus.Bus
	Queue  Queue

	urgent  Publisher
	metrics *Writer
	count   *counts
	current *atomic.Pointer[base.Invocation]
}

// adapters are a sandbox's connections to the table and the queues.
type adapters struct {
	store  store.Store
	outbox Outbox
	bus    bus.Bus
	queue  Queue
	// urgent publishes at once the events that cannot wait for the relay, and announces none; if nil, they wait.
	urgent Publisher
}

// Publisher sends events to the queues of the functions that react to them.
type Publisher interface {
	Publish(ctx context.Context, messages ...bus.Message) error
}

// Open makes the sandbox of a function with the deployment's table and queues. It makes clients but no requests,
// because each first request waits for start-up.
func Open(fn string, env Env, cfg aws.Config, out io.Writer) (*Sandbox, error) {
	return open(fn, env, cfg, out, time.Now, connect)
}

// open makes a sandbox with adapters from connect.
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
		Function: fn,
		Env:      env,
		AWS:      cfg,
		Config:   brokerConfig(env),
		Log:      log,
		Now:      now,
		Store: outbox.DropUnheard(
			countingStore{a.store, count, fn == events.FnReconcile},
			env.Announce...),
		Outbox:  a.outbox,
		Bus:     a.bus,
		Queue:   a.queue,
		urgent:  a.urgent,
		metrics: New(out, Namespace),
		count:   count,
		current: &current,
	}, nil
}

// Ports returns the broker ports that every function has. Functions add their own.
func (s *Sandbox) Ports() broker.Ports {
	return broker.Ports{Store: s.Store, Bus: s.Bus, Log: s.Log, Now: s.Now, Committed: s.publishUrgent,
		Announces: s.Env.TopicCloud != "", Notifier: s.notifier()}
}

// notifier notifies the people that jobs name. It sends e-mail if the deployment has a sender.
func (s *Sandbox) notifier() *notify.Notifier {
	if s.Env.MailFrom == "" {
		return &notify.Notifier{}
	}
	return &notify.Notifier{Mail: ses.New(s.AWS, s.Env.MailFrom)}
}

// Broker makes the function's broker. It returns an error if the function lacks a port.
func (s *Sandbox) Broker(ports broker.Ports) (*broker.Broker, error) {
	if err := ports.Check(s.Function); err != nil {
		return nil, err
	}
	return broker.New(s.Config, ports), nil
}

// Counted wraps a cloud so that its launches and refusals are counted.
func (s *Sandbox) Counted(c cloud.Cloud) cloud.Cloud { return countingCloud{c, s.count} }

// How often agents call by default. A call costs about two millionths of a dollar, an hour of a small machine a
// hundredth. EC2 reports the end of a machine, and its agent learns of an interruption from the machine itself. So
// these calls only detect an agent that died on a running machine, a cancelled job (whose machines are ended anyway),
// and a new visit.
const (
	agentsCall = 5 * time.Minute // also a heartbeat
	logEvery   = 30 * time.Second
)

// brokerConfig adapts the broker's times to the cost of requests.
func brokerConfig(env Env) config.Config {
	cfg := config.Default()
	cfg.Endpoint = env.API
	cfg.Process = rand.Text() // sandboxes come and go
	cfg.Keep, cfg.Limit = env.Keep, env.Limit
	cfg.Pace = wire.Pace{Alive: env.AgentsCall, Log: logEvery, Polls: true, Tail: wire.MaxReportLog}
	cfg.Chunk = config.PaidChunk
	if !env.Unproven {
		for _, name := range env.Clouds {
			if slices.Contains([]string{"aws", "gcp", "azure"}, name) { // other clouds have no proof of identity
				cfg.Proven = append(cfg.Proven, name)
			}
		}
	}
	cfg.StoreURL = "s3://" + env.WorkBucket
	cfg.Stores = Stores(env)
	cfg.Private = []string{"agent/", "events/", "logs/", "catalog/", "policy/"} // as infra/ lays it out
	return cfg
}

// Stores returns the buckets for jobs' data: the work bucket in the deployment's own region, and those of the other
// regions and clouds in which machines are bought.
func Stores(env Env) config.Stores {
	if len(env.Stores) == 0 || len(env.Regions) == 0 {
		return config.Stores{}
	}
	moves, err := egress.Default()
	if err != nil {
		return config.Stores{} // cannot happen: the table is embedded and tested
	}
	s := config.Stores{Moves: moves, URLs: map[string]string{"aws:" + env.Regions[0]: "s3://" + env.WorkBucket}}
	for place, store := range env.Stores {
		if !strings.Contains(place, ":") {
			place, store = "aws:"+place, "s3://"+store
		}
		s.URLs[place] = store
	}
	return s
}

// FromEnvironment makes the sandbox of a function from the process's environment.
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

// Idle reports whether no work is open: all jobs have finished, all events are published, no machine of the deployment
// runs, no place on a managed service is left, and the queues of other functions are empty.
func (s *Sandbox) Idle(ctx context.Context, f *broker.Functions, clouds map[string]cloud.Cloud,
	services map[string]service.Service) (bool, error) {
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
	for _, of := range services {
		places, err := of.Places(ctx)
		if err != nil {
			return false, err
		}
		if slices.ContainsFunc(places, func(p service.Place) bool { return p.State != service.Ended }) {
			return false, nil
		}
	}
	for _, fn := range s.Env.Mappings {
		if fn == s.Function {
			continue // contains the message being handled
		}
		if n, err := s.Bus.Depth(ctx, fn); err != nil || n > 0 {
			return false, err
		}
	}
	return true, nil
}

// BuyIn returns the EC2 regions in which machines are bought.
func (s *Sandbox) BuyIn() []string {
	if len(s.Env.Regions) > 0 {
		return s.Env.Regions
	}
	return []string{s.AWS.Region}
}

// Begin records the current request; done writes its metrics.
func (s *Sandbox) Begin(ctx context.Context) (done func()) {
	i := base.InvocationOf(ctx)
	s.current.Store(i)
	return func() { s.flush(i) }
}
