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

// Config is what is needed beside OpenTelemetry's own environment variables.
type Config struct {
	Version string
	Jobs    func(ctx context.Context, id string) (*apitypes.JobDetail, error)
	// Metrics begins to send numbers too, of this very program; nil sends none. A function has none, and need not link
	// what reads them.
	Metrics func(ctx context.Context, who *resource.Resource) (Numbers, error)
	Headers map[string]string // of every request, beside those of the environment
	// Now is the broker's clock, which may be quicker than the wall's: what is told of jobs is told by it.
	Now func() time.Time
	Log *slog.Logger
}

// Numbers are sent until they are shut down.
type Numbers interface {
	Shutdown(ctx context.Context) error
}

// Traces sends what a broker does to a collector. The nil Traces sends nothing.
type Traces struct {
	cfg    Config
	spans  *sdktrace.TracerProvider
	meters Numbers // nil where there are no metrics
	tracer trace.Tracer

	mu     sync.Mutex
	closed bool
	over   sync.WaitGroup  // jobs that are being told
	late   context.Context //nolint:containedctx // ends when they are not waited for any more
	giveUp context.CancelFunc
}

// Asked says whether the environment names a collector (OTEL_EXPORTER_OTLP_ENDPOINT, or that for traces), as all
// programs with OpenTelemetry read it.
func Asked() bool {
	off, _ := strconv.ParseBool(os.Getenv("OTEL_SDK_DISABLED"))
	return !off && (os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT") != "" ||
		os.Getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") != "")
}

// Open begins to send. A collector that does not answer is told of in the log, and harms nothing.
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
		cfg: cfg, late: late, giveUp: giveUp,
		spans: sdktrace.NewTracerProvider(
			sdktrace.WithBatcher(out), sdktrace.WithResource(who), sdktrace.WithIDGenerator(generator{}),
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

// closeWithin is how long what has not been sent may hold up a broker that ends.
const closeWithin = 5 * time.Second

// Close sends what is left, unless the collector takes longer than a few seconds.
func (t *Traces) Close() error {
	if t == nil {
		return nil
	}
	t.mu.Lock()
	t.closed = true
	t.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), closeWithin)
	defer cancel()
	defer context.AfterFunc(ctx, t.giveUp)() // what is told of a large job takes as long as the collector does
	t.over.Wait()
	err := t.spans.Shutdown(ctx)
	if t.meters != nil {
		err = errors.Join(err, t.meters.Shutdown(ctx))
	}
	if err != nil {
		t.cfg.Log.Warn("opentelemetry", "err", err)
	}
	return nil
}

// Handled tells of a batch that a function was given: a span for each event that is of a job, and how it went.
func (t *Traces) Handled(function string, batch []events.Event, errs []error, took time.Duration) {
	if t == nil {
		return
	}
	end := t.cfg.Now()
	for i, ev := range batch {
		of := subject(ev.Data)
		if of.job == "" {
			continue
		}
		parent := jobSpan(of.job)
		if of.attempt > 0 {
			parent = attemptSpan(of.job, of.task, of.attempt)
		}
		id := spanOf("handled", function, ev.ID, end.Format(time.RFC3339Nano))
		_, span := t.tracer.Start(beginning(context.Background(), of.job, id, parent),
			function+" "+plain(ev.Type()), trace.WithTimestamp(end.Add(-took)),
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

// plain is an event's type as people say it: task.ready.
func plain(typ string) string {
	return strings.TrimSuffix(strings.TrimPrefix(typ, "tradewind."), ".v1")
}

// Bus tells of each job whose end is published.
func (t *Traces) Bus(b bus.Bus) bus.Bus {
	if t == nil {
		return b
	}
	return telling{b, t}
}

type telling struct {
	bus.Bus
	t *Traces
}

// Publish implements bus.Bus.
func (b telling) Publish(ctx context.Context, messages ...bus.Message) error {
	if err := b.Bus.Publish(ctx, messages...); err != nil {
		return err
	}
	for _, m := range messages {
		if m.Type != events.TypeDAGFinished {
			continue
		}
		if ev, err := events.Parse(m.Body); err == nil {
			b.t.finished(ev.Data.Subject())
		}
	}
	return nil
}
