// Package bustest is the conformance suite of package bus: it tests every sentence
// of the contract, and compares a driver with a model under random operations.
// Every driver must pass it:
//
//	func TestConformance(t *testing.T) {
//		bustest.Run(t, func(t *testing.T, s bustest.Setup) bus.Bus { … }, bustest.WithClock())
//	}
//
// It does not test the speed of a driver, or its state after a crash; drivers have their own tests for that.
package bustest

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/pkg/bus"
)

// Setup describes the bus that a test needs.
type Setup struct {
	Queues []bus.QueueConfig
	Route  bus.Route
	Clock  *Clock // for drivers that accept a clock
}

// Open returns a bus without messages for one test, which the suite closes at the end. The
// suite may close it earlier.
type Open func(t *testing.T, s Setup) bus.Bus

// Option describes what a driver supports in addition to the common contract.
type Option func(*suite)

// WithClock declares that the driver uses Setup.Clock. Without it, tests that need time to
// pass are skipped, because the suite does not sleep.
func WithClock() Option {
	return func(s *suite) { s.clocked = true }
}

// Reopen declares that the driver is durable: reopen closes b and opens its data again,
// possibly with another Setup.
func Reopen(reopen func(t *testing.T, b bus.Bus, s Setup) bus.Bus) Option {
	return func(s *suite) { s.reopen = reopen }
}

type suite struct {
	open    Open
	reopen  func(t *testing.T, b bus.Bus, s Setup) bus.Bus
	clocked bool
}

// Run runs the suite, each test on its own bus.
func Run(t *testing.T, open Open, options ...Option) {
	s := &suite{open: open}
	for _, o := range options {
		o(s)
	}
	for _, group := range []struct {
		name    string
		tests   map[string]func(*testing.T, *fixture)
		clocked bool
	}{
		{"Delivery", deliveryTests, false}, {"Dead letters", deadTests, false}, {"Limits", limitTests, false},
		{"Life", lifeTests, false}, {"Time", timeTests, true}, {"Waiting", waitTests, true},
	} {
		t.Run(group.name, func(t *testing.T) {
			if group.clocked && !s.clocked {
				t.Skip("the driver does not use the suite's clock")
			}
			for _, name := range slices.Sorted(maps.Keys(group.tests)) {
				t.Run(name, func(t *testing.T) { group.tests[name](t, s.fixture(t)) })
			}
		})
	}
	if s.clocked {
		t.Run("Model", s.testModel)
	}
	if s.reopen != nil {
		t.Run("Reopen", s.testReopen)
	}
}

// The queues and types of the suite.
const (
	workQueue  = "work"
	auditQueue = "audit"

	workType    = "test.work.v1"    // to work
	bothType    = "test.both.v1"    // to work and audit
	auditType   = "test.audit.v1"   // to audit
	nobodyType  = "test.nobody.v1"  // known, but no queue gets it
	unknownType = "test.unknown.v1" // without a route
)

const (
	visibility  = 30 * time.Second
	maxAttempts = 5
	backoffMin  = time.Second
	backoffMax  = 5 * time.Second
)

var epoch = time.Date(2017, 4, 1, 12, 0, 0, 0, time.UTC)

func setup() Setup {
	return Setup{
		Queues: []bus.QueueConfig{
			{Name: workQueue, Visibility: visibility, MaxAttempts: maxAttempts, BackoffMin: backoffMin,
				BackoffMax: backoffMax},
			{Name: auditQueue, Visibility: 2 * visibility, MaxAttempts: 1, BackoffMin: backoffMin,
				BackoffMax: backoffMax},
		},
		Route: bus.Route{workType: {workQueue}, bothType: {workQueue, auditQueue}, auditType: {auditQueue},
			nobodyType: {}},
		Clock: NewClock(epoch),
	}
}

// fixture is a bus with helpers for tests.
type fixture struct {
	bus.Bus
	*testing.T
	clock *Clock
}

