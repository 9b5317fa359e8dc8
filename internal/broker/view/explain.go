package view

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tradewind-broker/tradewind/internal/broker/attempt"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/internal/readable"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
)

// story is a story under construction.
type story struct{ apitypes.Story }

// Explain returns the story of a job. It fails with ErrNotFound.
func (b *Views) Explain(ctx context.Context, id string) (*apitypes.Story, error) {
	return b.ExplainPart(ctx, id, Part{})
}

// ExplainPart returns the history of some of a job's tasks. The first part includes the history of the job, the last
// its end. It fails with ErrNotFound.
func (b *Views) ExplainPart(ctx context.Context, id string, p Part) (*apitypes.Story, error) {
	detail, err := b.look(ctx, id, p, nil)
	if err != nil {
		return nil, err
	}
	s := &story{apitypes.Story{Job: detail.JobView, Next: detail.Next}}
	if p.From == 0 {
		tasks := fmt.Sprintf("%d tasks", detail.Tasks)
		if detail.Tasks == 1 {
			tasks = "1 task"
		}
		s.add(detail.Submitted, "submitted", "",
			fmt.Sprintf("%s, to minimise %s%s", tasks, detail.Objective, limits(detail.JobView)))
	}
	for _, p := range detail.Plans {
		s.plan(p)
	}
	for _, t := range detail.TaskList {
		if t.Waits != "" {
			s.add(b.txns.Now(), "waits", t.Name, t.Waits)
		}
	}
	for _, a := range detail.Attempts {
		s.attempt(a, &detail.TaskList[a.Task-p.From])
	}
	if p.From == 0 {
		s.suspended(detail)
		s.updated(detail.Update)
	}
	if err := b.visits(ctx, s, detail, p.From); err != nil {
		return nil, err
	}
	if err := cmp.Or(b.closed(ctx, s, detail), b.notified(ctx, s)); err != nil {
		return nil, err
	}
	switch {
	case s.Next > 0:
	case detail.State.Finished():
		text := fmt.Sprintf("%s after %s for %s USD%s", detail.State,
			readable.Rounded(detail.Finished.Sub(detail.Submitted)), readable.USD(detail.SpentUSD), s.estimated())
		if detail.Reason != "" {
			text += ": " + detail.Reason
		}
		s.add(detail.Finished, "finished", "", text)
	case detail.State == apitypes.JobWaiting:
		s.add(b.txns.Now(), "waiting", "", detail.Reason)
	case detail.planTries.Failed > 0:
		s.add(b.txns.Now(), "waits", "", detail.planTries.String()+"; it is tried again")
	}
	if detail.plan != nil && p.From == 0 {
		for _, note := range detail.plan.Notes {
			s.add(detail.plan.At, "placement", "", note)
		}
	}
	s.Sort()
	if detail.plan != nil {
		s.choices(detail.plan, detail.TaskList)
	}
	return &s.Story, nil
}

// closed adds that the queue of an unfinished job, or one above it, is suspended, or that a monthly budget there has
// less left than a waiting task costs.
func (b *Views) closed(ctx context.Context, s *story, detail *Look) error {
	if s.Job.State.Finished() || s.Next > 0 {
		return nil
	}
	all, err := b.Queues(ctx)
	queues := record.Forest(all)
	name := s.Job.Queue
	for range record.MaxTree {
		q := queues[name]
		if q == nil {
			break
		}
		if at := q.Suspended.Since; q.Closed && !at.IsZero() {
			s.add(
				at,
				"suspended",
				"",
				fmt.Sprintf("queue %s is %s: none of its tasks starts", name, attempt.SuspensionText(q.Suspended)),
			)
		}
		name = q.Parent
	}
	if detail.plan != nil && err == nil {
		s.overBudget(all, detail, b.txns.Now())
	}
	return err
}

