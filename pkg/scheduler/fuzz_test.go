package scheduler_test

import (
	"errors"
	"testing"

	. "github.com/tradewind-broker/tradewind/pkg/scheduler"
)

// FuzzReadPolicy checks that a session can be opened with each policy that can be read. The error of any other policy
// must have a position.
func FuzzReadPolicy(f *testing.F) {
	f.Add("actions: [enqueue, allocate]\ntiers: [[gang, {name: binpack, args: {weight: 2, resources: {gpu: 5}}}]]")
	f.Add("actions: [allocate]\ntiers:\n  - - name: tdm\n      args: {windows: {night: {from: \"22:00\", to: \"06:00\", zone: UTC}}}\n")
	f.Add("actions: [preempt]\ntiers: [[{name: sla, disable: [jobOrder], args: {maxWait: 1h}}]]")
	f.Add("actions: &a [x]\ntiers: *a\n---\n")
	f.Fuzz(func(t *testing.T, text string) {
		p, err := ReadPolicy("p.yaml", []byte(text))
		if err != nil {
			var e *PolicyError
			if !errors.As(err, &e) || e.Reason == "" || !errors.Is(err, ErrInvalid) {
				t.Fatalf("%T %v", err, err)
			}
			return
		}
		snapshot := &Snapshot{
			Resources: []string{"cpu"}, GPU: -1, Nodes: []Node{{Name: "n", Capacity: Vector{10}, Window: "night"}}, Queues: []Queue{{Name: "q"}},
			Jobs: []Job{{ID: "j", Queue: "q", Phase: Inqueue, Tasks: []Task{{ID: "0", Spec: &Spec{Request: Vector{1}}}}}},
		}
		s, err := Open(snapshot, p)
		if err != nil {
			t.Fatal(err)
		}
		s.Run()
		s.Close()
	})
}

func TestHolderReloadsConcurrently(t *testing.T) {
	var h Holder
	if len(h.Policy().Actions) != 6 {
		t.Fatal("the default policy is not in force initially")
	}
	done := make(chan bool)
	go func() {
		for range 100 {
			h.Policy()
		}
		close(done)
	}()
	if err := h.Reload("p.yaml", []byte("actions: [allocate]\ntiers: [[gang]]")); err != nil {
		t.Fatal(err)
	}
	<-done
	if err := h.Reload("p.yaml", []byte("actions: [alocate]")); err == nil {
		t.Fatal("a bad policy was accepted")
	}
	if got := h.Policy().Actions; len(got) != 1 {
		t.Fatalf("after a bad policy %v is in force", got)
	}
}
