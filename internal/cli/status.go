package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/internal/cli/command"
	"github.com/tradewind-broker/tradewind/internal/cli/progress"
	"github.com/tradewind-broker/tradewind/internal/cli/text"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
)

func (a *app) statusCommand() *cobra.Command {
	var state string
	var watch, members bool
	var which filter
	c := &cobra.Command{
		Use:   "status [JOB]",
		Short: "List the jobs, or show one with its tasks",
		Long: "Lists the jobs, newest first. With JOB, shows one job: its tasks, where each runs, how often it was\n" +
			"tried, and its cost. JOB is an ID, the beginning of one, or \"last\". An array is one row with counts;\n" +
			"--members shows each member.\n" +
			"\n" +
			"--watch follows the job until it has finished. --job-state, --queue and --name list only some jobs;\n" +
			"with them, --watch repeats the list. -o wide shows columns in full, -o name prints only the IDs.",
		Example: "  tradewind status\n  tradewind status last\n  tradewind status -w train-infer\n" +
			"  tradewind status last -o json | jq .spentUSD\n" +
			"  tradewind status --job-state running,waiting --queue research --watch\n" +
			"  tradewind cancel $(tradewind status --name 'nightly-*' -o name)",
		Args: command.Args(0, 1), ValidArgsFunction: a.completeJob(&state, false),
	}
	a.brokerFlags(c, &state)
	c.Flags().BoolVarP(&watch, "watch", "w", false, "follow the job (default: the newest one)")
	c.Flags().BoolVar(&members, "members", false, "show each member of an array in a separate row")
	which.flags(c)
	a.completeQueue(c, &state)
	output := command.OutputFlag(c, "wide", "name")
	c.RunE = func(c *cobra.Command, given []string) error {
		if err := which.check(given); err != nil {
			return err
		}
		ctx, cancel := a.Stop.Context(c.Context())
		defer cancel()
		s, err := a.read(ctx, state)
		if err != nil {
			return err
		}
		arg := ""
		if len(given) > 0 {
			arg = given[0]
		} else if watch && !which.some() {
			arg = "last"
		}
		return errors.Join(a.status(ctx, s, arg, watch, members, &which, output), s.Close())
	}
	return c
}

func (a *app) status(ctx context.Context, s *conn, arg string, watch, members bool, which *filter,
	output *command.Choice) error {
	if arg == "" && watch {
		return a.repeat(ctx, func() ([]string, error) { return a.jobLines(ctx, s, which) })
	}
	if arg == "" {
		return a.listJobs(ctx, s, which, output)
	}
	id, err := a.job(ctx, s, arg)
	if err != nil {
		return err
	}
	if watch && s.passive {
		a.Tell("no broker is running for %s, so nothing will change", s.state)
	} else if watch {
		return a.watch(ctx, s, id, output)
	}
	detail, err := s.Job(ctx, id)
	if err != nil {
		return err
	}
	s.markStopped(&detail.JobView)
	var ended error
	if watch { // the job will not change: if it has not succeeded, it never will
		ended = verdict(detail)
	}
	switch {
	case output.JSON():
		return errors.Join(a.PrintJSON(detail), ended)
	case output.Value == "name":
		return errors.Join(a.Printf("%s\n", detail.ID), ended)
	}
	// If no broker is running, time stopped at the last event.
	now := latest(detail)
	if !s.passive {
		list, err := s.Jobs(ctx, 1)
		if err != nil {
			return err
		}
		now = list.Now
	}
	if detail.NoBroker && !watch {
		a.tellNoBroker(s)
	}
	return errors.Join(a.showJob(detail, s, now, members), ended)
}

// watch follows a job to its end; an interrupt does not affect the job.
func (a *app) watch(ctx context.Context, s *conn, id string, output *command.Choice) error {
	show := a.newFollower(s.running.TimeScale, "Ctrl-C stops watching; the job continues")
	err := a.follow(ctx, s, id, show)
	show.Close()
	if err != nil {
		return err
	}
	detail, err := s.Job(ctx, id)
	if err != nil {
		return err
	}
	if output.JSON() {
		err = a.PrintJSON(detail)
	}
	return errors.Join(err, verdict(detail))
}

