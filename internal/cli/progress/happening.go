package progress

import (
	"fmt"
	"time"

	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/internal/cli/text"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
)

// Event is an event of a job.
type Event struct {
	At   time.Time // by the broker's clock
	Task string    // empty for the job as a whole
	Text string
	// Offer is printed after Text, and Rest follows it; Offer may be empty.
	Offer, Rest string
	Tone        text.Tone
	// Notable events are shown for jobs of any size: something did not go as planned.
	Notable bool

	order int // order among events at the same time
}

// The order of events at the same time.
const (
	orderJob = iota
	orderEnded
	orderPlanned
	orderBegun
	orderOver
)

func submitEvent(v apitypes.JobView) Event {
	what := fmt.Sprintf("submitted %s: %s, to minimise %s", v.ID, text.Count(v.Tasks, "task"), v.Objective)
	if !v.Deadline.IsZero() {
		what += ", within " + text.Span(v.Deadline.Sub(v.Submitted))
	}
	if v.BudgetUSD > 0 {
		what += ", for at most " + text.USD(v.BudgetUSD) + " USD"
	}
	return Event{At: v.Submitted, Text: what, order: orderJob}
}

// maxReasonWidth is the maximum length of a plan's reason, in cells: the event that caused it was printed just before.
const maxReasonWidth = 60

func planEvent(p apitypes.PlanHead, anew bool) Event {
	h := Event{At: p.At, order: orderPlanned}
	proof := "proven optimal"
	if p.Status != "optimal" {
		proof = fmt.Sprintf("no plan is better than %.4g", p.Bound)
	}
	estimate := fmt.Sprintf("%s USD, expected to take %s, %s", text.USD(p.USD), text.Span(span(p.Hours)), proof)
	if !anew {
		h.Text = fmt.Sprintf("planned: %s; on demand %s USD", estimate, text.USD(p.OnDemandUSD))
		return h
	}
	h.Notable, h.Tone = true, text.Active
	h.Text = "replanned: " + estimate + " for the remaining tasks"
	if p.Late {
		h.Text, h.Tone = h.Text+"; the deadline cannot be met", text.Bad
	}
	if p.Reason != "" {
		h.Text += " (" + text.Cut(text.Gist(p.Reason), maxReasonWidth) + ")"
	}
	return h
}

// jobStateEvents returns an event for a job's new state if it is news.
func jobStateEvents(v apitypes.JobView, now time.Time) []Event {
	if v.State == apitypes.JobWaiting {
		return []Event{{At: now, Text: "waits: " + text.Clean(v.Reason), Tone: text.Warn, Notable: true,
			order: orderOver}}
	}
	return nil
}

// taskStateEvents returns an event for a task's new state if no attempt describes it.
func taskStateEvents(was, is apitypes.TaskView, now time.Time) []Event {
	if was.Waits == "" && is.Waits != "" {
		return []Event{{At: now, Task: is.Name, Text: text.Clean(is.Waits), Tone: text.Warn, Notable: true,
			order: orderOver}}
	}
	if was.State == is.State {
		return nil
	}
	switch is.State {
	case string(record.TaskRunning):
		return []Event{{At: is.Started, Task: is.Name, Text: "running", order: orderBegun + 1}}
	default:
		return nil
	}
}

// failedTaskEvents returns events for the failed tasks once their job ends because of them. Before that they may be
// retried, and a task also has the state failed between two attempts.
func (j *Job) failedTaskEvents() (news []Event) {
	if j.State != apitypes.JobEnding && !j.State.Finished() {
		return nil
	}
	for i := range j.Tasks {
		if t := &j.Tasks[i]; t.State == string(record.TaskFailed) && !j.failed[t.Index] {
			j.failed[t.Index] = true
			news = append(news, Event{
				At: t.Ended, Task: t.Name, Text: "failed for good: " + text.Gist(t.Reason), Tone: text.Bad,
				Notable: true, order: orderOver,
			})
		}
	}
	return news
}

