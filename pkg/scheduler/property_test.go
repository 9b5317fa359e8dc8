package scheduler_test

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	. "github.com/tradewind-broker/tradewind/pkg/scheduler"
)

// draw returns a random world: nodes in zones, some with GPUs and labels; weighted queues; gangs and elastic jobs,
// some of which run.
func draw(rt *rapid.T, t *testing.T) *world {
	w := newWorld(t)
	var b strings.Builder
	nodes := rapid.IntRange(1, 6).Draw(rt, "nodes")
	for i := range nodes {
		fmt.Fprintf(&b, "node n%d cpu=%d mem=%d gpu=%d at=z%d,r%d", i, rapid.IntRange(1, 6).Draw(rt, "cpu"), rapid.IntRange(1, 8).Draw(rt, "mem"),
			rapid.IntRange(0, 2).Draw(rt, "gpus"), i%2, i%3)
		if rapid.IntRange(0, 2).Draw(rt, "label") == 0 {
			b.WriteString(" labels=disk:ssd")
		}
		b.WriteByte('\n')
	}
	queues := rapid.IntRange(1, 3).Draw(rt, "queues")
	for i := range queues {
		fmt.Fprintf(&b, "queue q%d weight=%d", i, rapid.IntRange(1, 3).Draw(rt, "weight"))
		if rapid.IntRange(0, 3).Draw(rt, "capped") == 0 {
			fmt.Fprintf(&b, " capability-cpu=%d", rapid.IntRange(1, 6).Draw(rt, "capability"))
		}
		if rapid.IntRange(0, 3).Draw(rt, "guaranteed") == 0 {
			fmt.Fprintf(&b, " guarantee-cpu=%d", rapid.IntRange(0, 2).Draw(rt, "guarantee"))
		}
		b.WriteByte('\n')
	}
	for i := range rapid.IntRange(1, 7).Draw(rt, "jobs") {
		b.WriteString(drawJob(rt, fmt.Sprint("j", i), queues))
	}
	w.add(b.String())
	return w
}

func drawJob(rt *rapid.T, name string, queues int) string {
	n := rapid.IntRange(1, 4).Draw(rt, "members")
	line := fmt.Sprintf("job %s queue=q%d namespace=u%d priority=%d age=%dm cpu=%s mem=%d tasks=%d min=%d", name, rapid.IntRange(0, queues-1).Draw(rt, "queue"),
		rapid.IntRange(0, 2).Draw(rt, "namespace"), rapid.IntRange(0, 2).Draw(rt, "priority"), rapid.IntRange(0, 90).Draw(rt, "age"),
		rapid.SampledFrom([]string{"0.5", "1", "2"}).Draw(rt, "cpu"), rapid.IntRange(0, 2).Draw(rt, "mem"), n, rapid.IntRange(1, n).Draw(rt, "min"))
	if rapid.IntRange(0, 3).Draw(rt, "gpu?") == 0 {
		line += " gpu=" + rapid.SampledFrom([]string{"0.3", "0.5", "1", "2"}).Draw(rt, "gpu")
	}
	task := ""
	if n > 1 && rapid.IntRange(0, 3).Draw(rt, "roles?") == 0 {
		a, b := rapid.IntRange(0, 2).Draw(rt, "role a"), rapid.IntRange(0, 2).Draw(rt, "role b")
		line += fmt.Sprintf(" roles=a:%d,b:%d role=a", a, b)
		task = fmt.Sprintf("task %s role=b cpu=1 tasks=%d\n", name, rapid.IntRange(1, 3).Draw(rt, "others"))
	}
	for _, word := range []string{"kept", "batch", "select=disk:ssd", "close=1", "wait=1h", "labels=a:b apart=a:b"} {
		if rapid.IntRange(0, 7).Draw(rt, word) == 0 {
			line += " " + word
		}
	}
	return line + "\n" + task
}

