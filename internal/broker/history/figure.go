package history

import (
	"cmp"
	"math"

	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/internal/catalog/hardware"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/dag"
)

// A time counts as scaled if it differs from the measured time by more than one part in scaledBy.
const scaledBy = 1000

// FigureOf returns the run time that a task is planned with on an offer, and where that comes from.
func FigureOf(t *dag.Task, o apitypes.Offer) apitypes.Figure {
	f := apitypes.Figure{
		Hours: record.TimeOn(t, o).Hours(),
		From:  apitypes.FromFile,
	}
	switch {
	case t.Time.Unknown():
		f.From = apitypes.FromNothing
	case t.Time.ByRating(o.InstanceType, o.Accelerator, o.AccelCount):
		f.From = apitypes.FromFLOPs
	}
	if f.From == apitypes.FromFile && t.Time.Default > 0 && o.Accelerator == "" {
		measured := cmp.Or(t.Reference, hardware.Reference)
		if at := t.Time.Default.Hours(); measured != o.InstanceType && math.Abs(f.Hours-at) > at/scaledBy {
			f.MeasuredOn, f.MeasuredHours = measured, at
		}
	}
	if t.Learned == nil {
		return f
	}
	s, there := t.Learned.On[Machine(o.InstanceType, o.Accelerator, o.AccelCount)]
	if !there {
		s = t.Learned.On[""]
	}
	scale := (&dag.TimeEstimate{Serial: t.Learned.Serial}).Scale(cmp.Or(o.Nodes, t.Nodes))
	f.Runs, f.LearnedHours, f.LowHours, f.HighHours = s.Runs, s.Hours*scale, s.Low*scale, s.High*scale
	switch {
	case !t.Learned.Used:
	case s.Scaled:
		f.From = apitypes.FromScaled
	case t.Learned.Like:
		f.From = apitypes.FromLike
	default:
		f.From = apitypes.FromHistory
	}
	return f
}
