package progress

import (
	"bytes"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/internal/cli/text"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
)

func TestClockContinuesBetweenUpdates(t *testing.T) {
	j := NewJob(0.001)
	j.Apply(story()[2], wall)
	if got := j.Now(wall.Add(2 * time.Second)).Sub(at(5)); got != 2000*time.Second {
		t.Errorf("two seconds later %v have passed", got)
	}
	if got := j.Now(wall.Add(time.Hour)).Sub(at(5)); got != 20_000*time.Second {
		t.Errorf("a broker that says nothing for an hour is taken to be %v further", got)
	}
	if got := j.Now(wall.Add(-time.Hour)); !got.Equal(at(5)) {
		t.Errorf("it is %v before it was told", at(5).Sub(got))
	}
	j.Apply(story()[6], wall)
	if got := j.Now(wall.Add(time.Hour)); !got.Equal(at(171)) {
		t.Errorf("a job that is over goes on to %v", got)
	}
}

func TestRestartedStreamRepeatsNoEvents(t *testing.T) {
	j := NewJob(1)
	for _, u := range story()[:5] {
		j.Apply(u, wall)
	}
	attempts, moves := j.Attempts()
	again := apitypes.JobUpdate{Now: at(100), Full: true, Job: j.JobView, Tasks: append([]apitypes.TaskView(nil), j.Tasks...), Plans: j.Plans}
	for _, a := range j.attempts {
		again.Attempts = append(again.Attempts, a)
	}
	if news := j.Apply(again, wall); len(news) > 0 {
		t.Errorf("told again: %+v", news)
	}
	if a, m := j.Attempts(); a != attempts || m != moves {
		t.Errorf("%d attempts and %d moves have become %d and %d", attempts, moves, a, m)
	}
}

func TestShareGrowsToOne(t *testing.T) {
	j := NewJob(1)
	last := -1.0
	for i, u := range story()[:7] {
		j.Apply(u, wall)
		share := j.Share(j.Now(wall))
		if math.IsNaN(share) || share < 0 || share > 1 {
			t.Fatalf("step %d: share %v", i, share)
		}
		if i != 3 && share < last { // at step 3 the work since the checkpoint is lost
			t.Errorf("step %d: %v after %v", i, share, last)
		}
		last = share
	}
	if last != 1 {
		t.Errorf("a job that succeeded is done to %v", last)
	}
}

func TestInvalidUpdatesDoNotPanic(t *testing.T) {
	j := NewJob(0)
	j.Apply(apitypes.JobUpdate{Tasks: []apitypes.TaskView{{Index: -1}, {Index: 7}}, Attempts: []apitypes.Attempt{{Task: 9, Number: 1}}}, wall)
	j.Apply(apitypes.JobUpdate{Full: true, Job: apitypes.JobView{ID: "x", Tasks: 3}, Tasks: []apitypes.TaskView{{Index: 0, After: []int{5, -1}, State: "?"}}}, wall)
	v := View{Job: j, Glyphs: ASCII()}
	if got := v.Render(wall, 80, 24); !strings.Contains(got, "x") {
		t.Errorf("got %q", got)
	}
}

func TestLinesLimitsLargeJobs(t *testing.T) {
	var out bytes.Buffer
	l := NewLines(&out, 1, text.Style{})
	l.Update(large(1000, 612, 20), wall)
	before := strings.Count(out.String(), "\n")
	// Five hundred preemptions within a second.
	u := large(1000, 612, 20)
	for i := range 500 {
		a := attempt(1, first, 1)
		a.Task, a.Launched, a.Ended, a.Outcome = i, at(1), at(30), apitypes.OutcomePreempted
		u.Attempts = append(u.Attempts, a)
	}
	l.Update(u, wall.Add(time.Second))
	l.Update(large(1000, 700, 20), wall.Add(1500*time.Millisecond))
	lines := strings.Count(out.String(), "\n") - before
	if lines > maxNotableLines+1 {
		t.Errorf("%d lines", lines)
	}
	if !strings.Contains(out.String(), "explain train-infer-abc123 shows all") {
		t.Error("that lines are left out is not said")
	}
	out.Reset()
	l.Update(large(1000, 800, 20), wall.Add(3*time.Second))
	if got := out.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, "800 of 1,000 tasks finished") {
		t.Errorf("after the interval: %q", got)
	}
	out.Reset()
	l.Update(large(1000, 800, 20), wall.Add(9*time.Second))
	if out.Len() > 0 {
		t.Errorf("nothing has changed: %q", out.String())
	}
}