// overBudget adds the monthly budgets that have less left than a waiting task costs, each with the first such task.
func (s *story) overBudget(queues []apitypes.Queue, detail *Look, now time.Time) {
	for _, p := range record.Purses(record.Pointers(queues), s.Job.Queue, now) {
		i := slices.IndexFunc(detail.TaskList, func(t apitypes.TaskView) bool {
			return t.State == string(record.TaskQueued) && t.Index < len(detail.plan.TaskUSD) &&
				detail.plan.TaskUSD[t.Index] > p.LeftUSD()
		})
		if i >= 0 {
			s.add(now, "waits", detail.TaskList[i].Name, p.Describe())
		}
	}
}

// suspended adds when the job was suspended and resumed.
func (s *story) suspended(detail *Look) {
	for _, p := range detail.suspensions {
		text := "running tasks save their work and release their machines"
		if lost := detail.lost(p.Since); lost != "" {
			text += "; without checkpoints, " + lost + " " + restarts
		}
		if p.Reason != "" {
			text = p.Reason + "; " + text
		}
		if p.By != "" {
			text = "by " + p.By + ": " + text
		}
		s.add(p.Since, "suspended", "", text)
		if p.Until.IsZero() {
			continue
		}
		text = "after " + readable.Rounded(p.Until.Sub(p.Since)).String()
		if p.ResumedBy != "" {
			text = "by " + p.ResumedBy + " " + text
		}
		s.add(p.Until, "resumed", "", text)
	}
}

// lost names the tasks without checkpoints that ran at a time: the first few of them.
func (d *Look) lost(at time.Time) string {
	unsaved := map[int]string{} // the names by index
	for i := range d.TaskList {
		if t := &d.TaskList[i]; t.Unsaved {
			unsaved[t.Index] = t.Name
		}
	}
	var names []string
	for i := range d.Attempts {
		a := &d.Attempts[i]
		if name := unsaved[a.Task]; name != "" && !a.Started.IsZero() && !a.Started.After(at) &&
			(a.Ended.IsZero() || !a.Ended.Before(at)) {
			names = append(names, name)
		}
	}
	if more := len(names) - maxNames; more > 0 {
		names = append(names[:maxNames], fmt.Sprintf("%d more", more))
	}
	return strings.Join(names, ", ")
}

// maxNames is the maximum number of tasks that an entry names.
const maxNames = 5

// choices adds why each task runs where it does.
func (s *story) choices(plan *record.Plan, tasks []apitypes.TaskView) {
	for _, t := range tasks {
		if c, runners := plan.Of(t.Index), plan.Runners[t.Index]; c != nil && len(runners) > 0 {
			s.Choices = append(s.Choices, apitypes.TaskWhy{
				Task: t.Name, Chosen: c.ID, USD: plan.TaskUSD[t.Index], Hours: plan.TaskHours[t.Index],
				Runners: runners,
			})
		}
	}
}

func (s *story) add(at time.Time, kind, task, text string) {
	s.Entries = append(s.Entries, apitypes.Entry{At: at, Kind: kind, Task: task, Text: text})
}

// estimated is the mark after an amount that was not paid, because the machines of the job are simulated.
func (s *story) estimated() string {
	if s.Job.Simulated {
		return " est."
	}
	return ""
}

func limits(v apitypes.JobView) string {
	var parts []string
	if !v.Deadline.IsZero() {
		parts = append(parts, "by "+v.Deadline.Format(time.RFC3339))
	}
	if v.BudgetUSD > 0 {
		parts = append(parts, fmt.Sprintf("within %s USD", readable.USD(v.BudgetUSD)))
	}
	if len(parts) == 0 {
		return ""
	}
	return ", " + strings.Join(parts, ", ")
}

func (s *story) plan(p apitypes.PlanHead) {
	why := "first plan"
	if p.Reason != "" {
		why = "replanned: " + p.Reason
	}
	proof := "proven optimal"
	if p.Status != "optimal" {
		proof = fmt.Sprintf("no plan is better than %.4g", p.Bound)
	}
	text := fmt.Sprintf("%s; the remaining tasks are expected to cost %s USD and take %s (%s)", why,
		readable.USD(p.USD), readable.Rounded(record.Duration(p.Hours)), proof)
	if p.Late {
		text += "; the deadline can no longer be met, so this is the fastest plan"
	}
	s.add(p.At, "planned", "", text)
}

