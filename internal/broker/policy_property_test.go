package broker_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/tradewind-broker/tradewind/internal/broker"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/internal/broker/session"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/dag/read"
	"github.com/tradewind-broker/tradewind/pkg/scheduler"
)

// drawPolicy draws a random policy file that a broker accepts.
func drawPolicy(t *rapid.T) *scheduler.Policy {
	var b strings.Builder
	actions := []string{"allocate"}
	for _, a := range []string{"preempt", "reclaim", "enqueue", "backfill", "reserve"} {
		if rapid.Bool().Draw(t, a) {
			actions = append(actions, a)
		}
	}
	actions = rapid.Permutation(actions).Draw(t, "actions")
	fmt.Fprintf(&b, "actions: [%s]\ntiers:\n", strings.Join(actions, ", "))
	plugins := rapid.Permutation(scheduler.PluginNames()).Draw(t, "plugins")
	functions := []string{"queueOrder", "jobOrder", "allocatable", "jobReady", "jobPipelined", "jobValid", "preemptable", "reclaimable"}
	for used, tiers := 0, rapid.IntRange(1, 3).Draw(t, "tiers"); tiers > 0; tiers-- {
		n := rapid.IntRange(1, 4).Draw(t, "in tier")
		b.WriteString("  -\n")
		for _, p := range plugins[used : used+n] {
			fmt.Fprintf(&b, "    - {name: %s", p)
			if rapid.Bool().Draw(t, "disables") {
				fmt.Fprintf(&b, ", disable: [%s]", rapid.SampledFrom(functions).Draw(t, "disabled"))
			}
			b.WriteString("}\n")
		}
		used += n
	}
	p, err := scheduler.ReadPolicy("policy.yaml", []byte(b.String()))
	if err == nil {
		err = session.CheckPolicy(p)
	}
	if err != nil {
		t.Fatalf("%v\n%s", err, b.String())
	}
	return p
}

// TestPoliciesRespectQuotasAndGangs: with random policies and random trees of queues, quotas are kept and gangs are
// admitted as a whole.
func TestPoliciesRespectQuotasAndGangs(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		w := newBench(t)
		policy := drawPolicy(rt)
		w.policy = policy
		vcpus := rapid.SampledFrom([]float64{0, 4, 8, 12, 20})
		running := rapid.SampledFrom([]int{0, 0, 2, 5})
		for _, q := range []string{"lab", "a", "b"} {
			s := record.QueueSettings{MaxVCPU: vcpus.Draw(rt, q), MaxRunning: running.Draw(rt, q+" runs"), Preempt: rapid.Bool().Draw(rt, q+" preempts")}
			if q != "lab" {
				s.Parent, s.Weight = "lab", rapid.IntRange(0, 3).Draw(rt, q+" weighs")
				s.GuaranteedVCPU = min(s.MaxVCPU, rapid.SampledFrom([]float64{0, 0, 4}).Draw(rt, q+" is guaranteed"))
			}
			if err := w.b.Users.SetQueue(context.Background(), q, s); err != nil {
				rt.Fatal(err)
			}
		}
		for i := range rapid.IntRange(1, 5).Draw(rt, "jobs") {
			text := fmt.Sprintf("apiVersion: tradewind/v1\nname: j%d\nqueue: %s\npriority: %d\ntasks:\n", i,
				rapid.SampledFrom([]string{"a", "b"}).Draw(rt, "queue"), rapid.IntRange(0, 2).Draw(rt, "priority"))
			gang := rapid.IntRange(0, 3).Draw(rt, "gang")
			for k := range max(gang, rapid.IntRange(1, 4).Draw(rt, "tasks")) {
				name, in := "t", ""
				if k < gang {
					name, in = gangPrefix, ", gang: g"
				}
				text += fmt.Sprintf("  %s%d: {run: x%s, resources: {cpus: 4}}\n", name, k, in)
			}
			spec, err := read.Job("j.yaml", strings.NewReader(text))
			if err != nil {
				rt.Fatal(err)
			}
			if _, err := w.b.Users.Submit(context.Background(), broker.Submission{Spec: spec, Token: fmt.Sprint(i)}); err != nil {
				rt.Fatal(err)
			}
			w.deliverAll()
			checkQuotas(rt, w)
			checkGangs(rt, w)
		}
	})
}

const gangPrefix = "g" // names of tasks in gangs begin with this

func checkQuotas(t *rapid.T, w *bench) {
	queues, err := w.b.Views.Queues(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	for _, q := range queues {
		running, vcpu, kept, all := q.Running, q.VCPU, 0.0, 0.0
		for _, x := range queues {
			if x.Parent == q.Name {
				running, vcpu = running+x.Running, vcpu+x.VCPU
				kept += max(0, x.GuaranteedVCPU-x.VCPU)
				all += x.GuaranteedVCPU
			}
		}
		if q.MaxRunning > 0 && running > q.MaxRunning || q.MaxVCPU > 0 && vcpu > q.MaxVCPU {
			t.Errorf("queue %s: %d running of %d, %g vCPUs of %g", q.Name, running, q.MaxRunning, vcpu, q.MaxVCPU)
		}
		if q.MaxVCPU > 0 && all <= q.MaxVCPU && vcpu+kept > q.MaxVCPU {
			t.Errorf("queue %s: %g vCPUs are in use and %g more are guaranteed, of %g", q.Name, vcpu, kept, q.MaxVCPU)
		}
	}
}

func checkGangs(t *rapid.T, w *bench) {
	jobs, _, err := w.b.Views.Jobs(context.Background(), "", 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, j := range jobs {
		d, err := w.b.Views.JobDetail(context.Background(), j.ID)
		if err != nil {
			t.Fatal(err)
		}
		if d.State != apitypes.JobRunning {
			continue
		}
		states := map[string]int{}
		for _, task := range d.TaskList {
			if strings.HasPrefix(task.Name, gangPrefix) {
				states[string(task.State)]++
			}
		}
		if states[string(record.TaskQueued)] > 0 && len(states) > 1 {
			t.Errorf("job %s has a partial gang: %v", j.Name, states)
		}
	}
}