func TestGlyphs(t *testing.T) {
	for name, g := range map[string]Glyphs{"Unicode": Unicode(), "ASCII": ASCII()} {
		for share := -0.5; share <= 1.5; share += 0.013 {
			full, empty := g.bar(share, 20)
			if got := text.Width(full) + text.Width(empty); got != 20 {
				t.Errorf("%s: a bar at %v has %d cells", name, share, got)
			}
		}
		seen := map[string]string{}
		for _, s := range shownStates {
			glyph, _ := g.state(s, 0)
			if text.Width(glyph) != 1 {
				t.Errorf("%s: %s is %q", name, s, glyph)
			}
			key := fmt.Sprint(g.state(s, 0))
			if other, ok := seen[key]; ok && s != "launching" && s != "admitted" {
				t.Errorf("%s: %s looks like %s", name, s, other)
			}
			seen[key] = s
		}
	}
	for _, g := range ASCII().frames {
		if g[0] > 0x7f {
			t.Errorf("%q is not ASCII", g)
		}
	}
}

func TestServiceJobsShowReadyReplicas(t *testing.T) {
	j := NewJob(1)
	j.Apply(apitypes.JobUpdate{Now: at(5), Full: true,
		Job:   apitypes.JobView{ID: "chat", Tasks: 2, State: apitypes.JobRunning, Submitted: at(0)},
		Plans: []apitypes.PlanHead{{Version: 1, At: at(0), Hours: 1}}, Tasks: []apitypes.TaskView{
			{Index: 0, Name: "web.0", Service: "web", State: "running", Ready: true, Hours: 1, Started: at(1)},
			{Index: 1, Name: "web.1", Service: "web", State: "running", Hours: 1, Started: at(1)},
		}}, wall)
	v := View{Job: j, Glyphs: ASCII()}
	shown := v.Render(wall, 80, 0)
	if !strings.Contains(shown, "1/2 ready") || strings.Contains(shown, "of about") || strings.Contains(shown, "tasks") {
		t.Errorf("shown:\n%s", shown)
	}
}

// Between two attempts a task has the state failed, but is retried. Only the end of its job makes the failure final.
func TestRetriedTaskIsNotReportedFailed(t *testing.T) {
	j := NewJob(1)
	told := func(state apitypes.JobState, task record.TaskState) (n int) {
		u := apitypes.JobUpdate{Now: at(1), Job: apitypes.JobView{ID: "j", State: state, Tasks: 1}, Full: !j.Known(),
			Tasks: []apitypes.TaskView{{Index: 0, Name: "a", State: string(task), Reason: "exit code 3"}}}
		for _, h := range j.Apply(u, wall) {
			if strings.HasPrefix(h.Text, "failed for good") {
				n++
			}
		}
		return n
	}
	for i, step := range []struct {
		job  apitypes.JobState
		task record.TaskState
		want int
	}{
		{apitypes.JobRunning, record.TaskRunning, 0},
		{apitypes.JobRunning, record.TaskFailed, 0},
		{apitypes.JobRunning, record.TaskRunning, 0},
		{apitypes.JobRunning, record.TaskFailed, 0},
		{apitypes.JobEnding, record.TaskFailed, 1},
		{apitypes.JobFailed, record.TaskFailed, 0},
	} {
		if got := told(step.job, step.task); got != step.want {
			t.Errorf("step %d: told %d times that it has failed for good, want %d", i, got, step.want)
		}
	}
}

func TestViewShowsArrayAsOneRowWithCounts(t *testing.T) {
	wall := time.Date(2026, 11, 28, 9, 0, 0, 0, time.UTC)
	j := NewJob(1)
	u := apitypes.JobUpdate{Full: true, Now: wall, Job: apitypes.JobView{ID: "x", Tasks: 4, State: apitypes.JobRunning}}
	for i, state := range []string{"succeeded", "failed", "succeeded", "running"} {
		u.Tasks = append(u.Tasks, apitypes.TaskView{Index: i, Name: fmt.Sprintf("a[%d]", i), State: state, USD: 0.25})
	}
	j.Apply(u, wall)
	v := View{Job: j, Glyphs: ASCII()}
	got := v.Render(wall, 120, 0)
	if !strings.Contains(got, "a[0-3]") || !strings.Contains(got, "4 members: 2 succeeded, 1 failed, 1 running") ||
		strings.Contains(got, "a[1]") || !strings.Contains(got, "1.00") {
		t.Errorf("the view is\n%s", got)
	}
	v.Members = true
	if got := v.Render(wall, 120, 0); !strings.Contains(got, "a[1]") || strings.Contains(got, "a[0-3]") {
		t.Errorf("with members the view is\n%s", got)
	}
}
