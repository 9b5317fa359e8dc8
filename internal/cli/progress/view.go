package progress

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/internal/cli/text"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
)

// View paints a job at one moment.
type View struct {
	Job    *Job
	Recent []Event // notable events, the latest last
	Missed int     // number of notable events before Recent
	Note   string  // message of the program itself, such as that it is cancelling
	Hint   string  // what keys do
	// Members shows each member of an array in a row, instead of one row for the array.
	Members bool
	Frame   int // of the animation
	Style   text.Style
	Glyphs  Glyphs
}

// Minimum height and width of a view. A smaller terminal cuts it.
const (
	leastWidth  = 20
	leastHeight = 6
	recentMost  = 6
)

// Render paints the view at a wall time, in at most width cells and height lines. A height of 0 means no limit.
func (v *View) Render(wall time.Time, width, height int) string {
	width = max(width, leastWidth)
	if !v.Job.Known() {
		return v.Glyphs.spin(v.Frame) + " waiting for the broker"
	}
	now := v.Job.Now(wall)
	head := v.header(now, width)
	room, below := -1, -1
	if height > 0 {
		room = max(height, leastHeight) - len(head) - 1 // the line below, for the cursor
		below = max(room-min(v.rows()+1, 4), 0)
	}
	tail := v.footer(width, below)
	if room >= 0 {
		room = max(room-len(tail), 0)
	}
	lines := slices.Concat(head, v.tasks(now, width, room), tail)
	for i := range lines {
		lines[i] = text.Cut(lines[i], width)
	}
	if height > 0 && len(lines) > max(height-1, 1) {
		lines = lines[:max(height-1, 1)]
	}
	return strings.Join(lines, "\n")
}

// header returns the lines about the job as a whole.
func (v *View) header(now time.Time, width int) []string {
	j := v.Job
	title := v.Style.Paint(text.Strong, j.ID) + "  " + v.Style.Paint(JobTone(&j.JobView), j.StateText())
	if j.Reason != "" {
		title += v.Style.Paint(text.Faint, ": "+text.Gist(j.Reason))
	}
	lines := []string{title}
	if j.Simulated {
		lines = append(lines, v.Style.Paint(text.Warn, text.Simulated(j.TimeScale)))
	}
	return append(lines, v.bar(now, width), v.money(width), v.clock(now, width), "")
}

// JobTone is how the state of a job is shown.
func JobTone(j *apitypes.JobView) text.Tone {
	switch {
	case j.State == apitypes.JobSucceeded:
		return text.Good
	case j.State == apitypes.JobFailed:
		return text.Bad
	case j.NoBroker, j.State == apitypes.JobWaiting, j.State == apitypes.JobEnding, j.State == apitypes.JobCancelled:
		return text.Warn
	}
	return text.Active
}

// bar renders the progress bar with its numbers.
func (v *View) bar(now time.Time, width int) string {
	const longest = 48
	share := v.Job.Share(now)
	done := max(v.Job.Succeeded, v.Job.Counts[string(record.TaskSucceeded)])
	label := fmt.Sprintf("  %d/%d tasks  %2.0f%%", done, v.Job.JobView.Tasks, 100*share)
	if v.onlyServices() { // services never finish
		ready := 0
		for i := range v.Job.Tasks {
			if v.Job.Tasks[i].Ready {
				ready++
			}
		}
		share = float64(ready) / float64(len(v.Job.Tasks))
		label = fmt.Sprintf("  %d/%d ready", ready, len(v.Job.Tasks))
	}
	length := min(longest, width-text.Width(label))
	if length < 4 {
		return strings.TrimSpace(label)
	}
	full, empty := v.Glyphs.bar(share, length)
	return v.Style.Paint(jobBarTone(&v.Job.JobView), full) + v.Style.Paint(text.Faint, empty) + label
}

// onlyServices reports whether all of the job's tasks are replicas of services.
func (v *View) onlyServices() bool {
	return len(v.Job.Tasks) > 0 && len(v.Job.Tasks) == v.Job.JobView.Tasks &&
		!slices.ContainsFunc(v.Job.Tasks, func(t apitypes.TaskView) bool { return t.Service == "" })
}

func jobBarTone(j *apitypes.JobView) text.Tone {
	if j.State.Finished() {
		return JobTone(j)
	}
	return text.Good
}

