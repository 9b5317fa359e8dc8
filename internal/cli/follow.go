package cli

import (
	"context"
	"time"

	"github.com/tradewind-broker/tradewind/internal/cli/progress"
	"github.com/tradewind-broker/tradewind/pkg/api"
)

// follower shows the updates of a job.
type follower interface {
	Update(u api.JobUpdate, wall time.Time)
	Note(note string)
	Close()
	Job() *progress.Job // after Close
}

// newFollower shows a job on standard error: painted where that is a terminal, else as lines. Logs would tear a painted
// view, so --verbose gives lines as well.
func (a *app) newFollower(scale float64, hint string) follower {
	out := a.paintable()
	style := a.style(a.Err)
	if out == nil || a.verbose {
		return progress.NewLines(a.Err, scale, style)
	}
	live := progress.NewLive(progress.LiveOptions{
		Out: out, Scale: scale, Hint: hint, Color: style.Paints(), Glyphs: a.glyphs(), Now: a.Now,
	})
	a.interrupts.onLeave(live.Close)
	return live
}

// follow shows a job until it is over or ctx ends.
func (a *app) follow(ctx context.Context, s *session, id string, f follower) error {
	for u, err := range s.Follow(ctx, id) {
		if err != nil {
			return err
		}
		f.Update(u, a.Now())
	}
	return nil
}