// attemptEvents returns events for the start and the end of an attempt.
func attemptEvents(was, is apitypes.Attempt, task string, moved, simulated bool) (news []Event) {
	if was.Launched.IsZero() && !is.Launched.IsZero() {
		news = append(news, launchEvent(is, task, moved))
	}
	if was.Outcome == "" && is.Outcome != "" {
		news = append(news, endEvent(is, task, simulated))
		if is.KeptUntil.After(is.Ended) {
			news = append(news, Event{At: is.Ended, Task: task, Tone: text.Warn, Notable: true, order: orderEnded,
				Text: "its machine is kept for " + text.Span(is.KeptUntil.Sub(is.Ended)) +
					": `tradewind shell` reaches it, `tradewind cancel` releases it"})
		}
	}
	return news
}

func launchEvent(a apitypes.Attempt, task string, moved bool) Event {
	h := Event{At: a.Launched, Task: task, order: orderBegun}
	switch {
	case moved:
		h.Text, h.Notable, h.Tone = "moved to", true, text.Active
	case a.Number > 1:
		h.Text, h.Notable, h.Tone = "retried on", true, text.Active
	default:
		h.Text = "launched on"
		if _, shared := a.Shares(); shared {
			h.Text = "starts on"
		}
	}
	h.Offer = text.Clean(a.OfferID)
	if a.Nodes > 1 {
		h.Rest = fmt.Sprintf(" × %d", a.Nodes)
	}
	if worker, shared := a.Shares(); shared {
		h.Rest += ", worker " + worker
	} else {
		h.Rest += fmt.Sprintf(" at %s USD/h", text.USD(a.Offer.USDPerHour))
	}
	if a.Resumed > 0 {
		h.Rest += fmt.Sprintf(", resumed at %.0f%%", 100*a.Resumed)
	} else if a.ResumedFrom != "" {
		h.Rest += ", resumed from its checkpoint"
	}
	return h
}

// endEvent returns the event for the end of an attempt.
func endEvent(a apitypes.Attempt, task string, simulated bool) Event {
	h := Event{
		At: a.Ended, Task: task, Tone: text.Warn, order: orderEnded,
		Notable: a.Outcome != apitypes.OutcomeSucceeded && a.Outcome != apitypes.OutcomeCancelled,
	}
	why := because(text.Gist(a.FailureText()))
	on := func(what string) { h.Text, h.Offer, h.Rest = what, text.Clean(a.OfferID), why }
	switch a.Outcome {
	case apitypes.OutcomeSucceeded:
		h.Text, h.Tone = "succeeded after "+text.Span(a.Ended.Sub(a.Launched)), text.Good
		h.Text += cost(a, simulated)
	case apitypes.OutcomeRefused:
		on("refused on")
	case apitypes.OutcomeBlocked:
		on("not tried on")
	case apitypes.OutcomePreempted:
		on("preempted on")
	case apitypes.OutcomeMoved:
		on("left")
	case apitypes.OutcomeLost:
		on("lost its machine on")
	case apitypes.OutcomeBudget:
		h.Text = "stopped to stay within the budget" + why
	case apitypes.OutcomeFailed:
		h.Text, h.Tone = fmt.Sprintf("attempt %d failed%s", a.Number, why), text.Bad
	default:
		h.Text, h.Tone = string(a.Outcome)+why, text.Plain
	}
	return h
}

// cost renders the cost of an attempt. It is known once its machines are gone; before, it is estimated by their price.
func cost(a apitypes.Attempt, simulated bool) string {
	if a.USD > 0 {
		return " for " + text.Amount(a.USD, simulated)
	}
	billed := max(a.Ended.Sub(a.Launched), time.Minute) // the minimum that clouds bill
	usd := a.Offer.USDPerHour * float64(max(a.Nodes, 1)) * billed.Hours()
	if usd <= 0 {
		return ""
	}
	if simulated {
		return " for " + text.Amount(usd, true)
	}
	return " for about " + text.Amount(usd, false)
}

func because(reason string) string {
	if reason == "" {
		return ""
	}
	return ": " + reason
}

func span(hours float64) time.Duration { return text.Hours(hours) }
