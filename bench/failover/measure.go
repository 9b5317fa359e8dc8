package main

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/tradewind-broker/tradewind/internal/broker"
	"github.com/tradewind-broker/tradewind/internal/cloud/driver"
	"github.com/tradewind-broker/tradewind/internal/cloud/lambdalabs"
	"github.com/tradewind-broker/tradewind/internal/cloudkit"
	"github.com/tradewind-broker/tradewind/internal/cloudkit/gcpkit"
	"github.com/tradewind-broker/tradewind/internal/emulator/gce"
	"github.com/tradewind-broker/tradewind/internal/emulator/lambdacloud"
	"github.com/tradewind-broker/tradewind/internal/host"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
	"github.com/tradewind-broker/tradewind/pkg/dag/native"
)

// hop is one job's step from a refusal to the next launch.
type hop struct {
	took     time.Duration
	launches int
}

// watch records the launches of all clouds.
type watch struct {
	mu       sync.Mutex
	refused  time.Time
	launches int
	next     chan time.Duration
}

func (w *watch) begins() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.launches++; !w.refused.IsZero() {
		w.next <- time.Since(w.refused)
		w.refused = time.Time{}
	}
}

func (w *watch) ended(err error) {
	var e *cloud.Error
	if !errors.As(err, &e) || e.Kind != cloud.Capacity {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.refused = time.Now()
}

// take returns the number of launches since its last call.
func (w *watch) take() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := w.launches
	w.launches, w.refused = 0, time.Time{}
	return n
}

// watched is a cloud whose launches are recorded.
type watched struct {
	cloud.Cloud
	by *watch
}

// Launch implements cloud.Cloud.
func (c watched) Launch(ctx context.Context, spec cloud.LaunchSpec) ([]cloud.Machine, error) {
	c.by.begins()
	m, err := c.Cloud.Launch(ctx, spec)
	c.by.ended(err)
	return m, err
}

func ready(cloudkit.Settings, cloudkit.Lookup) error { return nil }

// within is the maximum time of one hop.
const within = 2 * time.Minute

func typeName(i int) string { return fmt.Sprintf("cpu_%d", i) }

// measure makes one cloud refuse n jobs, and returns how each continued on the other.
func measure(ctx context.Context, dir string, n int) (hops []hop, err error) {
	types := make([]lambdacloud.Type, n)
	for i := range types { // one type for each job, because a refusal blocks a type for a while
		types[i] = lambdacloud.Type{Name: typeName(i), Cents: 5, VCPU: 2, MemoryGiB: 8, StorageGiB: 100,
			Regions: []string{"us-east-1"}, Description: "2x CPU"}
	}
	account := lambdacloud.New(lambdacloud.Config{Types: types})
	defer account.Close()
	account.SetOutOfStock("", "us-east-1", true)
	google, err := gce.New(gce.Config{})
	if err != nil {
		return nil, err
	}
	a, g := httptest.NewServer(account), httptest.NewServer(google)
	defer a.Close()
	defer g.Close()
	seen := &watch{next: make(chan time.Duration, 1)}
	catalogue := filepath.Join(dir, "catalog")
	if err := writeCatalog(catalogue, n); err != nil {
		return nil, err
	}
	h, end, err := serve(ctx, host.Options{
		State: filepath.Join(dir, "state"), TimeScale: 1, Catalog: catalogue, PublicURL: "https://broker.example",
		Agents: driver.Agents{"": strings.Repeat("a", 64)},
		Clouds: []host.Bought{
			{Kit: refuser(a.URL, seen)},
			{Kit: seller(seen), Settings: cloudkit.Settings{
				Project: "demo", Regions: []string{"us-central1"}, Endpoint: g.URL,
			}},
		},
	})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, end()) }()
	for i := range n {
		one, err := jump(ctx, h, seen, i)
		if err != nil {
			return nil, fmt.Errorf("job %d: %w", i, err)
		}
		hops = append(hops, one)
	}
	return hops, nil
}

// serve opens a host and runs it until end is called.
func serve(ctx context.Context, opt host.Options) (h *host.Host, end func() error, err error) {
	if h, err = host.Open(ctx, opt); err != nil {
		return nil, nil, err
	}
	serving, stop := context.WithCancel(ctx)
	over := make(chan error, 1)
	go func() { over <- h.Serve(serving) }()
	return h, func() error {
		stop()
		return errors.Join(<-over, h.Close())
	}, nil
}

// jump submits a job and waits until it is launched on the second cloud.
func jump(ctx context.Context, h *host.Host, seen *watch, i int) (hop, error) {
	text := fmt.Sprintf("apiVersion: tradewind/v1\nname: job-%d\ntasks: {a: {run: x, time: 1h, resources: {anyOf: "+
		"[{cloud: lambda, instanceType: %s}, {cloud: gcp, instanceType: n2-standard-2}]}}}\n", i, typeName(i))
	spec, err := native.Parse("job.yaml", []byte(text))
	if err != nil {
		return hop{}, err
	}
	submitted, err := h.Broker().Users.Submit(ctx, broker.Submission{Spec: spec})
	if err != nil {
		return hop{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	select {
	case took := <-seen.next:
		err := h.Broker().Users.Cancel(ctx, submitted.ID, "measured")
		return hop{took, seen.take()}, err
	case <-ctx.Done():
		return hop{}, fmt.Errorf("no launch after a refusal: %w", ctx.Err())
	}
}

// refuser is Lambda's cloud without its rate limit for launches.
func refuser(url string, seen *watch) cloudkit.Kit {
	return cloudkit.Kit{Name: lambdalabs.Name, Ready: ready,
		Open: func(_ context.Context, r cloudkit.Request) (*cloudkit.Opened, error) {
			c := lambdalabs.New(lambdalabs.Config{
				Deployment: r.Deployment, Endpoint: url, LaunchEvery: -1, Agents: r.Agents, Graves: r.Graves,
				Key: func(context.Context) (string, error) { return lambdacloud.DefaultKey, nil },
			})
			return &cloudkit.Opened{Cloud: watched{c, seen}, Checker: c}, nil
		}}
}

// seller is Google Cloud.
func seller(seen *watch) cloudkit.Kit {
	k := gcpkit.Kit()
	open := k.Open
	k.Open = func(ctx context.Context, r cloudkit.Request) (*cloudkit.Opened, error) {
		o, err := open(ctx, r)
		if err == nil {
			o.Cloud = watched{o.Cloud, seen}
		}
		return o, err
	}
	return k
}

// writeCatalog writes the offers of the two clouds; the first is cheaper.
func writeCatalog(dir string, n int) error {
	const head = "InstanceType,vCPUs,MemoryGiB," +
		"AcceleratorName,AcceleratorCount,Region,AvailabilityZone,Price,SpotPrice\n"
	var first strings.Builder
	first.WriteString(head)
	for i := range n {
		fmt.Fprintf(&first, "%s,2,8,,,us-east-1,,0.05,\n", typeName(i))
	}
	const second = head + "n2-standard-2,2,8,,,us-central1,us-central1-a,0.0971,\n"
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	return errors.Join(os.WriteFile(filepath.Join(dir, "lambda.csv"), []byte(first.String()), 0o600),
		os.WriteFile(filepath.Join(dir, "gcp.csv"), []byte(second), 0o600))
}
