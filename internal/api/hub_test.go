package api

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tradewind-broker/tradewind/internal/agent/wire"
	"github.com/tradewind-broker/tradewind/internal/broker"
)

// stub implements Agents with the functions that a test sets.
type stub struct {
	Agents
	work func(seen int) (wire.Work, error)
}

func (s stub) Work(_ context.Context, _ wire.Claims, seen int) (wire.Work, error) {
	return s.work(seen)
}

type noLogs struct{ Logs }

func stubbed(t *testing.T, agents Agents) *API {
	t.Helper()
	ports := PortsOf(&broker.Broker{})
	ports.Agents = agents
	a, err := New(Config{
		Broker: ports, Token: "0123456789abcdef", Logs: noLogs{},
		Verify: func(string) (wire.Claims, error) { return wire.Claims{}, nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(a.Close)
	return a
}

func asAgent(ctx context.Context) context.Context {
	return context.WithValue(ctx, claimsKey{}, wire.Claims{Job: "j", Cluster: "j.0.1"})
}

func TestPollReturnsOnClusterChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		newest := wire.Work{Command: wire.None}
		a := stubbed(t, stub{work: func(int) (wire.Work, error) { mu.Lock(); defer mu.Unlock(); return newest, nil }})
		began := time.Now()
		go func() {
			time.Sleep(3 * time.Second)
			a.cfg.Hub.Changed("j.9.9") // another agent's cluster
			time.Sleep(2 * time.Second)
			mu.Lock()
			newest = wire.Work{Seq: 1, Command: wire.Run}
			mu.Unlock()
			a.cfg.Hub.Changed("j.0.1")
		}()
		out, err := a.work(asAgent(t.Context()), &workInput{Wait: "20s"})
		if err != nil || out.Body.Command != wire.Run {
			t.Fatalf("work = %+v, %v", out, err)
		}
		if waited := time.Since(began); waited != 5*time.Second {
			t.Errorf("answered after %v, not at the change after 5s", waited)
		}
	})
}

func TestPollEndsAfterWait(t *testing.T) {
	for wait, want := range map[string]time.Duration{"": 0, "20s": 20 * time.Second, "10h": maxWorkWait} {
		synctest.Test(t, func(t *testing.T) {
			a := stubbed(t, stub{work: func(seen int) (wire.Work, error) { return wire.Work{Seq: seen, Command: wire.None}, nil }})
			began := time.Now()
			out, err := a.work(asAgent(t.Context()), &workInput{Seen: 7, Wait: wait})
			if err != nil || out.Body.Command != wire.None || out.Body.Seq != 7 {
				t.Fatalf("work = %+v, %v", out, err)
			}
			if waited := time.Since(began); waited != want {
				t.Errorf("wait %q: answered after %v, want %v", wait, waited, want)
			}
			if len(a.cfg.Hub.waiting) != 0 {
				t.Error("the hub still remembers a poll that ended")
			}
		})
	}
}

func TestPollSeesChangeByOtherProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		a := stubbed(t, stub{work: func(int) (wire.Work, error) {
			if time.Since(began) > time.Second {
				return wire.Work{Seq: 1, Command: wire.Stop}, nil
			}
			return wire.Work{Command: wire.None}, nil
		}})
		out, err := a.work(asAgent(t.Context()), &workInput{Wait: "20s"})
		if err != nil || out.Body.Command != wire.Stop {
			t.Fatalf("work = %+v, %v", out, err)
		}
	})
}

func TestPollsEndWhenHostStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := stubbed(t, stub{work: func(int) (wire.Work, error) { return wire.Work{Command: wire.None}, nil }})
		began := time.Now()
		time.AfterFunc(time.Second, a.Close)
		if _, err := a.work(asAgent(t.Context()), &workInput{Wait: "20s"}); err != nil {
			t.Fatal(err)
		}
		if waited := time.Since(began); waited != time.Second {
			t.Errorf("ended after %v", waited)
		}
	})
}

func TestHubWakesAllWaiters(t *testing.T) {
	h := NewHub()
	a, doneA := h.listen("c")
	b, doneB := h.listen("c")
	h.Changed("c")
	<-a
	<-b
	again, doneAgain := h.listen("c")
	select {
	case <-again:
		t.Error("a change before listening was heard")
	default:
	}
	doneA()
	doneB()
	if h.waiting["c"] == nil {
		t.Error("those who waited before took the place of those who wait now")
	}
	doneAgain()
	if len(h.waiting) != 0 {
		t.Errorf("%d bells are left", len(h.waiting))
	}
}
