package base

import (
	"context"
	"io"
	"log/slog"
	"os"
	"sync/atomic"

	"github.com/aws/aws-lambda-go/lambdacontext"
)

// Invocation is the request that a sandbox handles; there is one at a time.
type Invocation struct{ Request, Trace string }

// InvocationOf returns the IDs of a request. The runtime sets a new trace for each request.
func InvocationOf(ctx context.Context) *Invocation {
	i := &Invocation{Trace: os.Getenv("_X_AMZN_TRACE_ID")}
	if lc, ok := lambdacontext.FromContext(ctx); ok {
		i.Request = lc.AwsRequestID
	}
	if trace, ok := ctx.Value("x-amzn-trace-id").(string); ok && trace != "" { //nolint:staticcheck // the runtime's own key
		i.Trace = trace
	}
	return i
}

// NewLog makes a logger of JSON lines in the format of Lambda's log levels: with timestamp, level and message.
func NewLog(out io.Writer, level, fn string, now *atomic.Pointer[Invocation]) *slog.Logger {
	var least slog.Level
	if err := least.UnmarshalText([]byte(level)); err != nil {
		least = slog.LevelInfo
	}
	inner := slog.NewJSONHandler(out, &slog.HandlerOptions{Level: least, ReplaceAttr: rename})
	return slog.New(&handler{Handler: inner.WithAttrs([]slog.Attr{slog.String("function", fn)}), now: now})
}

func rename(groups []string, a slog.Attr) slog.Attr {
	if len(groups) > 0 {
		return a
	}
	switch a.Key {
	case slog.TimeKey:
		a.Key = "timestamp"
	case slog.MessageKey:
		a.Key = "message"
	}
	return a
}

// handler adds the request's IDs to every line, also without a context.
type handler struct {
	slog.Handler
	now *atomic.Pointer[Invocation]
}

// Handle implements slog.Handler.
func (h *handler) Handle(ctx context.Context, r slog.Record) error {
	if i := h.now.Load(); i != nil {
		if i.Request != "" {
			r.AddAttrs(slog.String("requestId", i.Request))
		}
		if i.Trace != "" {
			r.AddAttrs(slog.String("traceId", i.Trace))
		}
	}
	return h.Handler.Handle(ctx, r)
}

// WithAttrs implements slog.Handler.
func (h *handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &handler{Handler: h.Handler.WithAttrs(attrs), now: h.now}
}

// WithGroup implements slog.Handler.
func (h *handler) WithGroup(name string) slog.Handler {
	return &handler{Handler: h.Handler.WithGroup(name), now: h.now}
}
