package main

import (
	"strings"
	"testing"
)

// Each job is refused once and then launches on the other cloud: no place is tried twice, and no other place in between.
func TestRefusalTakesOneHop(t *testing.T) {
	hops, err := measure(t.Context(), t.TempDir(), 3)
	if err != nil || len(hops) != 3 {
		t.Fatalf("%v: %v", err, hops)
	}
	for i, h := range hops {
		if h.launches != 2 || h.took <= 0 {
			t.Errorf("job %d: %+v", i, h)
		}
	}
	if body := describe(hops); !strings.Contains(body, "3 of them") || !strings.Contains(body, "99th percentile") {
		t.Error(body)
	}
}

// Each application moves once: from the refused cluster to a batch.
func TestRefusedServiceTakesOneHop(t *testing.T) {
	hops, err := measureServices(t.Context(), t.TempDir(), 2)
	if err != nil || len(hops) != 2 {
		t.Fatalf("%v: %v", err, hops)
	}
	for i, h := range hops {
		if h.launches != 2 || h.took <= 0 {
			t.Errorf("job %d: %+v", i, h)
		}
	}
	if body := describeServices(hops); !strings.Contains(body, "2 Spark tasks") {
		t.Error(body)
	}
}
