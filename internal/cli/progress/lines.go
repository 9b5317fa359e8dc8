package progress

import (
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/tradewind-broker/tradewind/internal/cli/text"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
)

// Limits of Lines for large jobs: these get a regular summary instead of a line for each change.
const (
	largeJob        = 200 // tasks
	summaryEvery    = 2 * time.Second
	maxNotableLines = 100 // maximum lines about single tasks of a large job
)

// Lines prints the events of a job, one per line, for logs and for terminals without cursor control. It never repaints.
type Lines struct {
	mu      sync.Mutex
	job     *Job
	out     io.Writer
	style   text.Style
	summed  time.Time
	last    string
	notable int
}

// NewLines returns a Lines that writes to out.
func NewLines(out io.Writer, scale float64, style text.Style) *Lines {
	return &Lines{job: NewJob(scale), out: out, style: style}
}

// Job returns the known state of the job.
func (l *Lines) Job() *Job { return l.job }

// Update prints the events of an update.
func (l *Lines) Update(u apitypes.JobUpdate, wall time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	first := !l.job.Known()
	news := l.job.Apply(u, wall)
	if first && l.job.Simulated {
		_, _ = fmt.Fprintln(l.out, l.style.Paint(text.Warn, text.Simulated(l.job.TimeScale)))
	}
	large := len(l.job.Tasks) > largeJob
	for _, h := range news {
		if large && h.Task != "" && !l.admit(h) {
			continue
		}
		_, _ = fmt.Fprintln(l.out, Line(h, l.job.Submitted, 0, l.style)) // a failed write does not fail the job
	}
	if large && (first || u.Job.State.Finished() || wall.Sub(l.summed) >= summaryEvery) {
		l.summary(wall)
	}
}

// admit reports whether to print a line about one task of a large job: it must be notable, and within the limit.
func (l *Lines) admit(h Event) bool {
	if !h.Notable {
		return false
	}
	l.notable++
	if l.notable == maxNotableLines+1 {
		_, _ = fmt.Fprintf(l.out, "more such lines are omitted; tradewind explain %s shows all\n", l.job.ID)
	}
	return l.notable <= maxNotableLines
}

// summary prints the progress of a large job if it has changed.
func (l *Lines) summary(wall time.Time) {
	l.summed = wall
	j := l.job
	line := fmt.Sprintf("%s of %s finished", text.Thousands(j.Succeeded), text.Count(j.JobView.Tasks, "task"))
	for _, s := range shownStates[1:] {
		if n := j.Counts[s]; n > 0 {
			line += fmt.Sprintf(", %s %s", text.Thousands(n), s)
		}
	}
	line += fmt.Sprintf("; %s so far", text.Amount(j.SpentUSD, j.Simulated))
	if line == l.last {
		return
	}
	l.last = line
	_, _ = fmt.Fprintln(l.out, Line(Event{At: j.Now(wall), Text: line}, j.Submitted, 0, l.style))
}

// Note prints a message of the program itself.
func (l *Lines) Note(note string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, _ = fmt.Fprintln(l.out, note)
}

// Close does nothing: printed lines stay.
func (l *Lines) Close() {}