// check checks the invariants of the world after a session.
func (w *world) check(rt *rapid.T, before map[string]int) {
	w.checkNodes(rt)
	for i := range w.snap.Jobs {
		j := &w.snap.Jobs[i]
		members, running := 0, 0
		for k := range j.Tasks {
			switch j.Tasks[k].State {
			case Running:
				members++
				running++
			case Succeeded:
				members++
			default:
			}
		}
		if members < max(1, j.Min) && running > 0 && members > before[j.ID] {
			rt.Fatalf("job %s has %d members, before %d, minimum %d", j.ID, members, before[j.ID], j.Min)
		}
		if running > 0 && members < max(1, j.Min) && before[j.ID] >= max(1, j.Min) {
			rt.Fatalf("job %s was left with %d members, minimum %d", j.ID, members, j.Min)
		}
		if running > 0 && members > before[j.ID] {
			w.checkRoles(rt, j)
		}
		before[j.ID] = members
	}
}

// checkRoles checks that no job has started or grown with too few members of a role.
func (w *world) checkRoles(rt *rapid.T, j *Job) {
	for _, r := range j.Roles {
		have := 0
		for k := range j.Tasks {
			if t := &j.Tasks[k]; t.Spec.Role == r.Name && (t.State == Running || t.State == Succeeded) {
				have++
			}
		}
		if have < r.Min {
			rt.Fatalf("job %s has %d members of role %s, minimum %d", j.ID, have, r.Name, r.Min)
		}
	}
}

func (w *world) checkNodes(rt *rapid.T) {
	for _, n := range w.snap.Nodes {
		left := n.Capacity
		devices := make([]int64, n.Devices)
		for d := range devices {
			devices[d] = Whole
		}
		for i := range w.snap.Jobs {
			for _, t := range w.snap.Jobs[i].Tasks {
				if t.Node != n.Name || !t.State.Holds() {
					continue
				}
				left = left.Minus(t.Spec.Request)
				if len(t.OnDevices) != t.Spec.Devices {
					rt.Fatalf("%s/%s has GPUs %v of %d", w.snap.Jobs[i].ID, t.ID, t.OnDevices, t.Spec.Devices)
				}
				for _, d := range t.OnDevices {
					devices[d] -= t.Spec.Share
				}
				for k, v := range t.Spec.Selector {
					if n.Labels[k] != v {
						rt.Fatalf("%s/%s is on %s", w.snap.Jobs[i].ID, t.ID, n.Name)
					}
				}
			}
		}
		for _, x := range append(left[:], devices...) {
			if x < 0 {
				rt.Fatalf("node %s is over its capacity: %v %v", n.Name, left, devices)
			}
		}
	}
}

func policies(t *testing.T) []*Policy {
	all := ActionNames()
	return []*Policy{
		DefaultPolicy(),
		policyOf(t, all, []string{"sla+priority+gang", "namespace+drf+capacity+predicates+nodeorder+topology"}, ""),
		policyOf(t, []string{"enqueue", "allocate", "backfill", "reserve", "reclaim", "preempt"}, []string{"gang", "usage+drf+proportion+predicates"}, ""),
	}
}

// TestSessionsKeepCapacitiesAndGangs changes a world at random and runs a session after each change. Capacities must
// be kept, and gangs must be whole.
func TestSessionsKeepCapacitiesAndGangs(t *testing.T) {
	all := policies(t)
	rapid.Check(t, func(rt *rapid.T) {
		w := draw(rt, t)
		p := rapid.SampledFrom(all).Draw(rt, "policy")
		before := map[string]int{}
		for round := range rapid.IntRange(1, 6).Draw(rt, "rounds") {
			for _, e := range w.run(p).Evictions {
				if w.job(e.Job).Kept {
					rt.Fatalf("%s/%s was evicted but must be kept", e.Job, e.Task)
				}
			}
			w.check(rt, before)
			w.snap.Now = w.snap.Now.Add(20 * time.Minute)
			switch rapid.IntRange(0, 4).Draw(rt, "change") {
			case 0:
				w.add(drawJob(rt, fmt.Sprint("k", round), len(w.snap.Queues)))
			case 1:
				w.finish(func(string) bool { return rapid.Bool().Draw(rt, "done") })
			case 2, 3:
				w.release()
			case 4:
				n := &w.snap.Nodes[rapid.IntRange(0, len(w.snap.Nodes)-1).Draw(rt, "node")]
				n.Closed = !n.Closed
			}
			for _, j := range w.snap.Jobs {
				before[j.ID] = 0
				for _, t := range j.Tasks {
					if t.State == Running || t.State == Succeeded {
						before[j.ID]++
					}
				}
			}
		}
	})
}

