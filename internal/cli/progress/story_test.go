package progress

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/tradewind-broker/tradewind/internal/cli/text"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
)

// Start times of the stories, on the broker's clock and the wall clock.
var (
	start = time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)
	wall  = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
)

func at(minutes float64) time.Time { return start.Add(time.Duration(minutes * float64(time.Minute))) }

const (
	first  = "aws/us-east-1/use1-az1/p3.2xlarge/spot"
	second = "gcp/us-central1/us-central1-a/n1-standard-8+V100:1/spot"
	third  = "azure/eastus/Standard_NC6s_v3/on-demand"
)

func viewed(minutes float64, state apitypes.JobState, spent float64) apitypes.JobView {
	v := apitypes.JobView{
		ID: "train-infer-abc123", Name: "train-infer", State: state, Objective: "cost", Submitted: start, Deadline: at(360), BudgetUSD: 40,
		Tasks: 2, SpentUSD: spent, PlannedUSD: 1.27, OnDemandUSD: 8.4, Plan: 1,
	}
	if state.Finished() {
		v.Finished = at(minutes)
	}
	return v
}

func tasks(train, infer apitypes.TaskView) []apitypes.TaskView {
	train.Index, train.Name, train.Nodes, train.Hours = 0, "train", 1, 2.1
	infer.Index, infer.Name, infer.Nodes, infer.Hours, infer.After = 1, "infer", 3, 0.5, []int{0}
	infer.Offer = "aws/us-east-1/use1-az1/m8g.2xlarge/spot"
	if infer.State == "" {
		infer.State = "waiting"
	}
	return []apitypes.TaskView{train, infer}
}

func attempt(number int, offer string, usd float64) apitypes.Attempt {
	return apitypes.Attempt{Task: 0, Number: number, OfferID: offer, Nodes: 1, Offer: apitypes.Offer{USDPerHour: usd}}
}

// story returns the updates of a job that finds a zone full, is preempted, resumes elsewhere and ends.
func story() []apitypes.JobUpdate {
	plan1 := apitypes.PlanHead{Version: 1, At: at(0.1), Status: "optimal", USD: 1.27, Hours: 2.6, OnDemandUSD: 8.4}
	plan2 := apitypes.PlanHead{Version: 2, At: at(2.1), Status: "feasible", Bound: 1.2, USD: 1.4, Hours: 2.6, Reason: "aws: capacity (InsufficientInstanceCapacity): no capacity for p3.2xlarge in use1-az1"}
	refused := attempt(1, first, 0.918)
	refused.Ended, refused.Outcome, refused.Reason = at(2), apitypes.OutcomeRefused, "aws: capacity (InsufficientInstanceCapacity): no capacity for p3.2xlarge in use1-az1"
	spot := attempt(2, second, 0.79)
	spot.Launched = at(2.2)
	taken := spot
	taken.Ended, taken.Outcome, taken.Reason, taken.USD = at(60), apitypes.OutcomePreempted, "spot interruption", 0.76
	resumed := attempt(3, third, 3.06)
	resumed.Launched, resumed.Resumed = at(61), 0.42
	done := resumed
	done.Ended, done.Outcome, done.USD = at(140), apitypes.OutcomeSucceeded, 4.03
	gang := apitypes.Attempt{Task: 1, Number: 1, OfferID: "aws/us-east-1/use1-az1/m8g.2xlarge/spot", Nodes: 3, Offer: apitypes.Offer{USDPerHour: 0.03}, Launched: at(141)}
	gangDone := gang
	gangDone.Ended, gangDone.Outcome, gangDone.USD = at(171), apitypes.OutcomeSucceeded, 0.05
	failed := gang
	failed.Ended, failed.Outcome, failed.Reason = at(150), apitypes.OutcomeFailed, "exit code 1: \x1b[31mTraceback\x1b[0m\nValueError"

	planning := viewed(0, apitypes.JobPlanning, 0)
	planning.Plan = 0
	over := viewed(171, apitypes.JobSucceeded, 4.84)
	over.Succeeded = 2
	lost := viewed(150, apitypes.JobFailed, 4.81)
	lost.Succeeded, lost.Reason = 1, "task infer: exit code 1"
	mid := viewed(100, apitypes.JobRunning, 2.7)
	trained := apitypes.TaskView{State: "succeeded", Attempts: 3, Offer: third, Started: at(62), Ended: at(140), USD: 4.79}

	return []apitypes.JobUpdate{
		{Now: at(0), Full: true, Job: planning, Tasks: tasks(apitypes.TaskView{State: "waiting"}, apitypes.TaskView{})},
		{Now: at(1), Job: viewed(1, apitypes.JobRunning, 0), Plans: []apitypes.PlanHead{plan1}, Tasks: tasks(apitypes.TaskView{State: "launching", Attempts: 1, Offer: first}, apitypes.TaskView{})},
		{
			Now: at(5), Job: viewed(5, apitypes.JobRunning, 0.04), Plans: []apitypes.PlanHead{plan1, plan2}, Attempts: []apitypes.Attempt{spot, refused},
			Tasks: tasks(apitypes.TaskView{State: "running", Attempts: 2, Offer: second, Started: at(3)}, apitypes.TaskView{})[:1],
		},
		{
			Now: at(60.5), Job: viewed(60.5, apitypes.JobRunning, 0.76), Attempts: []apitypes.Attempt{taken},
			Tasks: tasks(apitypes.TaskView{State: "queued", Attempts: 2, Offer: second, Progress: 0.42}, apitypes.TaskView{})[:1],
		},
		{
			Now: at(100), Job: mid, Attempts: []apitypes.Attempt{resumed},
			Tasks: tasks(apitypes.TaskView{State: "running", Attempts: 3, Offer: third, Started: at(62), Progress: 0.42, USD: 0.76}, apitypes.TaskView{})[:1],
		},
		{
			Now: at(142), Job: viewed(142, apitypes.JobRunning, 4.8), Attempts: []apitypes.Attempt{done, gang},
			Tasks: tasks(trained, apitypes.TaskView{State: "running", Attempts: 1, Started: at(141)}),
		},
		{Now: at(171), Job: over, Attempts: []apitypes.Attempt{gangDone}, Tasks: tasks(trained, apitypes.TaskView{State: "succeeded", Attempts: 1, Started: at(141), Ended: at(171), USD: 0.05})},
		// Replaces the last step.
		{Now: at(150), Job: lost, Attempts: []apitypes.Attempt{failed}, Tasks: tasks(trained, apitypes.TaskView{State: "failed", Attempts: 1, Started: at(141), Ended: at(150), Reason: "exit code 1"})},
	}
}

