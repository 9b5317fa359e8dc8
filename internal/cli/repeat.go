package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/charmbracelet/x/ansi"

	"github.com/tradewind-broker/tradewind/internal/base/clock"
	"github.com/tradewind-broker/tradewind/internal/cli/command"
)

// repeatEvery is how often a list on a terminal is refreshed.
const repeatEvery = 2 * time.Second

// repeat prints lines and, on a terminal, replaces them by new ones until the command is interrupted.
func (a *app) repeat(ctx context.Context, render func() ([]string, error)) error {
	live := command.Terminal(a.Out) != nil
	for {
		lines, err := render()
		switch {
		case live && errors.Is(err, context.Canceled):
			return nil
		case err != nil:
			return err
		case !live:
			return a.PrintLines(lines)
		}
		foot := a.Now().Format(time.TimeOnly) + ", every " + fmt.Sprint(repeatEvery) + "; Ctrl-C ends"
		if err := a.Printf("%s%s\n\n%s\n", ansi.CursorHomePosition+ansi.EraseScreenBelow, strings.Join(lines, "\n"),
			foot); err != nil {
			return err
		}
		if clock.Pause(ctx, repeatEvery) != nil {
			return nil // interrupted, as told
		}
	}
}