// money renders the amount spent, compared to the plan and to on-demand.
func (v *View) money(width int) string {
	j := v.Job
	parts := []string{v.Style.Paint(text.Strong, text.Amount(j.SpentUSD, j.Simulated)) + " spent"}
	if j.Plan > 0 {
		parts = append(parts, "plan "+text.USD(j.PlannedUSD), "on demand "+text.USD(j.OnDemandUSD))
	}
	saved := text.Saved(j.SpentUSD, j.OnDemandUSD)
	if j.State == apitypes.JobSucceeded && saved != "" && text.AsPlanned(j.SpentUSD, j.PlannedUSD) {
		parts[len(parts)-1] += ": " + v.Style.Paint(text.Good, saved)
	}
	if j.BudgetUSD > 0 {
		budget := "budget " + text.USD(j.BudgetUSD)
		if j.SpentUSD > j.BudgetUSD {
			budget = v.Style.Paint(text.Bad, budget)
		}
		parts = append(parts, budget)
	}
	return v.joined(parts, width)
}

// clock renders the elapsed and expected time, and the time until the deadline.
func (v *View) clock(now time.Time, width int) string {
	j := v.Job
	so := text.Span(now.Sub(j.Submitted).Truncate(time.Second))
	if end := j.End(); end.After(now) && !j.State.Finished() && !v.onlyServices() {
		so += " of " + text.Span(end.Sub(j.Submitted)) + " expected"
	}
	if j.Compressed() {
		so += " virtual"
	}
	parts := []string{so}
	if !j.Deadline.IsZero() && (!j.State.Finished() || j.State == apitypes.JobSucceeded) {
		parts = append(parts, v.deadline(now))
	}
	if n, moves := j.Attempts(); moves > 0 {
		parts = append(parts, fmt.Sprintf("%s, %s", text.Count(n, "attempt"), text.Count(moves, "move")))
	}
	return v.joined(parts, width)
}

func (v *View) deadline(now time.Time) string {
	left := v.Job.Deadline.Sub(now)
	switch {
	case left < 0:
		return v.Style.Paint(text.Bad, "deadline missed by "+text.Span(-left))
	case v.Job.State.Finished():
		return v.Style.Paint(text.Good, "in time, "+text.Span(left)+" early")
	case v.Job.Late:
		return v.Style.Paint(text.Bad, text.Span(left)+" to a deadline that cannot be met")
	default:
		return "deadline in " + text.Span(left)
	}
}

// joined joins parts on a line and omits the last ones if there is no room.
func (v *View) joined(parts []string, width int) string {
	sep := v.Style.Paint(text.Faint, " "+v.Glyphs.dot+" ")
	line := parts[0]
	for _, p := range parts[1:] {
		if text.Width(line)+text.Width(sep)+text.Width(p) > width {
			break
		}
		line += sep + p
	}
	return line
}

// footer returns recent events and the message of the program, in at most `most` lines; below 0 means no limit.
func (v *View) footer(width, most int) []string {
	var say []string
	switch {
	case most >= 0 && most < 2:
	case v.Note != "":
		say = []string{"", v.Style.Paint(text.Warn, v.Note)}
	case v.Hint != "" && !v.Job.State.Finished():
		say = []string{"", v.Style.Paint(text.Faint, v.Hint)}
	}
	count := min(len(v.Recent), recentMost)
	if most >= 0 {
		count = min(count, most-len(say)-2) // minus an empty line and the line about omitted events
	}
	if count <= 0 {
		return say
	}
	lines := []string{""}
	if missed := v.Missed + len(v.Recent) - count; missed > 0 {
		lines = append(lines,
			v.Style.Paint(text.Faint,
				fmt.Sprintf("%s before; tradewind explain %s shows all", text.Count(missed, "event"), v.Job.ID)))
	}
	for _, h := range v.Recent[len(v.Recent)-count:] {
		lines = append(lines, Line(h, v.Job.Submitted, width, v.Style))
	}
	return append(lines, say...)
}

// Line renders an event on one line, in at most width cells; 0 means no limit. If there is little room, it first
// shortens the offer, then cuts the end.
func Line(h Event, since time.Time, width int, style text.Style) string {
	at := text.Clock(h.At.Sub(since))
	what := h.Text
	if h.Task != "" {
		what = text.Clean(h.Task) + ": " + what
	}
	room := width - text.Width(at) - 2
	if h.Offer != "" {
		offer := h.Offer
		if over := text.Width(what) + 1 + text.Width(offer) + text.Width(h.Rest) - room; width > 0 && over > 0 {
			offer = text.Place(offer, max(text.Width(offer)-over, shortOffer))
		}
		what += " " + offer + h.Rest
	}
	if width > 0 {
		what = text.Cut(what, room)
	}
	return style.Paint(text.Faint, at) + "  " + style.Paint(h.Tone, what)
}

// shortOffer is the minimum length, in cells, to which an offer's name is shortened for the text after it.
const shortOffer = 24
