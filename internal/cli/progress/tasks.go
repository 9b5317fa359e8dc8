package progress

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/internal/cli/text"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
)

// tasks returns the table of tasks in at most room lines: all tasks or, if they are too many, the number of tasks in
// each state and the active ones. A negative room means no limit.
func (v *View) tasks(now time.Time, width, room int) []string {
	j := v.Job
	switch {
	case room < 0 || v.rows()+1 <= room:
		return v.table(j.Tasks, v.arrays(), now, width)
	case room == 0:
		return nil
	}
	lines := []string{v.counts(width)}
	active := v.active()
	most := room - 3 // minus the counts, the header, and the line for the rest
	if len(active) == 0 || most < 1 {
		return lines
	}
	lines = append(lines, v.table(active[:min(most, len(active))], nil, now, width)...)
	if more := len(active) - most; more > 0 {
		lines = append(lines, v.Style.Paint(text.Faint, fmt.Sprintf("%s and %d more active", v.Glyphs.more, more)))
	}
	return lines
}

// The states in the order in which a task passes them.
var shownStates = []string{
	string(record.TaskSucceeded), string(record.TaskFailed), stateCancelled, string(record.TaskRunning),
	string(record.TaskLaunching), string(record.TaskAdmitted), string(record.TaskQueued), stateWaiting,
}

// counts renders the number of tasks in each state.
func (v *View) counts(width int) string {
	var parts []string
	for _, s := range shownStates {
		if n := v.Job.Counts[s]; n > 0 {
			glyph, tone := v.Glyphs.state(s, v.Frame)
			parts = append(parts, v.Style.Paint(tone, glyph)+" "+text.Thousands(n)+" "+s)
		}
	}
	if len(parts) == 0 {
		return ""
	}
	return v.joined(parts, width)
}

// active returns the tasks worth showing: failed ones first, then those that have or get machines, the longest-running
// first.
func (v *View) active() []apitypes.TaskView {
	rank := map[string]int{
		string(record.TaskFailed): 0, string(record.TaskRunning): 1, string(record.TaskLaunching): 2,
		string(record.TaskAdmitted): 3,
	}
	var active []apitypes.TaskView
	for i := range v.Job.Tasks {
		if _, ok := rank[v.Job.Tasks[i].State]; ok {
			active = append(active, v.Job.Tasks[i])
		}
	}
	slices.SortStableFunc(active, func(a, b apitypes.TaskView) int {
		return cmp.Or(cmp.Compare(rank[a.State], rank[b.State]), a.Started.Compare(b.Started))
	})
	return active
}

// table returns a table with one row per task, or per array: arrays are ranges of the tasks.
func (v *View) table(tasks []apitypes.TaskView, arrays [][2]int, now time.Time, width int) []string {
	t := text.Table{Columns: []text.Column{
		{},
		{Name: "TASK", Flexible: true},
		{Name: "STATE"},
		{Name: "ADDRESS", Optional: 5},
		{Name: "WHERE", Flexible: true, MinWidth: 20, Optional: 1, Fit: text.Place},
		{Name: "TIME/EXPECTED", Right: true, Optional: 3},
		{Name: "ATTEMPTS", Optional: 4},
		{Name: "USD", Right: true, Optional: 2},
	}}
	for i := 0; i < len(tasks); i++ {
		if len(arrays) > 0 && arrays[0][0] == i {
			t.Rows = append(t.Rows, v.arrayRow(tasks[i:arrays[0][1]]))
			i, arrays = arrays[0][1]-1, arrays[1:]
			continue
		}
		t.Rows = append(t.Rows, v.row(&tasks[i], now))
	}
	return t.Lines(width, v.Style)
}

// arrays returns the ranges of the tasks that are shown as one row.
func (v *View) arrays() [][2]int {
	if v.Members {
		return nil
	}
	names := make([]string, len(v.Job.Tasks))
	for i := range names {
		names[i] = v.Job.Tasks[i].Name
	}
	return text.MemberRuns(names)
}

// rows returns the number of rows of the table of all tasks.
func (v *View) rows() int {
	n := len(v.Job.Tasks)
	for _, a := range v.arrays() {
		n -= a[1] - a[0] - 1
	}
	return n
}

