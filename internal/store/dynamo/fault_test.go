package dynamo_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/tradewind-broker/tradewind/internal/store/dynamo"
	"github.com/tradewind-broker/tradewind/pkg/store"
)

// faulty is an HTTP client between the store and a real table. It injects faults.
type faulty struct {
	mu       sync.Mutex
	faults   map[string][]fault // faults of the next requests, by operation
	requests map[string]int
}

// fault answers a request in place of the database. It may forward the request first.
type fault func(r *http.Request, body []byte) (*http.Response, error)

func (f *faulty) Do(r *http.Request) (*http.Response, error) {
	_, operation, _ := strings.Cut(r.Header.Get("X-Amz-Target"), ".")
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	f.mu.Lock()
	f.requests[operation]++
	var next fault
	if queue := f.faults[operation]; len(queue) > 0 {
		next, f.faults[operation] = queue[0], queue[1:]
	}
	f.mu.Unlock()
	if next == nil {
		next = forward
	}
	return next(r, body)
}

// will injects a fault into the next n requests of an operation.
func (f *faulty) will(operation string, n int, what fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for range n {
		f.faults[operation] = append(f.faults[operation], what)
	}
}

func (f *faulty) made(operation string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.requests[operation]
}

func forward(r *http.Request, body []byte) (*http.Response, error) {
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	return http.DefaultClient.Do(r)
}

// lost forwards the request, and loses the answer.
func lost(r *http.Request, body []byte) (*http.Response, error) {
	resp, err := forward(r, body)
	if err != nil {
		return nil, err
	}
	_ = resp.Body.Close()
	return nil, fmt.Errorf("connection reset by peer: %w", io.ErrUnexpectedEOF)
}

func answer(status int, v any) fault {
	return func(r *http.Request, _ []byte) (*http.Response, error) { return respond(r, status, v) }
}

func respond(r *http.Request, status int, v any) (*http.Response, error) {
	text, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	return &http.Response{
		StatusCode: status, Header: http.Header{"Content-Type": {"application/x-amz-json-1.0"}}, Request: r,
		Body: io.NopCloser(bytes.NewReader(text)), ContentLength: int64(len(text)),
	}, nil
}

func refusal(code string) fault {
	return answer(http.StatusBadRequest, map[string]any{"__type": "com.amazonaws.dynamodb.v20120810#" + code, "message": "injected by the test"})
}

func cancelled(codes ...string) fault {
	var reasons []map[string]string
	for _, c := range codes {
		reasons = append(reasons, map[string]string{"Code": c, "Message": "injected by the test"})
	}
	return answer(http.StatusBadRequest, map[string]any{
		"__type": "com.amazonaws.dynamodb.v20120810#TransactionCanceledException", "Message": "cancelled", "CancellationReasons": reasons,
	})
}

// halved lets the database process the first half of a batch, and returns the other half as unprocessed.
func halved(requestField, leftField string) fault {
	return func(r *http.Request, body []byte) (*http.Response, error) {
		var in map[string]any
		if err := json.Unmarshal(body, &in); err != nil {
			return nil, err
		}
		left := map[string]any{}
		for table, v := range in[requestField].(map[string]any) {
			switch batch := v.(type) {
			case []any: // of writes
				n := (len(batch) + 1) / 2
				in[requestField].(map[string]any)[table] = batch[:n]
				left[table] = batch[n:]
			case map[string]any: // of keys
				keys := batch["Keys"].([]any)
				n := (len(keys) + 1) / 2
				rest := maps.Clone(batch)
				rest["Keys"], batch["Keys"] = keys[n:], keys[:n]
				left[table] = rest
			}
		}
		body, err := json.Marshal(in)
		if err != nil {
			return nil, err
		}
		r.Header.Del("Content-Length")
		resp, err := forward(r, body)
		if err != nil {
			return nil, err
		}
		defer resp.Body.Close()
		var out map[string]any
		if err := json.NewDecoder(resp.Body).Decode(&out); err != nil {
			return nil, err
		}
		if resp.StatusCode == http.StatusOK {
			out[leftField] = left
		}
		return respond(r, resp.StatusCode, out)
	}
}

// onFaulty returns a store on a table of DynamoDB Local, and the client that injects its faults.
func onFaulty(t *testing.T, attempts int) (*dynamo.Store, *faulty) {
	t.Helper()
	ts := onLocal(t)
	road := &faulty{faults: map[string][]fault{}, requests: map[string]int{}}
	cfg := ts.cfg
	cfg.HTTPClient = road
	return open(t, cfg, ts.create(t), dynamo.Options{Attempts: attempts}), road
}

func key(partition, sort string) store.Key { return store.Key{Partition: partition, Sort: sort} }

func put(k store.Key, expect store.Version, body string) store.Write {
	return store.Write{Op: store.Put, Key: k, Expect: expect, Body: []byte(body)}
}

func version(t *testing.T, s store.Store, k store.Key) store.Version {
	t.Helper()
	r, err := s.Get(t.Context(), k)
	if err != nil {
		t.Fatal(err)
	}
	if len(r) == 0 {
		return store.Absent
	}
	return r[0].Version
}

