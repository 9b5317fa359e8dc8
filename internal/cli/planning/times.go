package planning

import (
	"fmt"

	"github.com/tradewind-broker/tradewind/internal/cli/text"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
)

// timesFrom returns the source of each task's planned time, or nothing if all times are from the file and for the
// machine that is planned.
func timesFrom(tasks []PlanTask) []string {
	froms, told := make([]string, len(tasks)), false
	for i := range tasks {
		froms[i] = timeFrom(tasks[i].Time)
		f := tasks[i].Time
		told = told || f != nil && (f.From != apitypes.FromFile || f.MeasuredOn != "")
	}
	if !told {
		clear(froms)
	}
	return froms
}

func timeFrom(f *apitypes.Figure) string {
	if f == nil {
		return ""
	}
	runs := text.Count(f.Runs, "run")
	switch f.From {
	case apitypes.FromHistory:
		return runs
	case apitypes.FromLike:
		return runs + " of similar tasks"
	case apitypes.FromScaled:
		return runs + " on another accelerator"
	case apitypes.FromFLOPs:
		return "flops"
	case apitypes.FromNothing:
		return "assumed"
	}
	if f.MeasuredOn != "" {
		return fmt.Sprintf("%s on %s → %s here", text.Span(text.Hours(f.MeasuredHours)), text.Clean(f.MeasuredOn),
			text.Span(text.Hours(f.Hours)))
	}
	return "the file"
}

// surprises compares the times in the file with earlier runs, if nine of ten runs were shorter or longer.
func surprises(tasks []PlanTask) (lines []string) {
	for i := range tasks {
		f := tasks[i].Time
		if f == nil || f.From != apitypes.FromFile || f.Runs < minSurprise ||
			f.Hours >= f.LowHours && f.Hours <= f.HighHours {
			continue
		}
		lines = append(lines, fmt.Sprintf("%s: the file says %s, but most of %d runs took %s to %s",
			text.Clean(tasks[i].Name), text.Span(text.Hours(f.Hours)), f.Runs, text.Span(text.Hours(f.LowHours)),
			text.Span(text.Hours(f.HighHours))))
		if len(lines) == mostSurprises {
			break
		}
	}
	return lines
}

// A few runs prove little, and users do not read many lines.
const minSurprise, mostSurprises = 3, 5
