package api_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/tradewind-broker/tradewind/internal/api"
	"github.com/tradewind-broker/tradewind/internal/api/apitest"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/bus"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
	"github.com/tradewind-broker/tradewind/pkg/store"
)

func TestAQueueIsSetAndItsWaitingTasksListed(t *testing.T) {
	w := apitest.New(t)
	q := answer[apitypes.Queue](t, w.Request("PUT", "/v1/queues/research", `{"maxRunning":1,"description":"Ada's"}`), http.StatusOK)
	if q.Name != "research" || q.MaxRunning != 1 || q.Description != "Ada's" {
		t.Errorf("queue = %+v", q)
	}
	w.Drain()
	w.Submit(apitest.Training())
	queues := answer[apitypes.QueueList](t, w.Request("GET", "/v1/queues", ""), http.StatusOK).Queues
	if len(queues) != 1 || queues[0].Running != 1 {
		t.Errorf("queues = %+v", queues)
	}
	waiting := answer[apitypes.WaitingList](t, w.Request("GET", "/v1/queues/research/waiting?limit=10", ""), http.StatusOK).Waiting
	if len(waiting) != 1 || waiting[0].Task != 1 {
		t.Errorf("waiting = %+v", waiting)
	}
	if l := answer[apitypes.WaitingList](t, w.Request("GET", "/v1/queues/none/waiting", ""), http.StatusOK); l.Waiting == nil || len(l.Waiting) > 0 {
		t.Errorf("a queue that does not exist: %+v", l)
	}
	for _, bad := range []string{
		`{"maxRunning":-1}`, `{"maxVCPU":"many"}`, `{"maxRuning":1}`, `[]`, `{`, ``, `{"max":{"memoryGiB":1e99}}`,
		`{"deserved":{"vcpus":-1}}`, `{"guaranteed":{"A100":1000000000.5}}`,
	} {
		if res := w.Request("PUT", "/v1/queues/research", bad); res.StatusCode != http.StatusUnprocessableEntity && res.StatusCode != http.StatusBadRequest {
			t.Errorf("%s: %d", bad, res.StatusCode)
		} else {
			trouble(t, res, res.StatusCode)
		}
	}
	trouble(t, w.Request("PUT", "/v1/queues/..%2fx", `{}`), http.StatusUnprocessableEntity)
}

func TestBlockedPlacesAreListed(t *testing.T) {
	w := apitest.New(t)
	if l := answer[apitypes.BlockList](t, w.Request("GET", "/v1/blocks", ""), http.StatusOK); l.Blocks == nil || len(l.Blocks) > 0 {
		t.Errorf("blocks at first: %+v", l)
	}
	w.Cloud.Refuse("use2-az3")
	w.Submit(apitest.Training())
	l := answer[apitypes.BlockList](t, w.Request("GET", "/v1/blocks", ""), http.StatusOK)
	if len(l.Blocks) != 1 || l.Blocks[0].Zone != "use2-az3" || l.Blocks[0].Kind != string(cloud.Capacity) || !l.Blocks[0].Until.After(l.Now) {
		t.Errorf("blocks = %+v", l)
	}
}

func TestDeadLettersAreListedAndRedriven(t *testing.T) {
	w := apitest.New(t)
	for i := range 3 {
		w.Dead.Add(bus.DeadLetter{
			Message: bus.Message{ID: fmt.Sprint("e", i), Type: "tradewind.task.ready.v1", Group: "j", Body: []byte(`{"id":"e"}`)},
			Queue:   "schedule", Reason: "conflict", Attempts: 5, At: apitest.Start(),
		})
	}
	w.Dead.Add(bus.DeadLetter{Message: bus.Message{ID: "odd", Body: []byte("not JSON")}, Queue: "hook"})
	l := answer[apitypes.DeadLetterList](t, w.Request("GET", "/v1/deadletters?queue=schedule&limit=2", ""), http.StatusOK)
	if len(l.DeadLetters) != 2 || l.DeadLetters[0].Reason != "conflict" || string(l.DeadLetters[0].Event) != `{"id":"e"}` {
		t.Errorf("letters = %+v", l)
	}
	trouble(t, w.Request("GET", "/v1/deadletters?queue=none", ""), http.StatusNotFound)
	r := answer[apitypes.Redriven](t, w.Request("POST", "/v1/deadletters/redrive", `{"queue":"schedule","ids":["e1"]}`), http.StatusOK)
	if r.Redriven != 1 {
		t.Errorf("redriven %d", r.Redriven)
	}
	if r = answer[apitypes.Redriven](t, w.Request("POST", "/v1/deadletters/redrive", `{}`), http.StatusOK); r.Redriven != 3 {
		t.Errorf("redriven %d", r.Redriven)
	}
	without := apitest.New(t, func(c *api.Config) { c.Dead = nil })
	trouble(t, without.Request("GET", "/v1/deadletters", ""), http.StatusNotImplemented)
	trouble(t, without.Request("POST", "/v1/deadletters/redrive", `{}`), http.StatusNotImplemented)
}

func TestABusyStoreAsksToTryAgain(t *testing.T) {
	for _, err := range []error{store.ErrThrottled, store.ErrConflict, store.ErrClosed, bus.ErrClosed} {
		w := apitest.New(t, func(c *api.Config) { c.Broker.QueueViews = failing{c.Broker.QueueViews, fmt.Errorf("queues: %w", err)} })
		res := w.Request("GET", "/v1/queues", "")
		p := trouble(t, res, http.StatusServiceUnavailable)
		if res.Header.Get("Retry-After") == "" || !strings.Contains(p.Detail, "try again") {
			t.Errorf("%v: %+v", err, p)
		}
	}
}
