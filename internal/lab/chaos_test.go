package lab_test

import (
	"bytes"
	"context"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/internal/cli/command"
	"github.com/tradewind-broker/tradewind/internal/lab"
)

// The run is interrupted after the first worlds of very many. It must print what these showed, and fail.
func TestInterruptedChaosPrintsResults(t *testing.T) {
	ctx, interrupt := context.WithCancel(t.Context())
	var out, errs bytes.Buffer
	calls := 0
	code := lab.Run(ctx, &command.Env{
		In: strings.NewReader(""), Out: &out, Err: &errs, Now: func() time.Time {
			if calls++; calls == 3 { // once at the beginning, and after each world
				interrupt()
			}
			return time.Time{}
		},
	}, []string{"chaos", "--seeds", "0:1000000", "--jobs", "1"})
	if !regexp.MustCompile(`^no violation in \d+ seeds: `).MatchString(out.String()) || code != 130 {
		t.Errorf("exit code %d\n%s%s", code, &out, &errs)
	}
}
