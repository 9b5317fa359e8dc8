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
)

// Namespace of the deployment's metrics.
const Namespace = "Tradewind"

// Host is one sandbox: what a function needs, made once and used for every request that comes to it.
type Host struct {
	Env    Env
	AWS    aws.Config
	Config record.Config
	// Ports are what parts bring in; Broker is made of them when all have.
	Ports   broker.Ports
	Broker  *broker.Broker
	Decoder Decoder
	Queue   Queue
	// After runs once a batch was handled, for what depends on the state it left. Its failure has the batch come again.
	After  func(ctx context.Context) error
	Outbox Outbox
	// Urgent is told at once of what cannot wait for the relay, and announces nothing; nil is nobody.
	Urgent Publisher

	fn      string
	log     *slog.Logger
	metrics *emf.Writer
	count   counts
	current atomic.Pointer[base.Invocation]
	now     func() time.Time
	shared  map[any]any
}

// Publisher sends events to the queues of the functions that react to them.
type Publisher interface {
	Publish(ctx context.Context, messages ...bus.Message) error
}

// Shared returns what parts of the host share by a key, which the first of them makes.
func Shared[T any](h *Host, key any, make func() T) T {
	if known, ok := h.shared[key]; ok {
		return known.(T)
	}
	it := make()
	h.shared[key] = it
	return it
}

// Part brings in what one function needs beside store and bus. It makes clients and calls nobody: what start-up waits
// for, every first request waits for.
type Part func(h *Host) error

// New makes the host of a function, from its environment and AWS configuration.
func New(fn string, env Env, cfg aws.Config, out io.Writer, parts ...Part) (*Host, error) {
	h := &Host{Env: env, AWS: cfg, Config: brokerConfig(env), fn: fn, metrics: emf.New(out, Namespace), now: time.Now,
		shared: map[any]any{}}
	h.log = base.NewLog(out, env.LogLevel, fn, &h.current)
	h.Ports.Log, h.Ports.Now = h.log, h.now
	for _, part := range parts {
		if err := part(h); err != nil {
			return nil, err
		}
	}
	if h.Ports.Store != nil {
		h.Ports.Store = quiet.New(countingStore{h.Ports.Store, &h.count}, h.Env.Announce...)
	}
	for name, c := range h.Ports.Clouds {
		h.Ports.Clouds[name] = countingCloud{c, &h.count}
	}
	if err := h.Ports.Check(fn); err != nil {
		return nil, err
	}
	h.Ports.Committed = h.hurry
	h.Broker = broker.New(h.Config, h.Ports)
	return h, nil
}

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

// FromEnvironment makes the host of a function from the process's own environment.
func FromEnvironment(fn string, parts ...Part) (*Host, error) {
	env, err := LoadEnv(os.Getenv)
	if err != nil {
		return nil, err
	}
	cfg, err := base.AWSConfig(os.Getenv)
	if err != nil {
		return nil, err
	}
	return New(fn, env, cfg, os.Stdout, parts...)
}

// Idle says that no work is open: no job that is not over, no event unpublished, no machine of ours, no message in
// another function's queue.
func (h *Host) Idle(ctx context.Context) (bool, error) {
	if idle, err := h.Broker.Functions.Idle(ctx); err != nil || !idle {
		return false, err
	}
	for _, c := range h.Ports.Clouds {
		machines, err := c.Machines(ctx, "")
		if err != nil {
			return false, err
		}
		if slices.ContainsFunc(machines, func(m cloud.Machine) bool { return m.State != cloud.Terminated }) {
			return false, nil
		}
	}
	for _, fn := range h.Env.Mappings {
		if fn == h.fn {
			continue // holds the message that is being handled
		}
		if n, err := h.Ports.Bus.Depth(ctx, fn); err != nil || n > 0 {
			return false, err
		}
	}
	return true, nil
}

// BuyIn are the regions in which machines are bought.
func (h *Host) BuyIn() []string {
	if len(h.Env.Regions) > 0 {
		return h.Env.Regions
	}
	return []string{h.AWS.Region}
}

// Log is the function's log.
func (h *Host) Log() *slog.Logger { return h.log }

// Begin notes the request that the sandbox works on; done writes its metrics.
func (h *Host) Begin(ctx context.Context) (done func()) {
	i := base.InvocationOf(ctx)
	h.current.Store(i)
	return func() { h.flush(i) }
}
