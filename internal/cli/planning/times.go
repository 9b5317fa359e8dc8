package planning

import (
	"fmt"

	"github.com/tradewind-broker/tradewind/internal/cli/text"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
)

// timesFrom says of each task where the time is from that it is planned with; nothing where the file says it of all.
func timesFrom(tasks []PlanTask) []string {
	froms, told := make([]string, len(tasks)), false
	for i := range tasks {
		froms[i] = timeFrom(tasks[i].Time)
		told = told || tasks[i].Time != nil && tasks[i].Time.From != apitypes.FromFile
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
		return runs + " of tasks like it"
	case apitypes.FromScaled:
		return runs + " on another accelerator"
	case apitypes.FromNothing:
		return "assumed"
	}
	return "the file"
}

// surprises are what earlier runs say of times that files state, where nine of ten runs were shorter, or longer.
func surprises(tasks []PlanTask) (lines []string) {
	for i := range tasks {
		f := tasks[i].Time
		if f == nil || f.From != apitypes.FromFile || f.Runs < minSurprise ||
			f.Hours >= f.LowHours && f.Hours <= f.HighHours {
			continue
		}
		lines = append(lines, fmt.Sprintf("%s: the file says %s, and most of %d runs took %s to %s",
			text.Clean(tasks[i].Name), text.Span(text.Hours(f.Hours)), f.Runs, text.Span(text.Hours(f.LowHours)),
			text.Span(text.Hours(f.HighHours))))
		if len(lines) == mostSurprises {
			break
		}
	}
	return lines
}

// A few runs say little, and many lines are not read.
const minSurprise, mostSurprises = 3, 5