// finish makes running tasks succeed.
func (w *world) finish(done func(job string) bool) {
	for i := range w.snap.Jobs {
		for k := range w.snap.Jobs[i].Tasks {
			if t := &w.snap.Jobs[i].Tasks[k]; t.State == Running && done(w.snap.Jobs[i].ID) {
				t.State = Succeeded
			}
		}
	}
}

// TestDiscardRestoresSession makes random decisions and discards them. The session must be as before.
func TestDiscardRestoresSession(t *testing.T) {
	p := DefaultPolicy()
	rapid.Check(t, func(rt *rapid.T) {
		w := draw(rt, t)
		w.run(p)
		s, err := Open(&w.snap, p)
		if err != nil {
			rt.Fatal(err)
		}
		before := s.Fingerprint()
		st := s.Statement()
		for range rapid.IntRange(1, 12).Draw(rt, "ops") {
			j := s.Jobs[rapid.IntRange(0, len(s.Jobs)-1).Draw(rt, "job")]
			task := &j.Tasks[rapid.IntRange(0, len(j.Tasks)-1).Draw(rt, "task")]
			n := s.Nodes[rapid.IntRange(0, len(s.Nodes)-1).Draw(rt, "node")]
			switch best := s.Best(task, 0, len(s.Nodes)); {
			case task.CanGo():
				st.Evict(task, nil, "")
			case task.State != Pending:
			case best != nil && rapid.Bool().Draw(rt, "now"):
				st.Allocate(task, best)
			case s.RoomLater(task, n):
				st.Pipeline(task, n)
			}
		}
		st.Discard()
		if after := s.Fingerprint(); after != before {
			rt.Fatalf("before\n%s\nafter\n%s", before, after)
		}
	})
}

// TestTreeAgreesWithScan: while a world changes, the tree must find the same node as a scan of all nodes.
func TestTreeAgreesWithScan(t *testing.T) {
	all := policies(t)
	rapid.Check(t, func(rt *rapid.T) {
		w := draw(rt, t)
		p := rapid.SampledFrom(all).Draw(rt, "policy")
		w.run(p)
		s, err := Open(&w.snap, p)
		if err != nil {
			rt.Fatal(err)
		}
		st := s.Statement()
		for range 12 {
			j := s.Jobs[rapid.IntRange(0, len(s.Jobs)-1).Draw(rt, "job")]
			task := &j.Tasks[rapid.IntRange(0, len(j.Tasks)-1).Draw(rt, "task")]
			from := rapid.IntRange(0, len(s.Nodes)-1).Draw(rt, "from")
			to := rapid.IntRange(from+1, len(s.Nodes)).Draw(rt, "to")
			got, want := s.Best(task, from, to), s.Scan(task, from, to)
			if got != want {
				rt.Fatalf("the tree says %v, a scan %v", got, want)
			}
			if task.State == Pending && got != nil {
				st.Allocate(task, got)
			} else if task.CanGo() {
				st.Evict(task, nil, "")
			} else if n := s.Nodes[from]; task.State == Pending && s.RoomLater(task, n) {
				st.Pipeline(task, n)
			} else if rapid.IntRange(0, 3).Draw(rt, "undo") == 0 {
				st.Discard()
			}
		}
	})
}

