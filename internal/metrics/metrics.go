// Package metrics exports the activity of a one-process broker to Prometheus. Events are counted when they are
// published; the current state is read at each scrape.
package metrics

import (
	"context"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/bus"
)

// Source provides the current state. A broker is a Source.
type Source interface {
	Queues(ctx context.Context) ([]apitypes.Queue, error)
	Waiting(ctx context.Context, queue string, limit int) ([]apitypes.Waiting, error)
	Blocks(ctx context.Context) ([]apitypes.Block, error)
	Pools(ctx context.Context) ([]apitypes.PoolView, error)
}

// Metrics counts the activity of a broker. Make one with New.
type Metrics struct {
	registry *prometheus.Registry

	published     *prometheus.CounterVec
	finished      *prometheus.CounterVec
	spent         *prometheus.CounterVec
	refused       *prometheus.CounterVec
	interrupted   *prometheus.CounterVec
	outcomes      *prometheus.CounterVec
	handled       *prometheus.HistogramVec
	failures      *prometheus.CounterVec
	jobHours      prometheus.Histogram
	lookingFailed prometheus.Counter
	paused        atomic.Pointer[func() string]
}

// New returns the counters of a broker with a version.
func New(version string) *Metrics {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "tradewind", Name: name, Help: help}, labels)
	}
	m := &Metrics{
		registry:    prometheus.NewRegistry(),
		published:   counter("events_total", "Events that were published, by type.", "type"),
		finished:    counter("jobs_finished_total", "Finished jobs by outcome.", "outcome"),
		spent:       counter("spent_usd_total", "Cost of attempts whose machines have been released, USD.", "queue"),
		refused:     counter("refusals_total", "Locations blocked after a cloud refused a launch.", "cloud", "kind"),
		interrupted: counter("interruptions_total", "Notices of machines that the cloud takes or took.", "kind"),
		outcomes:    counter("spot_attempts_total", "Attempts on spot machines by outcome.", "outcome"),
		failures:    counter("function_failures_total", "Events that a function failed to handle for now.", "function"),
		handled: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Namespace: "tradewind", Name: "function_duration_seconds", Help: "Time that a function takes for a batch.",
			Buckets: prometheus.ExponentialBuckets(0.0005, 4, 10),
		}, []string{"function"}),
		jobHours: prometheus.NewHistogram(prometheus.HistogramOpts{
			Namespace: "tradewind", Name: "job_duration_seconds", Help: "Time from a job's submission to its end.",
			Buckets: prometheus.ExponentialBuckets(60, 4, 9),
		}),
		lookingFailed: prometheus.NewCounter(prometheus.CounterOpts{
			Namespace: "tradewind", Name: "scrape_failures_total", Help: "How often the state could not be read.",
		}),
	}
	build := prometheus.NewGauge(prometheus.GaugeOpts{
		Namespace: "tradewind", Name: "build_info", Help: "Always 1, with the version as a label.",
		ConstLabels: prometheus.Labels{"version": version},
	})
	build.Set(1)
	for _, outcome := range []string{"succeeded", "failed", "cancelled"} {
		m.finished.WithLabelValues(outcome) // start at 0, so that queries can compute shares
	}
	paused := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Namespace: "tradewind", Name: "admission_paused", Help: "1 while no task is admitted because a disk is full.",
	}, m.isPaused)
	m.registry.MustRegister(paused, m.published, m.finished, m.spent, m.refused, m.interrupted, m.outcomes, m.handled,
		m.failures, m.jobHours, m.lookingFailed, build, collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// Bus returns a bus that counts the events published on b. An event that is published twice counts twice.
func (m *Metrics) Bus(b bus.Bus) bus.Bus { return counting{b, m} }

type counting struct {
	bus.Bus
	m *Metrics
}

// Publish implements bus.Bus.
func (c counting) Publish(ctx context.Context, messages ...bus.Message) error {
	err := c.Bus.Publish(ctx, messages...)
	if err != nil {
		return err
	}
	for _, msg := range messages {
		c.m.countEvent(msg)
	}
	return nil
}

// countEvent counts a published event.
func (m *Metrics) countEvent(msg bus.Message) {
	m.published.WithLabelValues(shortType(msg.Type)).Inc()
	switch msg.Type {
	case events.TypeDAGFinished, events.TypeCapacityFreed, events.TypeLocationBlocked, events.TypeSpotInterrupted:
	default:
		return // other types are only counted
	}
	ev, err := events.Parse(msg.Body)
	if err != nil {
		return // the receiver reports the error
	}
	switch e := ev.Data.(type) {
	case events.DAGFinished:
		m.finished.WithLabelValues(e.Outcome).Inc()
		m.jobHours.Observe(e.Hours * time.Hour.Seconds())
	case events.CapacityFreed:
		m.spent.WithLabelValues(e.Queue).Add(max(e.USD, 0))
		if e.Outcome != "" {
			m.outcomes.WithLabelValues(e.Outcome).Inc()
		}
	case events.LocationBlocked:
		m.refused.WithLabelValues(e.Cloud, e.Kind).Inc()
	case events.SpotInterrupted:
		m.interrupted.WithLabelValues(e.Kind).Inc()
	}
}

// shortType returns a short form of an event's type, such as task.ready.
func shortType(typ string) string {
	return strings.TrimSuffix(strings.TrimPrefix(typ, "tradewind."), ".v1")
}

// Handled counts a batch that a function handled, and how many of its events failed.
func (m *Metrics) Handled(function string, took time.Duration, failed int) {
	m.handled.WithLabelValues(function).Observe(took.Seconds())
	m.failures.WithLabelValues(function).Add(float64(failed))
}

// Paused sets how to ask why no task is admitted; an empty answer means that tasks are.
func (m *Metrics) Paused(why func() string) { m.paused.Store(&why) }

// isPaused is 1 while no task is admitted.
func (m *Metrics) isPaused() float64 {
	if why := m.paused.Load(); why != nil && (*why)() != "" {
		return 1
	}
	return 0
}

// Gatherer returns the counters, for export.
func (m *Metrics) Gatherer() prometheus.Gatherer { return m.registry }

// Handler returns an HTTP handler with all metrics in Prometheus' text format. At each request it reads the source and
// the depths of the bus' queues.
func (m *Metrics) Handler(s Source, b bus.Bus, log *slog.Logger) http.Handler {
	now := &stateCollector{source: s, bus: b, failed: func(err error) {
		m.lookingFailed.Inc()
		log.Warn("metrics", "err", err)
	}}
	m.registry.MustRegister(now)
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{MaxRequestsInFlight: 2})
}
