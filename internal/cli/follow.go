package cli

import (
	"context"
	"os"
	"strings"
	"time"

	"github.com/tradewind-broker/tradewind/internal/cli/command"
	"github.com/tradewind-broker/tradewind/internal/cli/progress"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
)

// follower shows the updates of a job.
type follower interface {
	Update(u apitypes.JobUpdate, wall time.Time)
	Note(note string)
	Close()
	Job() *progress.Job // after Close
}

// newFollower shows a job on standard error: as a live view on a terminal, otherwise as lines. Log lines would break a
// live view, so --verbose also selects lines.
func (a *app) newFollower(scale float64, hint string) follower {
	out := a.paintable()
	style := a.Style(a.Err)
	if out == nil || a.Verbose {
		return progress.NewLines(a.Err, scale, style)
	}
	live := progress.NewLive(progress.LiveOptions{
		Out: out, Scale: scale, Hint: hint, Color: style.Paints(), Glyphs: a.glyphs(), Now: a.Now,
	})
	a.Stop.OnLeave(live.Close)
	return live
}

// follow shows a job until it has finished or ctx ends.
func (a *app) follow(ctx context.Context, s *conn, id string, f follower) error {
	if s.ended != nil {
		bound, cancel := context.WithCancel(ctx)
		defer cancel()
		go func() {
			select {
			case <-s.ended: // no more updates come
				cancel()
			case <-bound.Done():
			}
		}()
		ctx = bound
	}
	for u, err := range s.Follow(ctx, id) {
		select {
		case <-s.ended:
			return s.endedBy()
		default:
		}
		if err != nil {
			return err
		}
		f.Update(u, a.Now())
	}
	return nil
}

// paintable returns the terminal for a live view, or nil.
func (a *app) paintable() *os.File {
	out := command.Terminal(a.Err)
	if kind := a.Lookup("TERM"); out == nil || kind == "dumb" || kind == "" {
		return nil
	}
	return out
}

// glyphs returns the symbols that the locale supports. If no locale is set, which is common in containers, it assumes
// that the terminal shows Unicode.
func (a *app) glyphs() progress.Glyphs {
	for _, name := range []string{"LC_ALL", "LC_CTYPE", "LANG"} {
		locale := strings.ToUpper(a.Lookup(name))
		if locale == "" {
			continue
		}
		if strings.Contains(locale, "UTF-8") || strings.Contains(locale, "UTF8") {
			break
		}
		return progress.ASCII()
	}
	if a.Lookup("TERM") == "linux" {
		return progress.ASCII() // the console's font lacks most symbols
	}
	return progress.Unicode()
}
