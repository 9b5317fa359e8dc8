package aws_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/internal/bus/aws"
	"github.com/tradewind-broker/tradewind/pkg/bus"
)

// faulty makes every n'th call fail. Each failure is of the next possible kind.
type faulty struct {
	n    int
	next http.RoundTripper

	mu      sync.Mutex
	calls   int
	faults  int
	partial int
}

func (f *faulty) RoundTrip(r *http.Request) (*http.Response, error) {
	f.mu.Lock()
	f.calls++
	way := -1
	if f.calls%f.n == 0 {
		way = f.faults % 5
		f.faults++
	}
	f.mu.Unlock()
	switch way {
	case 0:
		return answer(r, 503, `{"__type":"ServiceUnavailable","message":"try later"}`), drain(r)
	case 1:
		return answer(r, 400, `{"__type":"ThrottlingException","message":"Rate exceeded"}`), drain(r)
	case 2: // the call is carried out, but its answer is lost
		res, err := f.next.RoundTrip(r)
		if err != nil {
			return nil, err
		}
		_ = res.Body.Close()
		return nil, errors.New("connection reset by peer")
	case 3:
		return nil, errors.Join(errors.New("connection refused"), drain(r))
	case 4:
		return f.halve(r)
	}
	return f.next.RoundTrip(r)
}

func drain(r *http.Request) error {
	if r.Body == nil {
		return nil
	}
	return r.Body.Close()
}

func answer(r *http.Request, status int, body string) *http.Response {
	return &http.Response{
		StatusCode: status, Status: fmt.Sprint(status), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: r,
		Header: http.Header{"Content-Type": {r.Header.Get("Content-Type")}}, Body: io.NopCloser(strings.NewReader(body)), ContentLength: int64(len(body)),
	}
}

// halve forwards every other entry of a batch, and reports the other entries as failed.
func (f *faulty) halve(r *http.Request) (*http.Response, error) {
	_, action, _ := strings.Cut(r.Header.Get("X-Amz-Target"), ".")
	if action != "PutEvents" && !strings.HasSuffix(action, "Batch") {
		return f.next.RoundTrip(r)
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	var in map[string]json.RawMessage
	var entries, kept []map[string]any
	if err := errors.Join(json.Unmarshal(body, &in), json.Unmarshal(in["Entries"], &entries)); err != nil {
		return nil, err
	}
	for i, e := range entries {
		if i%2 == 1 {
			kept = append(kept, e)
		}
	}
	out := map[string]any{}
	if len(kept) > 0 {
		in["Entries"], _ = json.Marshal(kept)
		body, _ = json.Marshal(in)
		again := r.Clone(r.Context())
		again.Body, again.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
		res, err := f.next.RoundTrip(again)
		if err != nil {
			return nil, err
		}
		defer res.Body.Close()
		if err := json.NewDecoder(res.Body).Decode(&out); err != nil {
			return nil, err
		}
	}
	f.mu.Lock()
	f.partial++
	f.mu.Unlock()
	blend(out, action, entries)
	body, err = json.Marshal(out)
	return answer(r, 200, string(body)), err
}

// blend adds failed entries to an answer.
func blend(out map[string]any, action string, entries []map[string]any) {
	done, _ := out["Entries"].([]any)
	var all, failed []any
	for i, e := range entries {
		switch {
		case i%2 == 1 && action == "PutEvents":
			all, done = append(all, done[0]), done[1:]
		case i%2 == 0 && action == "PutEvents":
			failed = append(failed, e)
			all = append(all, map[string]any{"ErrorCode": "InternalFailure", "ErrorMessage": "injected"})
		case i%2 == 0:
			failed = append(failed, map[string]any{"Id": e["Id"], "Code": "InternalError", "SenderFault": false, "Message": "injected"})
		}
	}
	if action == "PutEvents" {
		out["FailedEntryCount"], out["Entries"] = len(failed), all
		return
	}
	out["Failed"] = failed
}

func TestNothingIsLostWhileCallsFail(t *testing.T) {
	for _, n := range []int{10, 3, 2} {
		t.Run(fmt.Sprintf("every %d", n), func(t *testing.T) { testFaults(t, n) })
	}
}

func testFaults(t *testing.T, n int) {
	w := moto(t)
	c := w.deployment(t, setup())
	f := &faulty{n: n}
	cfg := w.config(func(next http.RoundTripper) http.RoundTripper { f.next = next; return f })
	cfg.RetryMaxAttempts = 1 // tests the driver's retries, not the SDK's
	b := open(t, withClients(c, cfg))

	const messages = 60
	want := make(map[string]bool)
	again(t, func() error {
		var list []bus.Message
		for i := range messages {
			m := bus.Message{ID: fmt.Sprint("m", i), Type: "test.work.v1", Body: fmt.Appendf(nil, `{"n":%d}`, i)}
			if i%10 == 0 {
				m.Body = fmt.Appendf(nil, `"%s"`, strings.Repeat("é", 100_000+i))
			}
			want[m.ID] = true
			list = append(list, m)
		}
		return b.Publish(t.Context(), list...)
	})
	handled := make(map[string]bool)
	for round := 0; len(handled) < messages; round++ {
		if round > 200 {
			t.Fatalf("%d of %d messages arrived", len(handled), messages)
		}
		deliveries, err := b.Receive(t.Context(), "work", 10, 0)
		if err != nil {
			t.Logf("receive: %v", err)
		}
		if len(deliveries) == 0 { // hidden, because an answer was lost or a call failed
			w.advance(t, 61*time.Minute)
		}
		settle(t, b, deliveries, handled, round)
	}
	for id := range want {
		if !handled[id] {
			t.Errorf("%s never arrived", id)
		}
	}
	if f.partial == 0 || f.faults < 5 {
		t.Errorf("%d faults of %d calls, %d of them partial: too few for a test", f.faults, f.calls, f.partial)
	}
	t.Logf("%d faults in %d calls, %d of them partial", f.faults, f.calls, f.partial)
}

// settle answers deliveries in every way. It redrives dead letters at once, so that all messages are handled in the
// end.
func settle(t *testing.T, b *aws.Bus, deliveries []bus.Delivery, handled map[string]bool, round int) {
	t.Helper()
	var done []string
	for i, d := range deliveries {
		switch {
		case (i+round)%5 == 0 && round < 10:
			expect(t, b.Nack(t.Context(), "work", d.Receipt, "again"))
		case (i+round)%5 == 1 && round < 10:
			expect(t, b.Reject(t.Context(), "work", d.Receipt, "rejected"))
		default:
			done = append(done, d.Receipt)
			handled[d.ID] = true
		}
	}
	if len(done) > 0 {
		expect(t, b.Ack(t.Context(), "work", done...))
	}
	if _, err := b.Redrive(t.Context(), ""); err != nil {
		t.Logf("redrive: %v", err)
	}
}

// expect logs an error that a consumer may get. The message will be delivered again.
func expect(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Logf("answer: %v", err)
	}
}

// again calls do until it succeeds, like a relay.
func again(t *testing.T, do func() error) {
	t.Helper()
	var err error
	for range 10 {
		if err = do(); err == nil {
			return
		}
	}
	t.Fatal(err)
}
