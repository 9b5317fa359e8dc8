// Package instant is a cloud whose machines boot, work and vanish immediately, in the same process, so that benchmarks
// measure only the broker. Its agents use the same protocol and functions as real ones.
package instant

import (
	"context"
	"fmt"
	"sync"

	"github.com/tradewind-broker/tradewind/internal/agent/wire"
	"github.com/tradewind-broker/tradewind/internal/broker"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
)

// Cloud implements cloud.Cloud.
type Cloud struct {
	name string
	mu   sync.Mutex
	live map[string]cloud.LaunchSpec
	// launched receives clusters whose agents have not called yet.
	launched chan string
}

// New creates a cloud. Its agents work while Agents.Run runs.
func New(name string, launched chan string) *Cloud {
	return &Cloud{name: name, live: map[string]cloud.LaunchSpec{}, launched: launched}
}

// Name implements cloud.Cloud.
func (c *Cloud) Name() string { return c.name }

// Launch implements cloud.Cloud.
func (c *Cloud) Launch(ctx context.Context, spec cloud.LaunchSpec) ([]cloud.Machine, error) {
	c.mu.Lock()
	_, again := c.live[spec.Cluster]
	c.live[spec.Cluster] = spec
	c.mu.Unlock()
	if !again {
		select {
		case c.launched <- spec.Cluster:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return machines(spec), nil
}

func machines(spec cloud.LaunchSpec) []cloud.Machine {
	out := make([]cloud.Machine, spec.Nodes)
	for i := range out {
		out[i] = cloud.Machine{ID: fmt.Sprintf("%s-%d", spec.Cluster, i), Cluster: spec.Cluster, Rank: i,
			State: cloud.Running, Offer: spec.Offer}
	}
	return out
}

// Terminate implements cloud.Cloud.
func (c *Cloud) Terminate(_ context.Context, cluster string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.live, cluster)
	return nil
}

// Machines implements cloud.Cloud.
func (c *Cloud) Machines(_ context.Context, cluster string) ([]cloud.Machine, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []cloud.Machine
	for id, spec := range c.live {
		if cluster == "" || id == cluster {
			out = append(out, machines(spec)...)
		}
	}
	return out, nil
}

// Agents simulates the agents of clusters: they say hello and, after the command to run, report started and succeeded.
type Agents struct {
	Broker   *broker.Broker
	Launched chan string
	changed  sync.Map // cluster -> struct{}: has said hello
	Ready    chan string
}

// Changed is for broker.Ports: it makes an agent fetch its cluster's new command.
func (a *Agents) Changed(cluster string) {
	if _, ok := a.changed.Load(cluster); ok {
		select {
		case a.Ready <- cluster:
		default:
		}
	}
}

// Run simulates n agents at a time until ctx ends.
func (a *Agents) Run(ctx context.Context, n int) error {
	var wg sync.WaitGroup
	errs := make(chan error, n)
	for range n {
		wg.Go(func() {
			for {
				var err error
				select {
				case <-ctx.Done():
					return
				case id := <-a.Launched:
					a.changed.Store(id, struct{}{})
					_, err = a.Broker.Agents.Hello(ctx, claims(id), wire.Hello{Address: "127.0.0.1"})
				case id := <-a.Ready:
					err = a.work(ctx, id)
				}
				if err != nil && ctx.Err() == nil {
					errs <- err
					return
				}
			}
		})
	}
	wg.Wait()
	close(errs)
	return <-errs
}

func claims(cluster string) wire.Claims {
	return wire.Claims{Job: record.ClusterJob(cluster), Cluster: cluster}
}

func (a *Agents) work(ctx context.Context, id string) error {
	w, err := a.Broker.Agents.Work(ctx, claims(id), 0)
	if err != nil || w.Command != wire.Run {
		return nil //nolint:nilerr // another command, or the attempt has ended
	}
	if _, first := a.changed.LoadAndDelete(id); !first {
		return nil
	}
	for _, e := range []wire.Event{wire.Started, wire.Succeeded} {
		r := wire.Report{ID: string(e), Attempt: id, Event: e}
		if err := a.Broker.Agents.Report(ctx, claims(id), r); err != nil {
			return err
		}
	}
	return nil
}
