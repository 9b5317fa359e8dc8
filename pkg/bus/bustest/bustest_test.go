package bustest_test

import (
	"context"
	"errors"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/internal/bus/local"
	"github.com/tradewind-broker/tradewind/pkg/bus"
	"github.com/tradewind-broker/tradewind/pkg/bus/bustest"
)

// broken is a driver with one defect. The methods whose function is nil work.
type broken struct {
	bus.Bus
	publish func(context.Context, ...bus.Message) error
	receive func(context.Context, string, int, time.Duration) ([]bus.Delivery, error)
	ack     func(context.Context, string, ...string) error
	nack    func(context.Context, string, string, string) error
	reject  func(context.Context, string, string, string) error
	extend  func(context.Context, string, string) error
	dead    func(context.Context, string, int) ([]bus.DeadLetter, error)
	redrive func(context.Context, string, ...string) (int, error)
	close   func() error
}

func (b *broken) Publish(ctx context.Context, m ...bus.Message) error {
	if b.publish != nil {
		return b.publish(ctx, m...)
	}
	return b.Bus.Publish(ctx, m...)
}

func (b *broken) Receive(ctx context.Context, queue string, limit int, wait time.Duration) ([]bus.Delivery, error) {
	if b.receive != nil {
		return b.receive(ctx, queue, limit, wait)
	}
	return b.Bus.Receive(ctx, queue, limit, wait)
}

func (b *broken) Ack(ctx context.Context, queue string, receipts ...string) error {
	if b.ack != nil {
		return b.ack(ctx, queue, receipts...)
	}
	return b.Bus.Ack(ctx, queue, receipts...)
}

func (b *broken) Nack(ctx context.Context, queue, receipt, reason string) error {
	if b.nack != nil {
		return b.nack(ctx, queue, receipt, reason)
	}
	return b.Bus.Nack(ctx, queue, receipt, reason)
}

func (b *broken) Reject(ctx context.Context, queue, receipt, reason string) error {
	if b.reject != nil {
		return b.reject(ctx, queue, receipt, reason)
	}
	return b.Bus.Reject(ctx, queue, receipt, reason)
}

func (b *broken) Extend(ctx context.Context, queue, receipt string) error {
	if b.extend != nil {
		return b.extend(ctx, queue, receipt)
	}
	return b.Bus.Extend(ctx, queue, receipt)
}

func (b *broken) DeadLetters(ctx context.Context, queue string, limit int) ([]bus.DeadLetter, error) {
	if b.dead != nil {
		return b.dead(ctx, queue, limit)
	}
	return b.Bus.DeadLetters(ctx, queue, limit)
}

func (b *broken) Redrive(ctx context.Context, queue string, ids ...string) (int, error) {
	if b.redrive != nil {
		return b.redrive(ctx, queue, ids...)
	}
	return b.Bus.Redrive(ctx, queue, ids...)
}

func (b *broken) Close() error {
	if b.close != nil {
		return b.close()
	}
	return b.Bus.Close()
}

// configured changes the configuration of every queue.
func configured(change func(q *bus.QueueConfig)) func(*bustest.Setup) {
	return func(s *bustest.Setup) {
		for i := range s.Queues {
			change(&s.Queues[i])
		}
	}
}

