package traces

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
)

// exportTimeout limits the time to read a job and send its spans.
const exportTimeout = time.Minute

// exportLater exports the spans of a finished job in the background.
func (t *Traces) exportLater(job string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return
	}
	t.exports.Go(func() {
		ctx, cancel := context.WithTimeout(t.exportCtx, exportTimeout)
		defer cancel()
		t.warn(job, t.read(ctx, job))
	})
}

// Export exports the spans of a finished job and returns when the collector has them. It only logs errors.
func (t *Traces) Export(ctx context.Context, job string) {
	err := t.read(ctx, job)
	if err == nil {
		err = t.spans.ForceFlush(ctx)
	}
	t.warn(job, err)
}

func (t *Traces) warn(job string, err error) {
	if err != nil {
		t.cfg.Log.Warn("opentelemetry", "job", job, "err", err)
	}
}

func (t *Traces) read(ctx context.Context, job string) error {
	d, err := t.cfg.Jobs(ctx, job)
	if err != nil {
		return err
	}
	return t.makeSpans(ctx, d)
}

// flushEvery is the number of spans after which they are sent: fewer than the SDK queues before it drops some.
const flushEvery = 1024

// makeSpans makes the spans of a job, its tasks and their attempts, with the times at which each began and ended.
func (t *Traces) makeSpans(ctx context.Context, d *apitypes.JobDetail) error {
	made := 0
	span := func(id, parent trace.SpanID, name string, from, to time.Time, bad string,
		attributes []attribute.KeyValue, moments map[string]time.Time) error {
		if from.IsZero() {
			return nil // it never began
		}
		if to.IsZero() {
			to = d.Finished
		}
		_, s := t.tracer.Start(withSpan(ctx, d.ID, id, parent), name, trace.WithTimestamp(from),
			trace.WithAttributes(attributes...))
		for what, at := range moments {
			if !at.IsZero() {
				s.AddEvent(what, trace.WithTimestamp(at))
			}
		}
		if bad != "" {
			s.SetStatus(codes.Error, bad)
		}
		s.End(trace.WithTimestamp(to))
		if made++; made%flushEvery == 0 {
			return t.spans.ForceFlush(ctx)
		}
		return nil
	}
	begun := map[int]time.Time{}
	for _, a := range d.Attempts {
		if at, ok := begun[a.Task]; !ok || a.Admitted.Before(at) {
			begun[a.Task] = a.Admitted
		}
		bad := ""
		if a.Outcome != apitypes.OutcomeSucceeded {
			bad = string(a.Outcome) + ": " + a.Reason
		}
		name := d.TaskList[a.Task].Name + " on " + a.Offer.Cloud + "/" + a.Offer.Region
		err := span(attemptSpan(d.ID, a.Task, a.Number), taskSpan(d.ID, a.Task), name, a.Admitted, a.Ended, bad,
			attemptAttributes(a), map[string]time.Time{"launched": a.Launched, "up": a.Up, "started": a.Started})
		if err != nil {
			return err
		}
	}
	for _, x := range d.TaskList {
		bad := ""
		if x.State == string(record.TaskFailed) {
			bad = x.Reason
		}
		err := span(taskSpan(d.ID, x.Index), jobSpan(d.ID), x.Name, begun[x.Index], x.Ended, bad,
			[]attribute.KeyValue{
				attribute.Int("tradewind.task", x.Index), attribute.String("tradewind.state", x.State),
				attribute.Int("tradewind.attempts", x.Attempts), attribute.Float64("tradewind.usd", x.USD),
			}, nil)
		if err != nil {
			return err
		}
	}
	bad := ""
	if d.State == apitypes.JobFailed {
		bad = d.Reason
	}
	return span(jobSpan(d.ID), trace.SpanID{}, d.Name, d.Submitted, d.Finished, bad, []attribute.KeyValue{
		attribute.String("tradewind.job", d.ID), attribute.String("tradewind.queue", d.Queue),
		attribute.String("tradewind.state", string(d.State)), attribute.Int("tradewind.tasks", d.Tasks),
		attribute.Float64("tradewind.usd", d.SpentUSD), attribute.Float64("tradewind.planned_usd", d.PlannedUSD),
		attribute.Float64("tradewind.on_demand_usd", d.OnDemandUSD), attribute.Bool("tradewind.late", d.Late),
	}, nil)
}

// attemptAttributes returns the attributes of an attempt: its place, by OpenTelemetry's names, its outcome and its
// cost.
func attemptAttributes(a apitypes.Attempt) []attribute.KeyValue {
	all := []attribute.KeyValue{
		attribute.String("cloud.provider", a.Offer.Cloud), attribute.String("cloud.region", a.Offer.Region),
		attribute.String("cloud.availability_zone", a.Offer.Zone), attribute.String("host.type", a.Offer.InstanceType),
		attribute.Bool("tradewind.spot", a.Offer.Spot), attribute.Int("tradewind.nodes", a.Nodes),
		attribute.Int("tradewind.plan", a.Plan), attribute.String("tradewind.outcome", string(a.Outcome)),
		attribute.Float64("tradewind.usd", a.USD),
	}
	if a.Reason != "" {
		all = append(all, attribute.String("tradewind.reason", a.Reason))
	}
	return all
}