// showJob prints a job as of now, a time on the broker's clock.
func (a *app) showJob(d *apitypes.JobDetail, s *conn, now time.Time, members bool) error {
	wall := a.Now()
	job := progress.NewJob(s.running.TimeScale)
	job.Apply(apitypes.JobUpdate{Now: now, Full: true, Job: d.JobView, Tasks: d.TaskList, Plans: d.Plans,
		Attempts: d.Attempts}, wall)
	view := progress.View{Job: job, Style: a.Style(a.Out), Glyphs: a.glyphs(), Members: members}
	for _, t := range d.TaskList {
		if t.Waits != "" {
			view.Note = text.Clean(t.Name) + " " + text.Clean(t.Waits)
			break
		}
	}
	if text := servicesText(d); text != "" && view.Note == "" {
		view.Note = text
	}
	cells := command.Width(a.Out)
	if cells == 0 {
		cells = wide
	}
	out := strings.TrimRight(view.Render(wall, cells, 0), "\n") + "\n"
	for _, line := range troubles(d) {
		out += text.Cut(line, cells) + "\n"
	}
	if kept := keptText(&d.JobView); kept != "" {
		out += kept + "\n"
	}
	return a.Printf("%s", out)
}

// maxTroubles is the maximum number of failed tasks to print: many fail for the same reason.
const maxTroubles = 3

// troubles describes why the latest attempts of unfinished tasks failed.
func troubles(d *apitypes.JobDetail) (lines []string) {
	last := map[int]apitypes.Attempt{} // latest ended attempt by task
	for _, x := range d.Attempts {
		if x.Outcome != "" && x.Number > last[x.Task].Number {
			last[x.Task] = x
		}
	}
	more := 0
	for i := range d.TaskList {
		t := &d.TaskList[i]
		x := last[t.Index]
		if x.Outcome != apitypes.OutcomeFailed || !retried(t) || d.State.Finished() {
			continue
		}
		if len(lines) == maxTroubles {
			more++
			continue
		}
		lines = append(lines,
			fmt.Sprintf("%s: attempt %d failed: %s", text.Clean(t.Name), x.Number, text.Gist(x.FailureText())))
	}
	if more > 0 {
		lines = append(lines, fmt.Sprintf("the latest attempts of %s more failed, too", text.Count(more, "task")))
	}
	return lines
}

// retried reports whether a task is being retried or will be.
func retried(t *apitypes.TaskView) bool {
	switch record.TaskState(t.State) {
	case record.TaskQueued, record.TaskAdmitted, record.TaskLaunching:
		return true
	case record.TaskRunning:
		return !t.Ready
	}
	return false
}

// servicesText describes how many replicas of each service are ready, and the state of an update.
func servicesText(d *apitypes.JobDetail) string {
	var parts []string
	for _, s := range d.Services {
		part := fmt.Sprintf("%s: %d of %d ready", text.Clean(s.Name), s.Ready, s.Replicas)
		if u := d.Update; u.Open() && u.Failed == "" {
			part += fmt.Sprintf(", %d of version %d", s.Current, u.Spec)
		}
		parts = append(parts, part)
	}
	if d.Update.Failed != "" {
		parts = append(parts, "the last update was stopped: "+text.Clean(d.Update.Failed))
	}
	return strings.Join(parts, "; ")
}

// wide is the line width if there is no terminal.
const wide = 1 << 12

// latest returns the time of the last event of a job, by the broker's clock.
func latest(d *apitypes.JobDetail) time.Time {
	at := d.Submitted
	note := func(t time.Time) {
		if t.After(at) {
			at = t
		}
	}
	note(d.Finished)
	for _, x := range d.Attempts {
		for _, t := range []time.Time{x.Launched, x.Started, x.Ended} {
			note(t)
		}
	}
	for _, p := range d.Plans {
		note(p.At)
	}
	return at
}