// failing is the step of the story that fails.
const failing = 7

// TestStory renders the story at different moments and sizes: see testdata/story.
func TestStory(t *testing.T) {
	datadriven.RunTest(t, "testdata/story", func(t *testing.T, d *datadriven.TestData) string {
		scale, glyphs := 1.0, Unicode()
		if d.HasArg("compressed") {
			scale = 0.001
		}
		if d.HasArg("ascii") {
			glyphs = ASCII()
		}
		switch d.Cmd {
		case "lines":
			var out bytes.Buffer
			l := NewLines(&out, scale, text.Style{})
			for i, u := range until(t, d) {
				l.Update(u, wall.Add(time.Duration(i)*time.Second))
			}
			return out.String()
		case "view":
			var width, height, later int
			d.ScanArgs(t, "width", &width)
			d.MaybeScanArgs(t, "height", &height)
			d.MaybeScanArgs(t, "later", &later)
			p := picture{View: View{Job: NewJob(scale), Hint: "Ctrl-C cancels the job", Glyphs: glyphs}}
			d.MaybeScanArgs(t, "note", &p.Note)
			for _, u := range until(t, d) {
				p.happened(p.Job.Apply(u, wall))
			}
			return p.Render(wall.Add(time.Duration(later)*time.Second), width, height) + "\n"
		}
		return "unknown command"
	})
}

// until returns the story up to a step.
func until(t *testing.T, d *datadriven.TestData) []apitypes.JobUpdate {
	var step int
	d.ScanArgs(t, "step", &step)
	updates := story()
	if step == failing {
		return append(updates[:6:6], updates[failing])
	}
	return updates[:step+1]
}

// large returns a job of many tasks, some of them running.
func large(n, done, running int) apitypes.JobUpdate {
	u := apitypes.JobUpdate{Now: at(30), Full: true, Job: viewed(30, apitypes.JobRunning, 12.5)}
	u.Job.Tasks, u.Job.Succeeded = n, done
	for i := range n {
		task := apitypes.TaskView{Index: i, Name: fmt.Sprintf("t%04d", i), State: "waiting", Nodes: 1, Hours: 0.1, Offer: first}
		switch {
		case i < done:
			task.State, task.Started, task.Ended = "succeeded", at(1), at(5)
		case i == done:
			task.State, task.Reason, task.Ended = "failed", "exit code 2", at(20)
		case i <= done+running:
			task.State, task.Started, task.Attempts = "running", at(28), 1
		case i%2 == 0:
			task.State = "queued"
		}
		u.Tasks = append(u.Tasks, task)
	}
	return u
}

func TestLargeJobIsCollapsed(t *testing.T) {
	datadriven.RunTest(t, "testdata/large", func(t *testing.T, d *datadriven.TestData) string {
		var width, height int
		d.ScanArgs(t, "width", &width)
		d.ScanArgs(t, "height", &height)
		v := View{Job: NewJob(1), Hint: "Ctrl-C cancels the job", Glyphs: Unicode()}
		v.Job.Apply(large(1000, 612, 20), wall)
		return v.Render(wall, width, height) + "\n"
	})
}

func TestViewFitsTerminal(t *testing.T) {
	jobs := map[string]*Job{"large": NewJob(1), "small": NewJob(1)}
	jobs["large"].Apply(large(1000, 612, 20), wall)
	var recent []Event
	for _, u := range story() {
		for _, h := range jobs["small"].Apply(u, wall) {
			if h.Notable {
				recent = append(recent, h)
			}
		}
	}
	for name, job := range jobs {
		for width := leastWidth; width < 160; width += 3 {
			for height := leastHeight; height < 50; height += 3 {
				v := View{Job: job, Recent: recent, Missed: 3, Hint: "hint", Glyphs: Unicode(), Style: text.NewStyle(true)}
				lines := strings.Split(v.Render(wall, width, height), "\n")
				if len(lines) >= height {
					t.Errorf("%s in %d×%d has %d lines", name, width, height, len(lines))
				}
				for _, line := range lines {
					if text.Width(line) > width {
						t.Errorf("%s in %d×%d: %q is too wide", name, width, height, line)
					}
				}
			}
		}
	}
}