// arrayRow renders the members of an array.
func (v *View) arrayRow(members []apitypes.TaskView) []text.Cell {
	names, states, usd, attempts := make([]string, len(members)), make([]string, len(members)), 0.0, 0
	worst := slices.Index(shownStates, members[0].State)
	for i := range members {
		t := &members[i]
		names[i], states[i] = t.Name, t.State
		usd += t.USD
		attempts += max(t.Attempts-1, 0)
		if t.State == string(record.TaskFailed) {
			worst = slices.Index(shownStates, t.State)
		} else if worst >= 0 && shownStates[worst] != string(record.TaskFailed) {
			worst = max(worst, slices.Index(shownStates, t.State))
		}
	}
	glyph, tone := v.Glyphs.state(shownStates[max(worst, 0)], v.Frame)
	money, again := "", ""
	if usd > 0 {
		money = text.USD(usd)
	}
	if attempts > 0 {
		again = text.Thousands(attempts) + " retried"
	}
	return []text.Cell{
		{Text: glyph, Tone: tone}, {Text: text.Array(names)}, {Text: text.Tally(states), Tone: tone}, {},
		{Text: text.Same(len(members), "place", func(i int) string { return placeOf(&members[i]) })}, {},
		{Text: again}, {Text: money},
	}
}

func (v *View) row(t *apitypes.TaskView, now time.Time) []text.Cell {
	glyph, tone := v.Glyphs.state(t.State, v.Frame)
	where := text.Cell{Text: placeOf(t)}
	if t.State == stateWaiting || t.State == string(record.TaskQueued) {
		where.Tone = text.Faint // only planned
	}
	money := ""
	if t.USD > 0 {
		money = text.USD(t.USD)
	}
	return []text.Cell{
		{Text: glyph, Tone: tone}, {Text: text.Clean(t.Name)}, {Text: v.state(t, now), Tone: tone},
		{Text: text.Clean(t.Address)}, where,
		{Text: times(t, now)}, {Text: v.attempts(t)}, {Text: money},
	}
}

func placeOf(t *apitypes.TaskView) string {
	s := text.Clean(t.Offer)
	if t.Nodes > 1 && s != "" {
		s += fmt.Sprintf(" × %d", t.Nodes)
	}
	return s
}

func (v *View) state(t *apitypes.TaskView, now time.Time) string {
	switch {
	case now.Before(t.KeptUntil):
		return fmt.Sprintf("%s, kept %s", t.State, text.Span(t.KeptUntil.Sub(now)))
	case t.Ready:
		return "ready"
	case t.Service != "" && t.Unready != "":
		return "not ready any more"
	case t.Service != "" && t.State == string(record.TaskRunning):
		return "not ready yet"
	case t.State == string(record.TaskRunning):
		return fmt.Sprintf("%s %.0f%%", t.State, 100*taskShare(t, now))
	case t.State == string(record.TaskFailed), t.State == string(record.TaskSucceeded), t.State == stateCancelled:
		return t.State
	case t.Progress > 0:
		return fmt.Sprintf("%s, %.0f%% saved", t.State, 100*t.Progress)
	case t.State == stateWaiting && len(t.After) > 0:
		return "waiting for " + v.parents(t)
	default:
		return t.State
	}
}

// parents names the tasks that a task waits for, if the list is short.
func (v *View) parents(t *apitypes.TaskView) string {
	const longest = 20
	var names []string
	for _, p := range t.After {
		if p >= 0 && p < len(v.Job.Tasks) && v.Job.Tasks[p].State != string(record.TaskSucceeded) {
			names = append(names, text.Clean(v.Job.Tasks[p].Name))
		}
	}
	if s := strings.Join(names, ", "); len(names) > 0 && text.Width(s) <= longest {
		return s
	}
	return text.Count(max(len(names), 1), "task")
}

// times renders how long a task has run, and how long it was expected to.
func times(t *apitypes.TaskView, now time.Time) string {
	switch {
	case t.Started.IsZero():
		if t.Hours > 0 && t.Service == "" {
			return "~" + text.Span(span(t.Hours))
		}
		return ""
	case !t.Ended.IsZero():
		return text.Span(t.Ended.Sub(t.Started))
	case t.State == string(record.TaskRunning):
		s := text.Span(max(now.Sub(t.Started), 0).Truncate(time.Second))
		if t.Hours > 0 && t.Service == "" {
			s += "/" + text.Span(span(t.Hours))
		}
		return s
	default:
		return ""
	}
}

func (v *View) attempts(t *apitypes.TaskView) string {
	switch moves := v.Job.moves[t.Index]; {
	case t.Attempts <= 1:
		return ""
	case moves > 0:
		return fmt.Sprintf("%d, %s", t.Attempts, text.Count(moves, "move"))
	default:
		return fmt.Sprint(t.Attempts)
	}
}
