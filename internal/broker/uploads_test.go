package broker_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/internal/broker"
	"github.com/tradewind-broker/tradewind/internal/broker/config"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/internal/broker/recordcache"
	"github.com/tradewind-broker/tradewind/pkg/grant"
)

// parts is a store that takes long to abort an upload, unless its caller's context ends.
type parts struct {
	signs
	takes   time.Duration
	answer  error
	mu      sync.Mutex
	begun   int
	aborted int
}

func (p *parts) Begin(context.Context, string) (string, error) {
	p.begun++
	return fmt.Sprint("upload", p.begun), nil
}

func (p *parts) Abort(ctx context.Context, _, _ string) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(p.takes):
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.answer == nil {
		p.aborted++
	}
	return p.answer
}

// TestCallsForDataCountAsSignsOfLife: between two outages, a data call may be the only call that reaches the broker, so
// it counts as a sign of life. A refused call does not count: the agent does not count it as an answer either.
func TestCallsForDataCountAsSignsOfLife(t *testing.T) {
	cfg := config.Default()
	cfg.StoreURL = "s3://work"
	p := &agentBench{bench: newBenchOf(t, cfg)}
	ports := p.b.Ports()
	ports.Data = &parts{}
	p.b = broker.New(cfg, ports)
	p.submit("{t: {run: x, resources: {cpus: 4}, time: 1h, inputs: [{uri: s3://data/in/, size: 1GiB}]}}", "1")
	p.deliverAll()
	agents, c := p.b.Agents, p.claims(0, 0)
	work := hello(t, p.b, c)
	ctx, out := t.Context(), "s3://work/"+work.Assignment.Prefix+"/out/"+c.Cluster+"/0/files/"
	want := func(uri string) error {
		_, err := agents.Grant(ctx, c, grant.Want{Op: grant.Put, URI: uri, Size: 1})
		return err
	}
	for _, call := range []struct {
		what   string
		make   func() error
		counts bool
	}{
		{"a grant", func() error { return want(out + "a") }, true},
		{"a grant of foreign data", func() error { return want("s3://work/other") }, false},
		{"a loan of nothing", func() error { _, err := agents.Lend(ctx, c); return err }, true},
		{"a list", func() error { _, err := agents.List(ctx, c, "s3://data/in/", ""); return err }, true},
		{"the begin of an upload", func() error { _, err := agents.BeginUpload(ctx, c, out+"b"); return err }, true},
		{"its end", func() error { return agents.EndUpload(ctx, c, out+"b", "upload1", nil) }, true},
		{"its end once more", func() error { return agents.EndUpload(ctx, c, out+"b", "upload1", nil) }, true},
		{"removing checkpoints", func() error { return agents.Prune(ctx, c) }, true},
	} {
		p.now = p.now.Add(20 * time.Minute)
		if err := call.make(); (err == nil) != call.counts {
			t.Errorf("%s: %v", call.what, err)
		}
		if seen := p.cluster(c.Cluster).Nodes[0].Seen; seen.Equal(p.now) != call.counts {
			t.Errorf("%s: last seen %v ago", call.what, p.now.Sub(seen))
		}
	}
}

// TestUploadsDoNotDelayRelease releases a machine that has left a hundred uploads. They are aborted concurrently, and
// those that the store does not abort are soon given up. The job pays for the machine only until it was gone.
func TestUploadsDoNotDelayRelease(t *testing.T) {
	for name, c := range map[string]struct {
		store  *parts
		within time.Duration
	}{
		"a store that aborts":  {&parts{takes: time.Second}, 10 * time.Second},
		"a store that fails":   {&parts{takes: 10 * time.Second, answer: errors.New("503")}, 21 * time.Second},
		"a store that hangs":   {&parts{takes: time.Hour, answer: errors.New("504")}, 21 * time.Second},
		"a store that refuses": {&parts{answer: errors.New("403")}, 10 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { leaveUploads(t, c.store, c.within) })
		})
	}
}

func leaveUploads(t *testing.T, store *parts, within time.Duration) {
	const uploads = 100
	cfg := config.Default()
	cfg.StoreURL = "s3://work"
	p := &agentBench{bench: newBenchOf(t, cfg)}
	ports := p.b.Ports()
	ports.Data, ports.Now = store, time.Now
	p.b = broker.New(cfg, ports)
	p.submit("{t: {run: x, resources: {cpus: 4}, time: 1h, outputs: [{name: o, size: 1GiB}]}}", "1")
	p.deliverAll()
	work, id := hello(t, p.b, p.claims(0, 0)), record.ClusterID(p.job, 0, 1)
	out := "s3://work/" + work.Assignment.Prefix + "/out/" + id + "/0/files/"
	for i := range uploads {
		if _, err := p.b.Agents.BeginUpload(t.Context(), p.claims(0, 0), out+fmt.Sprint(i)); err != nil {
			t.Fatal(err)
		}
	}
	time.Sleep(time.Hour)
	ends := p.cluster(id)
	want := ends.Charged(time.Now())
	if err := p.b.Users.Cancel(t.Context(), p.job, ""); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	if _, freed := p.deliver(events.TypeCapacityFreed, nil); freed.Data == nil {
		t.Fatal("the machine is not released")
	} else if usd := freed.Data.(events.CapacityFreed).USD; math.Abs(usd-want) > 1e-9 {
		t.Errorf("booked are %v USD, want %v, up to when the machine was gone", usd, want)
	}
	if took := time.Since(began); took > within {
		t.Errorf("the release took %v", took)
	}
	u := p.b.Transactor().NewUnit(t.Context(), "test")
	left, err := recordcache.List[record.Upload](u, record.JobPart(p.job), record.UploadPrefix(id), 0)
	if err != nil || len(left) > 0 {
		t.Errorf("%d uploads are still recorded, %v", len(left), err)
	}
	if store.answer == nil && store.aborted != uploads {
		t.Errorf("%d uploads were aborted", store.aborted)
	}
}
