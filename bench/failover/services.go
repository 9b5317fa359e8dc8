package main

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"time"

	"google.golang.org/api/option"

	"github.com/tradewind-broker/tradewind/internal/broker"
	"github.com/tradewind-broker/tradewind/internal/cloud/dataproc"
	"github.com/tradewind-broker/tradewind/internal/emulator/gce"
	"github.com/tradewind-broker/tradewind/internal/host"
	"github.com/tradewind-broker/tradewind/pkg/catalog"
	"github.com/tradewind-broker/tradewind/pkg/cloud/service"
	"github.com/tradewind-broker/tradewind/pkg/dag/native"
	"github.com/tradewind-broker/tradewind/pkg/grant"
)

// watchedService is a service whose refusals and submissions are recorded.
type watchedService struct {
	service.Service
	by      *watch
	refused map[string]bool // places whose refusal was seen
	over    chan<- struct{} // gets a value after each submission
}

// Watch implements service.Service. Dataproc accepts clusters first, and refuses them when they would be ready.
func (s watchedService) Watch(ctx context.Context, at service.Place, run service.Run) (
	service.Place, service.Run, error,
) {
	p, run, err := s.Service.Watch(ctx, at, run)
	if p.Why != nil && !s.refused[at.Name] {
		s.refused[at.Name] = true
		s.by.ended(p.Why)
	}
	return p, run, err
}

// Create implements service.Service.
func (s watchedService) Create(ctx context.Context, spec service.Spec) (service.Place, error) {
	if s.Name() == dataproc.Name {
		s.by.begins()
	}
	return s.Service.Create(ctx, spec)
}

// Submit implements service.Service. A batch is the first that Dataproc Serverless is asked for.
func (s watchedService) Submit(ctx context.Context, at service.Place, app service.App) (service.Run, error) {
	s.by.begins()
	defer func() {
		select {
		case s.over <- struct{}{}:
		case <-ctx.Done():
		}
	}()
	return s.Service.Submit(ctx, at, app)
}

// bucket lists one object for each prefix: the application of each job.
type bucket struct{ grant.Store }

// List implements grant.Store.
func (bucket) List(_ context.Context, prefix, _ string) (grant.Page, error) {
	return grant.Page{Objects: []grant.Listed{{URI: strings.TrimSuffix(prefix, "/"), Size: 1}}}, nil
}

// measureServices makes Dataproc refuse the clusters of n jobs, and returns how each continued on Dataproc Serverless.
func measureServices(ctx context.Context, dir string, n int) (hops []hop, err error) {
	offers, err := clusterOffers(n)
	if err != nil {
		return nil, err
	}
	google, err := gce.New(gce.Config{})
	if err != nil {
		return nil, err
	}
	defer google.Close()
	g := httptest.NewServer(google)
	defer g.Close()
	stores, regions := map[string]string{}, []string(nil)
	for _, o := range offers {
		if place := "gcp:" + o.Region; stores[place] == "" {
			stores[place], regions = "gs://demo-work", append(regions, o.Region)
		}
	}
	seen, submitted := &watch{next: make(chan time.Duration, 1)}, make(chan struct{}, 1)
	cfg := dataproc.Config{Deployment: "bench", Project: "demo", Regions: regions, Endpoint: g.URL,
		Client: []option.ClientOption{option.WithoutAuthentication()}}
	h, end, err := serve(ctx, host.Options{
		State: filepath.Join(dir, "state"), TimeScale: 1, ServiceStores: stores, Stores: grant.Mux{"gs": bucket{}},
		Services: map[string]service.Service{
			dataproc.Name:           watchedService{dataproc.NewClusters(cfg), seen, map[string]bool{}, submitted},
			dataproc.ServerlessName: watchedService{dataproc.NewBatches(cfg), seen, map[string]bool{}, submitted},
		},
	})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, end()) }()
	for i, o := range offers {
		google.FailCluster(fmt.Sprintf("The zone 'projects/demo/zones/%s-a' does not have enough resources available to "+
			"fulfill the request.", o.Region))
		one, err := jumpServices(ctx, h, seen, submitted, i, o)
		if err != nil {
			return nil, fmt.Errorf("job %d on %s in %s: %w", i, o.InstanceType, o.Region, err)
		}
		hops = append(hops, one)
	}
	return hops, nil
}

// clusterOffers returns machines for clusters that cost less than serverless workers. A refusal blocks each one for
// a while.
func clusterOffers(n int) ([]catalog.Match, error) {
	const mostUSD = 0.5
	c, err := catalog.Default()
	if err != nil {
		return nil, err
	}
	seen := map[string]bool{}
	all, err := c.Find(catalog.Query{Clouds: []string{"gcp"}, Service: catalog.Dataproc, Market: catalog.OnDemand,
		Arch: catalog.AMD64, MaxUSDPerHour: mostUSD, Keep: func(m *catalog.Match) bool {
			at := m.Region + "/" + m.InstanceType
			fresh := !seen[at] && !m.Burstable && m.VCPU >= 2
			seen[at] = true
			return fresh
		}})
	if err == nil && len(all) < n {
		err = fmt.Errorf("only %d machines for %d refusals", len(all), n)
	}
	if err != nil {
		return nil, err
	}
	return all[:n], nil
}

// jumpServices submits a job and waits until its application is submitted to the second service.
func jumpServices(ctx context.Context, h *host.Host, seen *watch, over <-chan struct{}, i int,
	o catalog.Match) (hop, error) {
	text := fmt.Sprintf("apiVersion: tradewind/v1\nname: job-%d\ntasks: {a: {spark: {main: gs://demo-work/x.py}, time: 1h, "+
		"resources: {executors: 1, anyOf: [{service: dataproc, region: %s, instanceType: %s}, "+
		"{service: dataproc-serverless, cpus: 16, memory: 120}]}}}\n", i, o.Region, o.InstanceType)
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
		<-over
		_ = h.Broker().Users.Cancel(ctx, submitted.ID, "measured") // it may have ended
		return hop{took, seen.take()}, nil
	case <-ctx.Done():
		return hop{}, fmt.Errorf("no request after a refusal: %w", ctx.Err())
	}
}