// listJobs lists the jobs.
func (a *app) listJobs(ctx context.Context, s *conn, which *filter, output *command.Choice) error {
	list, err := which.list(ctx, s)
	if err != nil {
		return err
	}
	for i := range list.Jobs {
		s.markStopped(&list.Jobs[i])
	}
	switch {
	case output.JSON():
		return a.PrintJSON(list)
	case output.Value == "name":
		return a.PrintLines(idsOf(list.Jobs))
	case len(list.Jobs) == 0 && which.some():
		a.Tell("no job matches")
		return nil
	case len(list.Jobs) == 0:
		a.Tell("there are no jobs yet in %s; `tradewind run FILE` runs one", s.state)
		return nil
	}
	if slices.ContainsFunc(list.Jobs, func(j apitypes.JobView) bool { return j.NoBroker }) {
		a.tellNoBroker(s)
	}
	a.tellSimulated(list.Jobs)
	t := jobTable(list)
	if output.Value == "wide" {
		return a.PrintLines(t.Lines(0, a.Style(a.Out)))
	}
	return a.PrintTable(t)
}

// idsOf returns the IDs of jobs.
func idsOf(jobs []apitypes.JobView) []string {
	ids := make([]string, len(jobs))
	for i := range jobs {
		ids[i] = jobs[i].ID
	}
	return ids
}

func jobTable(list *apitypes.JobList) *text.Table {
	t := &text.Table{Columns: []text.Column{
		{Name: "JOB"}, {Name: "STATE"}, {Name: "TASKS", Right: true}, {Name: "AGE", Right: true, Optional: 4},
		{Name: "TIME", Right: true, Optional: 1}, {Name: "SPENT", Right: true},
		{Name: "PLANNED", Right: true, Optional: 3}, {Name: "ON DEMAND", Right: true, Optional: 2},
		{Name: "QUEUE", Optional: 6, Flexible: true}, {Name: "NOTE", Optional: 5, Flexible: true},
	}}
	for _, j := range list.Jobs {
		t.Rows = append(t.Rows, jobRow(j, list.Now))
	}
	return t
}

// jobLines renders the list of jobs for a terminal that repeats it.
func (a *app) jobLines(ctx context.Context, s *conn, which *filter) ([]string, error) {
	list, err := which.list(ctx, s)
	if err != nil {
		return nil, err
	}
	if len(list.Jobs) == 0 {
		return []string{"no job matches"}, nil
	}
	return jobTable(list).Lines(command.Width(a.Out), a.Style(a.Out)), nil
}

// markStopped marks an unfinished job as stopped if no broker is running.
func (s *conn) markStopped(j *apitypes.JobView) { j.NoBroker = s.passive && !j.State.Finished() }

// tellNoBroker says that unfinished jobs do not continue.
func (a *app) tellNoBroker(s *conn) {
	a.Tell("no broker is running for %s: unfinished jobs do not continue until `tradewind up%s` starts one", s.state,
		a.stateHint(s.state))
}

// spent renders the cost of a job so far, and marks amounts that were not paid.
func spent(j apitypes.JobView) string {
	return text.Estimate(j.SpentUSD, j.Simulated)
}

// tellSimulated says which of the listed jobs cost nothing.
func (a *app) tellSimulated(jobs []apitypes.JobView) {
	simulated, scale := 0, 1.0
	for _, j := range jobs {
		if !j.Simulated {
			continue
		}
		if simulated++; simulated == 1 {
			scale = j.TimeScale
		} else if scale != j.TimeScale {
			scale = 1 // not one scale for all
		}
	}
	label := ""
	switch simulated {
	case 0:
		return
	case len(jobs):
		label = text.Simulated(scale)
	default:
		label = "SIMULATED, nothing is bought: the jobs whose cost is marked est."
	}
	a.Tell("%s", a.Style(a.Err).Paint(text.Warn, label))
}

func jobRow(j apitypes.JobView, now time.Time) []text.Cell {
	until := j.Finished
	if until.IsZero() {
		until = now
	}
	note := j.Reason
	switch {
	case note != "":
	case j.Late:
		note = "late"
	case !j.Deadline.IsZero() && !j.State.Finished():
		note = "deadline in " + text.Span(j.Deadline.Sub(now))
	}
	return []text.Cell{
		{Text: j.ID}, {Text: j.StateText(), Tone: progress.JobTone(&j)},
		{Text: fmt.Sprintf("%d/%d", j.Succeeded, j.Tasks)},
		{Text: text.Span(max(now.Sub(j.Submitted), 0))}, {Text: text.Span(max(until.Sub(j.Submitted), 0))},
		{Text: spent(j)}, {Text: text.USD(j.PlannedUSD)}, {Text: text.USD(j.OnDemandUSD)},
		{Text: j.Queue}, {Text: text.Gist(note)},
	}
}
