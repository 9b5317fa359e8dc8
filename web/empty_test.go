package web_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/internal/api/apitest"
	"github.com/tradewind-broker/tradewind/internal/cli"
	"github.com/tradewind-broker/tradewind/internal/cli/command"
	"github.com/tradewind-broker/tradewind/internal/host"
)

// only is the broker of a World, which is the only one that commands find.
type only struct{ w *apitest.World }

func (o only) Find(string) (host.Running, bool, error) {
	return host.Running{URL: o.w.Server.URL, Token: apitest.Token, TimeScale: 1}, true, nil
}

func (only) Open(context.Context, host.Options) (cli.Server, error) {
	return nil, errors.New("there is another broker")
}

// The commands that empty pages show work as they are printed.
func TestCommandsOfEmptyPagesWork(t *testing.T) {
	w := deployed(t)
	run := func(line string) int {
		words := strings.Fields(line)
		if words[0] != "tradewind" {
			t.Fatalf("%q is no command of tradewind", line)
		}
		var out strings.Builder
		env := &cli.Env{Brokers: only{w}, Env: command.Env{In: strings.NewReader(""), Out: io.Discard, Err: &out, Now: time.Now,
			Environ: []string{"TRADEWIND_STATE=" + t.TempDir()}}}
		code := cli.Run(t.Context(), env, words[1:])
		t.Logf("%s: exit %d\n%s", line, code, out.String())
		return code
	}
	b := open(t, w).visit("#/capacity").counted(`.code code`, 2)
	for _, line := range eval[[]string](b, `[...document.querySelectorAll('.code code')].map((c) => c.textContent)`) {
		if code := run(line); code != command.ExitDone {
			t.Errorf("%s: exit %d", line, code)
		}
	}
	w.Drain()
	b.anew("#/capacity").says("research").says("lab")

	line := eval[string](b.anew("#/").counted(`.code code`, 1), `document.querySelector('.code code').textContent`)
	done := make(chan int)
	go func() { done <- run(line) }()
	b.seen(`[data-job]`)
	job := eval[string](b, `document.querySelector('[data-job]').dataset.job`)
	w.Drain()
	w.Node(job, "main", 0).Start().Succeed()
	if code := <-done; code != command.ExitDone {
		t.Errorf("%s: exit %d", line, code)
	}
}
