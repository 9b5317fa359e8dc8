package lambdahost

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/internal/lambdahost/base"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
	"github.com/tradewind-broker/tradewind/pkg/store"
)

// counts are the counters of one invocation.
type counts struct {
	events, conflicts, dead, launches, published, lost atomic.Int64

	mu       sync.Mutex
	lag      time.Duration // of the oldest event published
	refusals map[cloud.Kind]int
}

func (c *counts) refused(kind cloud.Kind) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.refusals == nil {
		c.refusals = map[cloud.Kind]int{}
	}
	c.refusals[kind]++
}

func (c *counts) lagged(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lag = max(c.lag, d)
}

// take returns and resets the metrics of the invocation. A zero is not returned, because each data point costs.
func (c *counts) take() (metrics []Metric, refusals map[cloud.Kind]int) {
	for _, m := range []struct {
		name string
		n    *atomic.Int64
	}{{"Events", &c.events}, {"Conflicts", &c.conflicts}, {"DeadLetters", &c.dead}, {"Launches", &c.launches},
		{"Published", &c.published}, {"Lost", &c.lost}} {
		if n := m.n.Swap(0); n > 0 {
			metrics = append(metrics, Metric{Name: m.name, Unit: Count, Value: float64(n)})
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.lag > 0 {
		metrics = append(metrics,
			Metric{Name: "PublishLag", Unit: Milliseconds, Value: float64(c.lag.Milliseconds())})
	}
	refusals = c.refusals
	c.lag, c.refusals = 0, nil
	return metrics, refusals
}

// flush writes the metrics of an invocation. Their only dimensions are the deployment and a refusal's kind: with one
// per function they would cost more than the rest of an idle deployment. The function is a property instead.
func (s *Sandbox) flush(i *base.Invocation) {
	metrics, refusals := s.count.take()
	props := map[string]any{"function": s.Function, "requestId": i.Request}
	err := s.metrics.Write(Line{
		At: s.Now(), Dimensions: map[string]string{"Deployment": s.Env.Deployment}, Metrics: metrics, Properties: props,
	})
	for kind, n := range refusals {
		err = errors.Join(err, s.metrics.Write(Line{
			At: s.Now(), Dimensions: map[string]string{"Deployment": s.Env.Deployment, "Kind": string(kind)},
			Metrics: []Metric{{Name: "Refusals", Unit: Count, Value: float64(n)}}, Properties: props,
		}))
	}
	if err != nil {
		s.Log.Warn("metrics", "err", err)
	}
}

// countingStore counts conflicts, and the clusters that reconcile gives up: those of whose end no event said anything.
type countingStore struct {
	store.Store
	count      *counts
	reconciles bool
}

// Commit implements store.Store.
func (s countingStore) Commit(ctx context.Context, tx store.Tx) error {
	err := s.Store.Commit(ctx, tx)
	if errors.Is(err, store.ErrConflict) {
		s.count.conflicts.Add(1)
	}
	for _, emitted := range tx.Events {
		if !s.reconciles || err != nil {
			break
		}
		if e, bad := events.Parse(emitted.Body); bad == nil && e.Type() == events.TypeClusterLost {
			s.count.lost.Add(1)
		}
	}
	return err
}

// countingCloud counts launches and refusals.
type countingCloud struct {
	cloud.Cloud
	count *counts
}

// Launch implements cloud.Cloud.
func (c countingCloud) Launch(ctx context.Context, spec cloud.LaunchSpec) ([]cloud.Machine, error) {
	machines, err := c.Cloud.Launch(ctx, spec)
	switch {
	case err == nil:
		c.count.launches.Add(1)
	case ctx.Err() == nil:
		c.count.refused(cloud.KindOf(err))
	}
	return machines, err
}
