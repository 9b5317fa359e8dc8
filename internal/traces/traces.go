package traces

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/bus"
)

// Config has the settings that OpenTelemetry's environment variables do not have.
type Config struct {
	Version string
	Jobs    func(ctx context.Context, id string) (*apitypes.JobDetail, error)
	// Metrics starts the export of this process's metrics; nil exports none. The broker's functions have no metrics
	// and so need not link the code that reads them.
	Metrics func(ctx context.Context, who *resource.Resource) (MetricsExport, error)
	Headers map[string]string // added to every request, in addition to those of the environment
	// Now is the broker's clock, which may run faster than real time. The times of spans are by this clock.
	Now func() time.Time
	Log *slog.Logger
}

// MetricsExport is a running export of metrics, until Shutdown.
type MetricsExport interface {
	Shutdown(ctx context.Context) error
}

// Traces exports the work of a broker to a collector. The nil Traces exports nothing.
type Traces struct {
	cfg    Config
	spans  *sdktrace.TracerProvider
	meters MetricsExport // nil if no metrics are exported
	tracer trace.Tracer

	mu            sync.Mutex
	closed        bool
	exports       sync.WaitGroup  // exports of finished jobs that are running
	exportCtx     context.Context //nolint:containedctx // of those exports; Close cancels it after closeWithin
	cancelExports context.CancelFunc
}

// Enabled reports whether the environment names a collector: OTEL_EXPORTER_OTLP_ENDPOINT or
// OTEL_EXPORTER_OTLP_TRACES_ENDPOINT is set and OTEL_SDK_DISABLED is not true.
func Enabled() bool {
	off, _ := strconv.ParseBool(os.Getenv("OTEL_SDK_DISABLED"))
	return !off && (os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT") != "" ||
		os.Getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") != "")
}

// Open starts the export. If the collector does not answer, Traces logs a warning; the broker works without it.
func Open(ctx context.Context, cfg Config) (*Traces, error) {
	self := []attribute.KeyValue{attribute.String("service.name", "tradewind")}
	if cfg.Version != "" {
		self = append(self, attribute.String("service.version", cfg.Version))
	}
	who, err := resource.New(ctx, resource.WithAttributes(self...), resource.WithHost(), resource.WithFromEnv())
	if err != nil && !errors.Is(err, resource.ErrPartialResource) {
		return nil, fmt.Errorf("traces: %w", err)
	}
	var options []otlptracehttp.Option
	if len(cfg.Headers) > 0 {
		options = append(options, otlptracehttp.WithHeaders(cfg.Headers))
	}
	out, err := otlptracehttp.New(ctx, options...)
	if err != nil {
		return nil, fmt.Errorf("traces: %w", err)
	}
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { cfg.Log.Warn("opentelemetry", "err", err) }))
	late, giveUp := context.WithCancel(context.Background()) //nolint:gosec // Close calls it, if it has to
	t := &Traces{
		cfg: cfg, exportCtx: late, cancelExports: giveUp,
		spans: sdktrace.NewTracerProvider(
			sdktrace.WithBatcher(out), sdktrace.WithResource(who), sdktrace.WithIDGenerator(idGenerator{}),
		),
	}
	if cfg.Metrics != nil {
		if t.meters, err = cfg.Metrics(ctx, who); err != nil {
			return nil, fmt.Errorf("traces: %w", errors.Join(err, t.spans.Shutdown(ctx)))
		}
	}
	t.tracer = t.spans.Tracer("github.com/tradewind-broker/tradewind")
	return t, nil
}

// closeTimeout is the maximum time that Close waits for unsent spans.
const closeTimeout = 5 * time.Second

// Close sends the remaining spans. It gives up after closeWithin.
func (t *Traces) Close() error {
	if t == nil {
		return nil
	}
	t.mu.Lock()
	t.closed = true
	t.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	defer context.AfterFunc(ctx, t.cancelExports)() // the export of a large job can take much longer
	t.exports.Wait()
	err := t.spans.Shutdown(ctx)
	if t.meters != nil {
		err = errors.Join(err, t.meters.Shutdown(ctx))
	}
	if err != nil {
		t.cfg.Log.Warn("opentelemetry", "err", err)
	}
	return nil
}

// Handled exports a span, with its error if any, for each event of a batch that concerns a job. The function spent
// took on the batch.
func (t *Traces) Handled(function string, batch []events.Event, errs []error, took time.Duration) {
	if t == nil {
		return
	}
	end := t.cfg.Now()
	for i, ev := range batch {
		of := subjectOf(ev.Data)
		if of.job == "" {
			continue
		}
		parent := jobSpan(of.job)
		if of.attempt > 0 {
			parent = attemptSpan(of.job, of.task, of.attempt)
		}
		id := spanID("handled", function, ev.ID, end.Format(time.RFC3339Nano))
		_, span := t.tracer.Start(withSpan(context.Background(), of.job, id, parent),
			function+" "+shortType(ev.Type()), trace.WithTimestamp(end.Add(-took)),
			trace.WithSpanKind(trace.SpanKindConsumer),
			trace.WithAttributes(append(of.attributes,
				attribute.String("messaging.system", "tradewind"),
				attribute.String("messaging.operation.type", "process"),
				attribute.String("messaging.destination.name", function),
				attribute.String("messaging.message.id", ev.ID),
				attribute.Int("messaging.batch.message_count", len(batch)),
			)...))
		if errs[i] != nil {
			span.SetStatus(codes.Error, errs[i].Error())
		}
		span.End(trace.WithTimestamp(end))
	}
}

// shortType returns the short name of an event type, such as task.ready.
func shortType(typ string) string {
	return strings.TrimSuffix(strings.TrimPrefix(typ, "tradewind."), ".v1")
}

// Bus returns a bus that exports the spans of each job once the event that the job has finished is published.
func (t *Traces) Bus(b bus.Bus) bus.Bus {
	if t == nil {
		return b
	}
	return tracingBus{b, t}
}

type tracingBus struct {
	bus.Bus
	t *Traces
}

// Publish implements bus.Bus.
func (b tracingBus) Publish(ctx context.Context, messages ...bus.Message) error {
	if err := b.Bus.Publish(ctx, messages...); err != nil {
		return err
	}
	for _, m := range messages {
		if m.Type != events.TypeDAGFinished {
			continue
		}
		if ev, err := events.Parse(m.Body); err == nil {
			b.t.exportLater(ev.Data.Subject())
		}
	}
	return nil
}