// defects are defects of a driver. The suite must detect each of them.
var defects = []struct {
	name, group string // group: the group of tests that must fail
	setup       func(s *bustest.Setup)
	do          func(b *broken, sound bus.Bus)
}{
	{name: "back-off begins too late", group: "Time", setup: configured(func(q *bus.QueueConfig) { q.BackoffMin *= 2 })},
	{name: "back-off does not double", group: "Time", setup: configured(func(q *bus.QueueConfig) { q.BackoffMax = q.BackoffMin })},
	{name: "back-off has no bound", group: "Time", setup: configured(func(q *bus.QueueConfig) { q.BackoffMax = time.Hour })},
	{name: "one attempt too many", group: "Time", setup: configured(func(q *bus.QueueConfig) { q.MaxAttempts++ })},
	{name: "one attempt too few", group: "Model", setup: configured(func(q *bus.QueueConfig) { q.MaxAttempts = max(q.MaxAttempts-1, 1) })},
	{name: "messages are hidden too long", group: "Time", setup: configured(func(q *bus.QueueConfig) { q.Visibility++ })},
	{name: "messages are hidden too short", group: "Time", setup: configured(func(q *bus.QueueConfig) { q.Visibility-- })},
	{name: "messages without a route are dropped", group: "Dead_letters", setup: func(s *bustest.Setup) { s.Route["test.unknown.v1"] = nil }},
	{name: "dropped types become dead letters", group: "Delivery", setup: func(s *bustest.Setup) { delete(s.Route, "test.nobody.v1") }},
	{name: "only one queue gets a message", group: "Delivery", setup: func(s *bustest.Setup) {
		for typ, queues := range s.Route {
			s.Route[typ] = queues[:min(len(queues), 1)]
		}
	}},
	{name: "a message of many is lost", group: "Delivery", do: func(b *broken, sound bus.Bus) {
		b.publish = func(ctx context.Context, m ...bus.Message) error { return sound.Publish(ctx, m[:min(len(m), 20)]...) }
	}},
	{name: "messages are published one by one", group: "Limits", do: func(b *broken, sound bus.Bus) {
		b.publish = func(ctx context.Context, m ...bus.Message) error {
			for _, m := range m {
				if err := sound.Publish(ctx, m); err != nil {
					return err
				}
			}
			return ctx.Err()
		}
	}},
	{name: "delays are ignored", group: "Time", do: func(b *broken, sound bus.Bus) {
		b.publish = func(ctx context.Context, m ...bus.Message) error {
			for i := range m {
				m[i].NotBefore = time.Time{}
			}
			return sound.Publish(ctx, m...)
		}
	}},
	{name: "contexts are ignored", group: "Life", do: func(b *broken, sound bus.Bus) {
		b.publish = func(_ context.Context, m ...bus.Message) error { return sound.Publish(context.Background(), m...) }
	}},
	{name: "a delivery is not hidden", group: "Delivery", do: func(b *broken, sound bus.Bus) {
		var before []bus.Delivery
		b.receive = func(ctx context.Context, queue string, limit int, wait time.Duration) ([]bus.Delivery, error) {
			d, err := sound.Receive(ctx, queue, limit, wait)
			d, before = append(d, before...), d
			return d[:min(len(d), max(limit, 0))], err
		}
	}},
	{name: "receivers do not wait", group: "Waiting", do: func(b *broken, sound bus.Bus) {
		b.receive = func(ctx context.Context, queue string, limit int, _ time.Duration) ([]bus.Delivery, error) {
			return sound.Receive(ctx, queue, limit, 0)
		}
	}},
	{name: "attempts are not counted", group: "Time", do: func(b *broken, sound bus.Bus) {
		b.receive = func(ctx context.Context, queue string, limit int, wait time.Duration) ([]bus.Delivery, error) {
			d, err := sound.Receive(ctx, queue, limit, wait)
			for i := range d {
				d[i].Attempt = 1
			}
			return d, err
		}
	}},
	{name: "acknowledging does nothing", group: "Delivery", do: func(b *broken, _ bus.Bus) {
		b.ack = func(ctx context.Context, _ string, _ ...string) error { return ctx.Err() }
	}},
	{name: "only the first receipt is acknowledged", group: "Delivery", do: func(b *broken, sound bus.Bus) {
		b.ack = func(ctx context.Context, queue string, r ...string) error {
			return sound.Ack(ctx, queue, r[:min(len(r), 1)]...)
		}
	}},
	{name: "a stale receipt blocks the others", group: "Time", do: func(b *broken, sound bus.Bus) {
		b.ack = func(ctx context.Context, queue string, receipts ...string) error {
			for _, r := range receipts {
				if err := sound.Ack(ctx, queue, r); err != nil {
					return err
				}
			}
			return ctx.Err()
		}
	}},
	{name: "stale receipts are accepted", group: "Time", do: func(b *broken, sound bus.Bus) {
		b.ack = func(ctx context.Context, queue string, r ...string) error {
			if err := sound.Ack(ctx, queue, r...); !errors.Is(err, bus.ErrStaleReceipt) {
				return err
			}
			return nil
		}
	}},
	{name: "a failed message is dead", group: "Time", do: func(b *broken, sound bus.Bus) { b.nack = sound.Reject }},
	{name: "a rejected message fails", group: "Dead_letters", do: func(b *broken, sound bus.Bus) { b.reject = sound.Nack }},
	{name: "reasons are lost", group: "Dead_letters", do: func(b *broken, sound bus.Bus) {
		b.reject = func(ctx context.Context, queue, receipt, _ string) error {
			return sound.Reject(ctx, queue, receipt, "rejected")
		}
	}},
	{name: "extending does nothing", group: "Time", do: func(b *broken, _ bus.Bus) {
		b.extend = func(context.Context, string, string) error { return nil }
	}},
	{name: "the queue of dead letters is ignored", group: "Dead_letters", do: func(b *broken, sound bus.Bus) {
		b.dead = func(ctx context.Context, _ string, limit int) ([]bus.DeadLetter, error) {
			return sound.DeadLetters(ctx, "", limit)
		}
	}},
	{name: "redrive ignores the IDs", group: "Dead_letters", do: func(b *broken, sound bus.Bus) {
		b.redrive = func(ctx context.Context, queue string, _ ...string) (int, error) { return sound.Redrive(ctx, queue) }
	}},
	{name: "redrive takes only a page", group: "Dead_letters", do: func(b *broken, sound bus.Bus) {
		b.redrive = func(ctx context.Context, queue string, ids ...string) (int, error) {
			if letters, err := sound.DeadLetters(ctx, queue, 500); err != nil || len(letters) == 500 {
				return 0, err
			}
			return sound.Redrive(ctx, queue, ids...)
		}
	}},
	{name: "a closed bus keeps working", group: "Life", do: func(b *broken, _ bus.Bus) {
		b.close = func() error { return nil }
	}},
}

