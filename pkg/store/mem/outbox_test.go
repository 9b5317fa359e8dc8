package mem

import (
	"fmt"
	"testing"
)

func TestOutboxCompactsPublishedEvents(t *testing.T) {
	var o outbox
	o.put("stays", nil)
	for i := range 10_000 {
		o.put(fmt.Sprint(i%7), nil)
		o.remove([]string{fmt.Sprint(i % 7)})
		if len(o.order) > 100 {
			t.Fatalf("%d places for %d events", len(o.order), len(o.live))
		}
	}
	if events := o.first(10); len(events) != 1 || events[0].ID != "stays" {
		t.Errorf("the outbox is %v", events)
	}
}

func TestReplacedEventKeepsItsPlace(t *testing.T) {
	var o outbox
	for _, id := range []string{"a", "b", "a"} {
		o.put(id, []byte(fmt.Sprint(id, len(o.order))))
	}
	if e := o.first(10); len(e) != 2 || e[0].ID != "a" || string(e[0].Body) != "a2" || e[1].ID != "b" {
		t.Errorf("the outbox is %q", e)
	}
	o.remove([]string{"a"})
	o.put("a", nil) // published and committed again: a new event
	if e := o.first(10); len(e) != 2 || e[0].ID != "b" || e[1].ID != "a" {
		t.Errorf("the outbox is %q", e)
	}
}