// losesWork reports whether an attempt left its machines without saving the work of its task.
func losesWork(a *apitypes.Attempt, t *apitypes.TaskView) bool {
	left := a.Outcome == apitypes.OutcomeMoved || a.Outcome == apitypes.OutcomePreempted
	return left && t.Unsaved && !a.Started.IsZero()
}

func (s *story) attempt(a apitypes.Attempt, t *apitypes.TaskView) {
	task := t.Name
	label := fmt.Sprintf("attempt %d on %s", a.Number, a.OfferID)
	if a.Nodes > 1 {
		label += fmt.Sprintf(" × %d", a.Nodes)
	}
	if !a.WaitSince.IsZero() {
		s.add(a.WaitSince, "waits", task, fmt.Sprintf("for a better price than %.4g USD/h: %s, until attempt %d",
			a.WaitUSD, readable.Rounded(a.Admitted.Sub(a.WaitSince)), a.Number))
	}
	if !a.Launched.IsZero() {
		text := fmt.Sprintf("%s at %.4f USD/h each", label, a.Offer.USDPerHour)
		if worker, shared := a.Shares(); shared {
			text = label + ", worker " + worker
		}
		switch {
		case a.RateUSD <= 0:
		case a.Ended.IsZero():
			text += fmt.Sprintf(" (%.4f now)", a.RateUSD)
		default:
			text += fmt.Sprintf(" (%.4f at the end)", a.RateUSD)
		}
		if a.Instead.Offer != "" {
			text += fmt.Sprintf(", where %s would have cost %.4f USD", a.Instead.Offer, a.Instead.USD)
		}
		if a.MaxUSD > 0 {
			text += fmt.Sprintf(", bidding up to %.4f", a.MaxUSD)
		}
		if a.ResumedFrom != "" || a.Resumed > 0 {
			text += fmt.Sprintf(", resuming from a checkpoint (%.0f%% done)", 100*a.Resumed)
		}
		s.add(a.Launched, "launched", task, text)
	}
	if a.Doubt != "" {
		s.add(a.DoubtedAt, "doubted", task, fmt.Sprintf("attempt %d: %s", a.Number, a.Doubt))
	}
	if a.Ended.IsZero() {
		return
	}
	kind, text := string(a.Outcome), ""
	switch a.Outcome {
	case apitypes.OutcomeSucceeded:
		text = fmt.Sprintf("attempt %d succeeded after %s", a.Number, readable.Rounded(a.Ended.Sub(a.Launched)))
		if _, shared := a.Shares(); !shared {
			text += fmt.Sprintf(" for %.4f USD%s", a.USD, s.estimated())
		}
		if a.EgressUSD > 0 {
			text += fmt.Sprintf(", %.4f of it for moving data", a.EgressUSD)
		}
	case apitypes.OutcomeRefused:
		text = label + " was refused: " + a.Reason
	case apitypes.OutcomeBlocked:
		text = label + " was not tried: " + a.Reason
	default:
		text = fmt.Sprintf("%s ended (%s): %s", label, a.Outcome, a.FailureText())
		if losesWork(&a, t) {
			text += "; it saves no checkpoints, so the task " + restarts
		}
	}
	s.Entries = append(s.Entries, apitypes.Entry{At: a.Ended, Kind: kind, Task: task, Text: text, USD: a.USD})
	if a.KeptUntil.After(a.Ended) {
		s.add(a.Ended, "kept", task, fmt.Sprintf("the machines of attempt %d are kept for inspection, for up to %s",
			a.Number, readable.Rounded(a.KeptUntil.Sub(a.Ended))))
	}
}