var (
	one   = key("job#1", "one")
	two   = key("job#1", "two")
	both  = store.Tx{Writes: []store.Write{put(one, store.Any, "1"), put(two, store.Any, "2")}, Events: []store.Event{{ID: "e", Body: []byte("x")}}}
	alone = store.Tx{Writes: []store.Write{put(one, store.Absent, "1")}}
)

func TestThrottlingIsRetriedThenReported(t *testing.T) {
	for operation, call := range map[string]func(*dynamo.Store) error{
		"TransactWriteItems": func(s *dynamo.Store) error { return s.Commit(t.Context(), both) },
		"PutItem":            func(s *dynamo.Store) error { return s.Commit(t.Context(), alone) },
		"GetItem":            func(s *dynamo.Store) error { _, err := s.Get(t.Context(), one); return err },
		"BatchGetItem":       func(s *dynamo.Store) error { _, err := s.Get(t.Context(), one, two); return err },
		"Query":              func(s *dynamo.Store) error { _, _, err := s.Query(t.Context(), "p", "", store.Page{}); return err },
	} {
		for _, slow := range []fault{refusal("ProvisionedThroughputExceededException"), refusal("ThrottlingException"), refusal("RequestLimitExceeded")} {
			s, road := onFaulty(t, 3)
			road.will(operation, 2, slow)
			if err := call(s); err != nil {
				t.Errorf("%s, throttled twice: %v", operation, err)
			}
			s, road = onFaulty(t, 3)
			road.will(operation, 3, slow)
			if err := call(s); !errors.Is(err, store.ErrThrottled) {
				t.Errorf("%s, throttled on every attempt: %v, want ErrThrottled", operation, err)
			}
			if n := road.made(operation); n != 3 {
				t.Errorf("%s was tried %d times, want 3", operation, n)
			}
		}
	}
}

func TestLostAnswerAppliesOnceWithoutConflict(t *testing.T) {
	exact := store.Tx{Writes: []store.Write{put(one, store.Absent, "1"), put(two, store.Absent, "2")}, Events: both.Events}
	for name, c := range map[string]struct {
		operation string
		tx        store.Tx
	}{
		"a transaction":                {"TransactWriteItems", exact},
		"a transaction of any version": {"TransactWriteItems", both},
		"a single put":                 {"PutItem", alone},
		"only events":                  {"PutItem", store.Tx{Events: both.Events}},
	} {
		t.Run(name, func(t *testing.T) {
			s, road := onFaulty(t, 4)
			road.will(c.operation, 2, lost)
			if err := s.Commit(t.Context(), c.tx); err != nil {
				t.Fatalf("Commit: %v", err)
			}
			for _, w := range c.tx.Writes {
				if v := version(t, s, w.Key); v != 1 {
					t.Errorf("%s has version %d, want 1", w.Key, v)
				}
			}
			events, err := s.Outbox(t.Context(), 10)
			if err != nil || len(events) != len(c.tx.Events) {
				t.Errorf("the outbox holds %d events (%v), want %d", len(events), err, len(c.tx.Events))
			}
		})
	}
}

// TestLostAnswerOfDeleteIsUnknownOutcome: the answer to a delete is lost. The outcome must be unknown, because a
// store cannot tell its own delete from another client's.
func TestLostAnswerOfDeleteIsUnknownOutcome(t *testing.T) {
	s, road := onFaulty(t, 3)
	if err := s.Commit(t.Context(), alone); err != nil {
		t.Fatal(err)
	}
	road.will("DeleteItem", 1, lost)
	err := s.Commit(t.Context(), store.Tx{Writes: []store.Write{{Op: store.Delete, Key: one, Expect: 1}}})
	if !errors.Is(err, dynamo.ErrUnknownOutcome) || errors.Is(err, store.ErrConflict) {
		t.Errorf("Commit = %v, want ErrUnknownOutcome", err)
	}
}

// TestConcurrentPutIsNotMistakenForOwn: a request is lost before it takes effect, and another client writes the same
// record. The store must not take that write for its own.
func TestConcurrentPutIsNotMistakenForOwn(t *testing.T) {
	s, road := onFaulty(t, 3)
	road.will("PutItem", 1, func(r *http.Request, _ []byte) (*http.Response, error) {
		if err := s.Commit(r.Context(), alone); err != nil { // another client writes the same record
			t.Error(err)
		}
		return nil, io.ErrUnexpectedEOF
	})
	if err := s.Commit(t.Context(), alone); err == nil {
		t.Error("two puts created the same record")
	}
	if v := version(t, s, one); v != 1 {
		t.Errorf("version %d, want 1", v)
	}
}