// TestSharesConvergeToWeights starts with random shares of queues that want everything. reclaim must move the shares
// to the queues' weights.
func TestSharesConvergeToWeights(t *testing.T) {
	p := policyOf(t, []string{"allocate", "reclaim"}, []string{"gang", "proportion+predicates"}, "")
	rapid.Check(t, func(rt *rapid.T) {
		w := newWorld(t)
		const cores = 60
		w.add("node n n=6 cpu=10")
		queues, sum, left := rapid.IntRange(2, 4).Draw(rt, "queues"), 0, cores
		var weights []int
		for i := range queues {
			x := rapid.IntRange(1, 5).Draw(rt, "weight")
			weights, sum = append(weights, x), sum+x
			n := rapid.IntRange(0, left).Draw(rt, "running")
			var on []string
			for k := range n {
				on = append(on, fmt.Sprint("n", (cores-left+k)/10))
			}
			left -= n
			w.add(fmt.Sprintf("queue q%d weight=%d\njob j%d queue=q%d cpu=1 tasks=%d on=%s", i, x, i, i, cores, strings.Join(on, ",")))
		}
		for range 4 {
			w.run(p)
			w.release()
		}
		for i, x := range weights {
			have := 0
			for _, task := range w.job(fmt.Sprint("j", i)).Tasks {
				if task.State == Running {
					have++
				}
			}
			if want := float64(cores*x) / float64(sum); math.Abs(float64(have)-want) >= 1 {
				rt.Fatalf("queue %d of weights %v has %d of %v", i, weights, have, want)
			}
		}
	})
}

// TestSharesAreMaxMinFair checks the definition of fairness. A queue that could use more must not have less, relative
// to its weight, than a queue that has more than its lower bound.
func TestSharesAreMaxMinFair(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		n := rapid.IntRange(1, 6).Draw(rt, "n")
		weights, low, high := make([]float64, n), make([]float64, n), make([]float64, n)
		lows, highs := 0.0, 0.0
		for i := range n {
			weights[i] = float64(rapid.IntRange(1, 5).Draw(rt, "weight"))
			high[i] = float64(rapid.IntRange(0, 100).Draw(rt, "high"))
			low[i] = float64(rapid.IntRange(0, int(high[i])).Draw(rt, "low"))
			lows, highs = lows+low[i], highs+high[i]
		}
		left := float64(rapid.IntRange(int(lows), int(lows)+200).Draw(rt, "left"))
		part := Raise(left, weights, low, high)
		sum := 0.0
		for i := range part {
			sum += part[i]
			for k := range part {
				if part[i] < high[i]-0.1 && part[k] > low[k]+0.1 && part[i]/weights[i] < part[k]/weights[k]-0.1 {
					rt.Fatalf("%v of %v by %v between %v and %v: %d has less than %d", part, left, weights, low, high, i, k)
				}
			}
		}
		if want := min(left, highs); math.Abs(sum-want) > 0.2 {
			rt.Fatalf("%v is %v of %v", part, sum, want)
		}
	})
}

// TestNoJobStarves submits small jobs again and again while large gangs wait. Each gang must start in the end.
func TestNoJobStarves(t *testing.T) {
	p := policyOf(t, ActionNames(), nil, "actions: [enqueue, allocate, backfill, reserve]\ntiers: [[{name: sla, args: {maxWait: 1h}}, gang], [drf, predicates, binpack]]")
	rapid.Check(t, func(rt *rapid.T) {
		w := newWorld(t)
		w.add("queue q\nnode n n=4 cpu=4")
		large := rapid.IntRange(1, 3).Draw(rt, "large")
		for i := range large {
			n := rapid.IntRange(2, 4).Draw(rt, "members")
			w.add(fmt.Sprintf("job large%d queue=q cpu=4 min=%d tasks=%d duration=30m", i, n, n))
		}
		for round := range 60 {
			for i := range rapid.IntRange(6, 10).Draw(rt, "small") {
				w.add(fmt.Sprintf("job s%d-%d queue=q cpu=%d tasks=1 duration=30m", round, i, rapid.IntRange(1, 2).Draw(rt, "cpu")))
			}
			w.run(p)
			w.snap.Now = w.snap.Now.Add(15 * time.Minute)
			now := w.snap.Now
			for i := range w.snap.Jobs {
				for k := range w.snap.Jobs[i].Tasks {
					if t := &w.snap.Jobs[i].Tasks[k]; t.State == Running && now.Sub(t.Since) >= 30*time.Minute {
						t.State = Succeeded
					}
				}
			}
			waiting := 0
			for i := range large {
				if w.job(fmt.Sprint("large", i)).Phase == Inqueue {
					waiting++
				}
			}
			if waiting == 0 {
				return
			}
		}
		rt.Fatalf("a gang has waited for %v", w.snap.Now.Sub(w.job("large0").Created))
	})
}
