package broker_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/internal/agent/wire"
	"github.com/tradewind-broker/tradewind/internal/api/apitest"
	"github.com/tradewind-broker/tradewind/internal/broker/view"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
)

func shown(t *testing.T, d *apitypes.JobDetail) string {
	t.Helper()
	body, err := json.Marshal(d)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

// Random things happen to the tasks of a job. After each transaction, the incrementally updated view must equal a
// view that is made from all records.
func TestIncrementalViewMatchesFullView(t *testing.T) {
	const tasks = 16
	for seed := range uint64(2) {
		w, r := apitest.New(t), rand.New(rand.NewPCG(seed, 1)) //nolint:gosec // the same each time
		ctx := context.Background()
		job := w.Submit(apitest.Wide("mosaic", tasks-2))
		var was *view.Look
		again := 0
		look := func() {
			w.Store.Take()
			is, err := w.Broker.Views.JobSince(ctx, job, was)
			if err != nil {
				t.Fatal(err)
			}
			if w.Store.Take().Records < tasks {
				again++
			}
			fresh, err := w.Broker.Views.JobDetail(ctx, job)
			if err != nil {
				t.Fatal(err)
			}
			if a, b := shown(t, &is.JobDetail), shown(t, fresh); a != b {
				t.Fatalf("seed %d: the incremental view is\n%s\nthe full one\n%s", seed, a, b)
			}
			if r.IntN(2) == 0 {
				was = is
			}
		}
		w.Store.Committed = look
		for range 20 {
			if was != nil {
				live(w, r, job, was)
			}
			w.Clock.Advance(time.Duration(r.IntN(90)) * time.Second)
			look()
		}
		if err := w.Broker.Users.Cancel(ctx, job, "enough"); err == nil {
			w.Drain()
		}
		if again == 0 {
			t.Errorf("seed %d: every view read everything", seed)
		}
	}
}

// live lets something random happen to some of the tasks that have machines.
func live(w *apitest.World, r *rand.Rand, job string, was *view.Look) {
	for _, task := range was.TaskList {
		if task = w.Task(job, task.Name); task.State != "launching" && task.State != "running" || r.IntN(3) == 0 {
			continue
		}
		switch n := w.Node(job, task.Name, 0); {
		case task.State == "launching":
			n.Start()
		case r.IntN(4) == 0:
			w.Take(job, task.Name)
		case r.IntN(3) == 0:
			n.Save(r.Float64())
		case r.IntN(40) == 0:
			n.Report(wire.Report{Event: wire.Failed, ExitCode: 1, Phase: wire.PhaseRun, Message: "no"})
			return // the job ended
		default:
			n.Succeed()
		}
		if r.IntN(2) > 0 {
			return
		}
	}
}

func TestPagedJobMatchesWholeJob(t *testing.T) {
	w := apitest.New(t)
	ctx := context.Background()
	job := w.Submit(apitest.Wide("mosaic", 60))
	w.Node(job, "split", 0).Start().Succeed()
	for i := range 25 {
		w.Node(job, fmt.Sprintf("project-%04d", 2*i), 0).Start()
		w.Take(job, fmt.Sprintf("project-%04d", 2*i))
	}
	whole, err := w.Broker.Views.JobDetail(ctx, job)
	if err != nil {
		t.Fatal(err)
	}
	story, err := w.Broker.Views.Explain(ctx, job)
	if err != nil {
		t.Fatal(err)
	}
	for _, limit := range []int{1, 7, 61, 62, 100} {
		var parts apitypes.JobDetail
		var told apitypes.Story
		for next, first := 0, true; first || next > 0; first = false {
			d, err := w.Broker.Views.JobPart(ctx, job, view.Part{From: next, Limit: limit})
			if err != nil {
				t.Fatal(err)
			}
			s, err := w.Broker.Views.ExplainPart(ctx, job, view.Part{From: next, Limit: limit})
			if err != nil || s.Next != d.Next {
				t.Fatalf("the story continues at %d, the job at %d: %v", s.Next, d.Next, err)
			}
			if len(d.TaskList) > limit {
				t.Fatalf("%d tasks, want at most %d", len(d.TaskList), limit)
			}
			parts.JobView, told.Job = d.JobView, s.Job
			parts.TaskList, parts.Plans, parts.Attempts = append(parts.TaskList, d.TaskList...), append(parts.Plans, d.Plans...), append(parts.Attempts, d.Attempts...)
			told.Entries, told.Choices = append(told.Entries, s.Entries...), append(told.Choices, s.Choices...)
			next = d.Next
		}
		if a, b := shown(t, &parts), shown(t, whole); a != b {
			t.Errorf("pages of %d are\n%s\nthe whole is\n%s", limit, a, b)
		}
		if told.Sort(); !reflect.DeepEqual(&told, story) {
			t.Errorf("story pages of %d contain\n%v\nthe whole one\n%v", limit, told, story)
		}
	}
}
