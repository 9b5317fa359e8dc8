package host

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/sdk/resource"

	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/internal/metrics"
	"github.com/tradewind-broker/tradewind/internal/traces"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
)

// openTraces starts sending traces and metrics if the environment names a collector; otherwise it returns nil.
func (h *Host) openTraces(ctx context.Context, counted prometheus.Gatherer) (*traces.Traces, error) {
	if !traces.Enabled() {
		return nil, nil
	}
	return traces.Open(ctx, traces.Config{
		Version: h.opt.Version, Now: h.clock.Now, Log: h.log,
		Metrics: func(ctx context.Context, who *resource.Resource) (traces.MetricsExport, error) {
			return metrics.Send(ctx, who, counted)
		},
		Jobs: func(ctx context.Context, id string) (*apitypes.JobDetail, error) {
			return h.broker.Views.JobDetail(ctx, id)
		},
	})
}

// handled returns the engine's callback for metrics and traces.
func (h *Host) handled(counts *metrics.Metrics) func(string, []events.Event, []error, time.Duration) {
	return func(function string, batch []events.Event, errs []error, took time.Duration) {
		failed := 0
		for _, err := range errs {
			if err != nil {
				failed++
			}
		}
		counts.Handled(function, took, failed)
		h.traces.Handled(function, batch, errs, took)
	}
}
