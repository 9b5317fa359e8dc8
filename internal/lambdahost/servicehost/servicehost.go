// Package servicehost watches the attempts on managed services, as the Lambda function services. Services have no
// agents that would call, and send no events that would wake the function, so a schedule invokes it each minute.
package servicehost

import (
	"context"
	"time"

	"github.com/tradewind-broker/tradewind/internal/agent/wire"
	"github.com/tradewind-broker/tradewind/internal/api"
	"github.com/tradewind-broker/tradewind/internal/base/clock"
	"github.com/tradewind-broker/tradewind/internal/broker"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/internal/lambdahost"
	"github.com/tradewind-broker/tradewind/internal/lambdahost/logs"
	"github.com/tradewind-broker/tradewind/internal/lambdahost/logs/logbucket"
	"github.com/tradewind-broker/tradewind/internal/pack"
	"github.com/tradewind-broker/tradewind/pkg/cloud/service"
	"github.com/tradewind-broker/tradewind/pkg/grant"
)

// Name of the function.
const Name = record.FnServices

// Between two invocations a ready cluster would wait for its application for half a minute on average. That costs more
// than the function, so an invocation checks all attempts every few seconds, until the next one begins.
const (
	checkEvery = 5 * time.Second
	checkFor   = 50 * time.Second
)

// Adapters are what the function needs in addition to a broker.
type Adapters struct {
	Services map[string]service.Service
	Data     grant.Store // writes the packed files of tasks to the stores of services
	Packs    pack.Source
}

// Watcher watches the attempts on managed services.
type Watcher struct {
	sandbox *lambdahost.Sandbox
	broker  *broker.Services
	every   time.Duration // 0 checks once in each invocation
}

// New makes the function's watcher.
func New(s *lambdahost.Sandbox, with Adapters) (*Watcher, error) {
	ports := s.Ports()
	ports.Services, ports.Data = with.Services, with.Data
	ports.Tokens = func(wire.Claims) (string, error) { return "", nil } // a service has no agent that needs one
	ports.Unpack = func(ctx context.Context, uri, prefix string) (string, error) {
		return pack.CopyTo(ctx, with.Packs, with.Data, uri, prefix)
	}
	ports.AppendLog = api.AppendAll(&logs.Logs{
		Store: s.Store, Objects: logbucket.Bucket{Client: s.S3(), Name: s.Env.WorkBucket},
	})
	b, err := s.Broker(ports)
	if err != nil {
		return nil, err
	}
	return &Watcher{sandbox: s, broker: b.Services, every: checkEvery}, nil
}

// Once returns a watcher whose invocations check all attempts once, for tests with their own schedule.
func (w *Watcher) Once() *Watcher {
	once := *w
	once.every = 0
	return &once
}

// Watch handles one invocation. It checks all attempts, and repeats that while there are any, for almost a minute. Its
// error is that of the last check, because a later check may succeed where an earlier one failed.
func (w *Watcher) Watch(ctx context.Context) error {
	defer w.sandbox.Begin(ctx)()
	for end := w.sandbox.Now().Add(checkFor); ; {
		open, err := w.broker.Watch(ctx)
		if err != nil {
			w.sandbox.Log.WarnContext(ctx, "services", "err", err)
		}
		if !open || w.every <= 0 || w.sandbox.Now().Add(w.every).After(end) || clock.Pause(ctx, w.every) != nil {
			return err
		}
	}
}