func (s *suite) fixture(t *testing.T) *fixture {
	t.Helper()
	su := setup()
	f := &fixture{Bus: s.open(t, su), T: t, clock: su.Clock}
	t.Cleanup(func() {
		if err := f.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return f
}

func message(id, typ string) bus.Message {
	return bus.Message{ID: id, Type: typ, Group: "job/" + id, Body: body(id)}
}

// body is JSON, like every body on the bus.
func body(id string) []byte { return []byte(`{"id":` + strconv.Quote(id) + `}`) }

// publish publishes one message of a type for each ID.
func (f *fixture) publish(typ string, ids ...string) {
	f.Helper()
	messages := make([]bus.Message, len(ids))
	for i, id := range ids {
		messages[i] = message(id, typ)
	}
	f.send(messages...)
}

func (f *fixture) send(messages ...bus.Message) {
	f.Helper()
	if err := f.Publish(f.Context(), messages...); err != nil {
		f.Fatalf("Publish: %v", err)
	}
}

// receive returns visible messages, at most limit.
func (f *fixture) receive(queue string, limit int) []bus.Delivery {
	f.Helper()
	d, err := f.Receive(f.Context(), queue, limit, 0)
	if err != nil {
		f.Fatalf("Receive: %v", err)
	}
	if len(d) > limit {
		f.Fatalf("Receive of %d = %d messages", limit, len(d))
	}
	return d
}

// receiveAll returns all visible messages, sorted by ID. It makes the necessary number of calls.
func (f *fixture) receiveAll(queue string) []bus.Delivery {
	f.Helper()
	var all []bus.Delivery
	for {
		d := f.receive(queue, 10)
		if len(d) == 0 {
			slices.SortFunc(all, func(a, b bus.Delivery) int { return bytes.Compare([]byte(a.ID), []byte(b.ID)) })
			return all
		}
		all = append(all, d...)
	}
}

// one receives a message, which must be the only visible one.
func (f *fixture) one(queue, id string, attempt int) bus.Delivery {
	f.Helper()
	d := f.receiveAll(queue)
	if len(d) != 1 || d[0].ID != id || d[0].Attempt != attempt {
		f.Fatalf("received %s of %s, want attempt %d of %s", showAll(d), queue, attempt, id)
	}
	if d[0].Receipt == "" {
		f.Fatalf("%s has no receipt", showAll(d))
	}
	return d[0]
}

// none fails if a message is visible.
func (f *fixture) none(queue string) {
	f.Helper()
	if d := f.receive(queue, 10); len(d) != 0 {
		f.Fatalf("received %s of %s, want none", showAll(d), queue)
	}
}

func (f *fixture) ack(queue string, receipts ...string) {
	f.Helper()
	if err := f.Ack(f.Context(), queue, receipts...); err != nil {
		f.Fatalf("Ack: %v", err)
	}
}

func (f *fixture) nack(queue, receipt, reason string) {
	f.Helper()
	if err := f.Nack(f.Context(), queue, receipt, reason); err != nil {
		f.Fatalf("Nack: %v", err)
	}
}

func (f *fixture) reject(queue, receipt, reason string) {
	f.Helper()
	if err := f.Reject(f.Context(), queue, receipt, reason); err != nil {
		f.Fatalf("Reject: %v", err)
	}
}

func (f *fixture) extend(queue, receipt string) {
	f.Helper()
	if err := f.Extend(f.Context(), queue, receipt); err != nil {
		f.Fatalf("Extend: %v", err)
	}
}

func (f *fixture) redrive(want int, queue string, ids ...string) {
	f.Helper()
	n, err := f.Redrive(f.Context(), queue, ids...)
	if err != nil || n != want {
		f.Fatalf("Redrive(%q, %q) = %d, %v, want %d", queue, ids, n, err, want)
	}
}

func (f *fixture) depth(queue string, want int) {
	f.Helper()
	n, err := f.Depth(f.Context(), queue)
	if err != nil || n != want {
		f.Fatalf("Depth(%q) = %d, %v, want %d", queue, n, err, want)
	}
}

// dead returns the dead letters of a queue and fails unless they have exactly these IDs, oldest first.
func (f *fixture) dead(queue string, ids ...string) []bus.DeadLetter {
	f.Helper()
	letters, err := f.DeadLetters(f.Context(), queue, len(ids)+10)
	if err != nil {
		f.Fatalf("DeadLetters(%q): %v", queue, err)
	}
	got := make([]string, len(letters))
	for i, l := range letters {
		got[i] = l.ID
	}
	if !slices.Equal(got, ids) {
		f.Fatalf("DeadLetters(%q) = %q, want %q", queue, got, ids)
	}
	return letters
}

func ids(deliveries []bus.Delivery) []string {
	s := make([]string, len(deliveries))
	for i, d := range deliveries {
		s[i] = d.ID
	}
	return s
}

func receipts(deliveries []bus.Delivery) []string {
	s := make([]string, len(deliveries))
	for i, d := range deliveries {
		s[i] = d.Receipt
	}
	return s
}

func showAll(deliveries []bus.Delivery) string {
	s := make([]string, len(deliveries))
	for i, d := range deliveries {
		s[i] = fmt.Sprintf("%q attempt %d", d.ID, d.Attempt)
	}
	return fmt.Sprint(s)
}

func sameMessage(a, b bus.Message) bool {
	return a.ID == b.ID && a.Type == b.Type && a.Group == b.Group && bytes.Equal(a.Body, b.Body) &&
		a.NotBefore.Equal(b.NotBefore)
}
