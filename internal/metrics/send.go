package metrics

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"
	bridge "go.opentelemetry.io/contrib/bridges/prometheus"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetrichttp"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"
)

// Send sends the counters to the collector of the environment variables until Shutdown is called. who is the name of
// the resource.
func Send(ctx context.Context, who *resource.Resource, counted prometheus.Gatherer) (*sdkmetric.MeterProvider, error) {
	out, err := otlpmetrichttp.New(ctx)
	if err != nil {
		return nil, err
	}
	return sdkmetric.NewMeterProvider(sdkmetric.WithResource(who), sdkmetric.WithReader(
		sdkmetric.NewPeriodicReader(out, sdkmetric.WithProducer(
			bridge.NewMetricProducer(bridge.WithGatherer(counted)))))), nil
}