func TestCancelledTransactionsReturnTypedErrors(t *testing.T) {
	const attempts = 3
	for name, c := range map[string]struct {
		times int
		fault fault
		keys  []store.Key // keys of the conflict
		is    error
	}{
		"conditions that do not hold":          {1, cancelled("ConditionalCheckFailed", "ConditionalCheckFailed", "None"), []store.Key{one, two}, store.ErrConflict},
		"one condition":                        {1, cancelled("None", "ConditionalCheckFailed", "None"), []store.Key{two}, store.ErrConflict},
		"a condition and a collision":          {1, cancelled("TransactionConflict", "ConditionalCheckFailed", "None"), []store.Key{one, two}, store.ErrConflict},
		"a temporary collision":                {attempts - 1, cancelled("TransactionConflict", "None", "None"), nil, nil},
		"a permanent collision":                {attempts, cancelled("None", "TransactionConflict", "None"), []store.Key{two}, store.ErrConflict},
		"temporary throttling":                 {attempts - 1, cancelled("ThrottlingError", "None", "None"), nil, nil},
		"permanent throttling":                 {attempts, cancelled("None", "ProvisionedThroughputExceeded", "None"), nil, store.ErrThrottled},
		"an item collection too large":         {1, cancelled("ItemCollectionSizeLimitExceeded", "None", "None"), nil, store.ErrTooLarge},
		"a condition together with throttling": {1, cancelled("ThrottlingError", "ConditionalCheckFailed", "None"), []store.Key{two}, store.ErrConflict},
	} {
		t.Run(name, func(t *testing.T) {
			s, road := onFaulty(t, attempts)
			road.will("TransactWriteItems", c.times, c.fault)
			err := s.Commit(t.Context(), both)
			if !errors.Is(err, c.is) {
				t.Fatalf("Commit = %v, want %v", err, c.is)
			}
			var conflict *store.ConflictError
			if errors.As(err, &conflict); c.keys != nil && (conflict == nil || !slices.Equal(conflict.Keys, c.keys)) {
				t.Errorf("Commit = %v, want a conflict on %v", err, c.keys)
			}
			if c.keys == nil && conflict != nil {
				t.Errorf("Commit = %v, want no conflict", err)
			}
		})
	}
	s, road := onFaulty(t, attempts)
	road.will("TransactWriteItems", 1, cancelled("None", "ValidationError", "None"))
	var refused *dynamo.RefusedError
	if err := s.Commit(t.Context(), both); !errors.As(err, &refused) || !strings.Contains(err.Error(), "item 1: ValidationError") {
		t.Errorf("Commit = %v, want a RefusedError with the reason", err)
	}
}

func TestUnprocessedItemsAreRequestedAgain(t *testing.T) {
	s, road := onFaulty(t, 3)
	var keys []store.Key
	var ids []string
	for i := range 20 {
		k := key("p", fmt.Sprintf("%02d", i))
		keys, ids = append(keys, k), append(ids, k.Sort)
		tx := store.Tx{Writes: []store.Write{put(k, store.Absent, k.Sort)}, Events: []store.Event{{ID: k.Sort}}}
		if err := s.Commit(t.Context(), tx); err != nil {
			t.Fatal(err)
		}
	}
	road.will("BatchGetItem", 4, halved("RequestItems", "UnprocessedKeys"))
	records, err := s.Get(t.Context(), keys...)
	if err != nil || len(records) != len(keys) {
		t.Errorf("Get = %d records, %v, want %d", len(records), err, len(keys))
	}
	if n := road.made("BatchGetItem"); n != 5 {
		t.Errorf("%d requests, want 5", n)
	}
	if _, err := s.Outbox(t.Context(), 100); err != nil {
		t.Fatal(err)
	}
	road.will("BatchWriteItem", 4, halved("RequestItems", "UnprocessedItems"))
	if err := s.Published(t.Context(), ids...); err != nil {
		t.Errorf("Published: %v", err)
	}
	if events, err := s.Outbox(t.Context(), 100); err != nil || len(events) != 0 {
		t.Errorf("the outbox holds %d events, %v", len(events), err)
	}
}

// idle makes the database process nothing of a batch.
func idle(requestField, leftField string) fault {
	return func(r *http.Request, body []byte) (*http.Response, error) {
		var in map[string]any
		if err := json.Unmarshal(body, &in); err != nil {
			return nil, err
		}
		return respond(r, http.StatusOK, map[string]any{leftField: in[requestField]})
	}
}

func TestUnprocessedItemsEndAsThrottled(t *testing.T) {
	s, road := onFaulty(t, 3)
	road.will("BatchGetItem", 3, idle("RequestItems", "UnprocessedKeys"))
	if _, err := s.Get(t.Context(), one, two); !errors.Is(err, store.ErrThrottled) {
		t.Errorf("Get = %v, want ErrThrottled", err)
	}
	if err := s.Commit(t.Context(), both); err != nil {
		t.Fatal(err)
	}
	road.will("BatchWriteItem", 3, idle("RequestItems", "UnprocessedItems"))
	if err := s.Published(t.Context(), "e"); !errors.Is(err, store.ErrThrottled) {
		t.Errorf("Published = %v, want ErrThrottled", err)
	}
	if events, err := s.Outbox(t.Context(), 10); err != nil || len(events) != 1 {
		t.Errorf("the outbox holds %d events, %v, want the one that was not removed", len(events), err)
	}
}