func openMemory(t *testing.T, s bustest.Setup) bus.Bus {
	t.Helper()
	b, err := local.NewMemory(local.Config{Queues: s.Queues, Route: s.Route, Clock: s.Clock})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

const defect = "TRADEWIND_TEST_DEFECT" // names the defect in the process that must fail

// TestBrokenDriver runs the suite in a separate process, in which it must fail. In other processes it is skipped.
func TestBrokenDriver(t *testing.T) {
	name := os.Getenv(defect)
	if name == "" {
		t.Skip("run by TestSuiteDetectsEveryDefect")
	}
	bustest.Run(t, func(t *testing.T, s bustest.Setup) bus.Bus {
		for _, d := range defects {
			if d.name != name {
				continue
			}
			if d.setup != nil {
				// copies, so that the suite's own values do not change
				s.Queues, s.Route = slices.Clone(s.Queues), maps.Clone(s.Route)
				d.setup(&s)
			}
			b := &broken{Bus: openMemory(t, s)}
			if d.do != nil {
				d.do(b, b.Bus)
			}
			return b
		}
		t.Fatalf("unknown defect %q", name)
		return nil
	}, bustest.WithClock())
}

func TestSuiteDetectsEveryDefect(t *testing.T) {
	for _, d := range defects {
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			cmd := exec.Command(os.Args[0], "-test.run=^TestBrokenDriver$/^"+d.group+"$", "-test.failfast", "-test.timeout=60s", "-rapid.nofailfile", "-rapid.shrinktime=0s") //nolint:gosec // this test's own program
			cmd.Env = append(os.Environ(), defect+"="+d.name)
			out, err := cmd.CombinedOutput()
			var exit *exec.ExitError
			if !errors.As(err, &exit) || !strings.Contains(string(out), "--- FAIL") || strings.Contains(string(out), "panic:") {
				t.Errorf("the suite did not detect the defect: %v\n%s", err, out)
			}
		})
	}
}

// TestSuiteSkipsTimeTestsWithoutClock: a driver has no clock that tests can move. The suite must skip the tests that
// need one.
func TestSuiteSkipsTimeTestsWithoutClock(t *testing.T) {
	bustest.Run(t, func(t *testing.T, s bustest.Setup) bus.Bus {
		b, err := local.NewMemory(local.Config{Queues: s.Queues, Route: s.Route})
		if err != nil {
			t.Fatal(err)
		}
		return b
	})
}
