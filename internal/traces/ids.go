package traces

import (
	"context"
	"crypto/sha256"
	"strconv"
	"strings"

	"go.opentelemetry.io/otel/trace"
)

// traceID returns the ID of a job's trace.
func traceID(job string) (id trace.TraceID) {
	sum := sha256.Sum256([]byte("job\x00" + job))
	copy(id[:], sum[:])
	return id
}

// spanID returns the ID of the span that the words identify within a trace.
func spanID(words ...string) (id trace.SpanID) {
	sum := sha256.Sum256([]byte(strings.Join(words, "\x00")))
	copy(id[:], sum[:])
	return id
}

func jobSpan(job string) trace.SpanID            { return spanID("job", job) }
func taskSpan(job string, task int) trace.SpanID { return spanID("task", job, strconv.Itoa(task)) }

func attemptSpan(job string, task, number int) trace.SpanID {
	return spanID("attempt", job, strconv.Itoa(task), strconv.Itoa(number))
}

// spanIDKey is the context key of the IDs that generator gives to the next span.
type spanIDKey struct{}

// withSpan returns the context in which a span of a job starts. It has the span's ID and its parent. The span of the
// job itself has no parent.
func withSpan(ctx context.Context, job string, id, parent trace.SpanID) context.Context {
	ctx = context.WithValue(ctx, spanIDKey{}, trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: traceID(job), SpanID: id,
	}))
	if !parent.IsValid() {
		return ctx
	}
	return trace.ContextWithSpanContext(ctx, trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: traceID(job), SpanID: parent, TraceFlags: trace.FlagsSampled,
	}))
}

// idGenerator implements sdktrace.IDGenerator. It returns the IDs that beginning put into the context.
type idGenerator struct{}

func (idGenerator) NewIDs(ctx context.Context) (trace.TraceID, trace.SpanID) {
	c, _ := ctx.Value(spanIDKey{}).(trace.SpanContext)
	return c.TraceID(), c.SpanID()
}

func (idGenerator) NewSpanID(ctx context.Context, _ trace.TraceID) trace.SpanID {
	c, _ := ctx.Value(spanIDKey{}).(trace.SpanContext)
	return c.SpanID()
}
