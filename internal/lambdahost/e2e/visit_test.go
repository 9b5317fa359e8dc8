package e2e_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/tradewind-broker/tradewind/internal/cli"
	"github.com/tradewind-broker/tradewind/internal/cli/command"
	"github.com/tradewind-broker/tradewind/internal/tunnel/tunneltest"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
)

// TestVisitRunsCommandNextToTask visits a machine whose agent calls every second. Each call may reach another instance
// of the function, and the instances share only the table.
func TestVisitRunsCommandNextToTask(t *testing.T) {
	if testing.Short() {
		t.Skip("starts emulators")
	}
	w := deployWith(t, nil, []string{"TRADEWIND_AGENTS_CALL=1s"})
	ctx, cancel := context.WithTimeout(t.Context(), hangs)
	defer cancel()
	defer w.agents.Wait()
	defer cancel()
	w.offerProgram(ctx)
	dir := t.TempDir()
	file := filepath.Join(dir, "visited.yaml")
	err := os.WriteFile(file, []byte("apiVersion: tradewind/v1\nname: visited\ntasks:\n"+
		"  t: {run: 'echo begun >here; until [ -e go ]; do sleep 0.2; done', resources: {cpus: 1}, time: 10m}\n"), 0o600)
	if err != nil {
		t.Fatal(err)
	}
	run := func(in io.Reader, args ...string) (string, string, int) {
		var out, errs strings.Builder
		code := cli.Run(ctx, &cli.Env{Env: command.Env{
			In: in, Out: &out, Err: &errs, Now: time.Now, Exit: os.Exit,
			Environ: append(os.Environ(), "TRADEWIND_SIGN_REGION=us-east-1"),
		}}, slices.Insert(slices.Clone(args), 1, "--endpoint", w.api.URL))
		return out.String(), errs.String(), code
	}
	if _, errs, code := run(strings.NewReader(""), "submit", file); code != 0 {
		t.Fatalf("exit %d\n%s", code, errs)
	}
	over, visited := make(chan apitypes.JobDetail, 1), make(chan struct{})
	go func() { // the user, while this test simulates Lambda
		defer close(visited)
		for ctx.Err() == nil {
			if _, errs, _ := run(strings.NewReader(""), "exec", "last", "t", "--", "true"); errs == "" ||
				strings.Contains(errs, "hears of this within") {
				break
			}
		}
		large := strings.Repeat("over and out\n", 20_000)
		out, errs, code := run(strings.NewReader(large), "exec", "last", "t", "--", "sh", "-c", "cat here -; exit 3")
		if out != "begun\n"+large || code != 3 {
			t.Errorf("exit %d, %d bytes back, %s", code, len(out), errs)
		}
		if want := os.Getenv("TRADEWIND_BENCH_ECHO"); want != "" { // bench/shell asks
			measureEcho(t, want, func(in io.Reader, out io.Writer) {
				cli.Run(ctx, &cli.Env{Env: command.Env{
					In: in, Out: out, Err: io.Discard, Now: time.Now, Exit: os.Exit,
					Environ: append(os.Environ(), "TRADEWIND_SIGN_REGION=us-east-1"),
				}}, []string{"exec", "--endpoint", w.api.URL, "last", "t", "--", "cat"})
			})
		}
		folder, errs, code := run(strings.NewReader(""), "exec", "last", "t", "--", "pwd")
		if code != 0 {
			t.Errorf("exit %d %s", code, errs)
			return // the task runs until the test ends
		}
		if err := os.WriteFile(filepath.Join(strings.TrimSpace(folder), "go"), nil, 0o600); err != nil {
			t.Error(err)
		}
	}()
	over <- w.untilOver(ctx, func(i types.Instance) { w.boot(ctx, i) })
	<-visited
	if job := <-over; job.State != apitypes.JobSucceeded {
		t.Errorf("%+v\n%s", job, w.log.String())
	}
	story, errs, code := run(strings.NewReader(""), "explain", "last")
	if code != 0 || strings.Count(story, "sh -c cat here -; exit 3") != 1 {
		t.Errorf("the story: exit %d\n%s%s", code, story, errs)
	}
}

// measureEcho writes to a file the time of each of N bytes to a program that sends them back: N:FILE.
func measureEcho(t *testing.T, want string, process func(in io.Reader, out io.Writer)) {
	number, file, _ := strings.Cut(want, ":")
	n, err := strconv.Atoi(number)
	if err != nil {
		t.Error(err)
		return
	}
	in, to := io.Pipe()
	from, out := io.Pipe()
	done := make(chan struct{})
	go func() {
		defer close(done)
		process(in, out)
	}()
	took, err := tunneltest.MeasureEcho(to, from, n)
	_ = to.Close()
	<-done
	raw, jerr := json.Marshal(took)
	if err := errors.Join(err, jerr, os.WriteFile(file, raw, 0o600)); err != nil {
		t.Error(err)
	}
}
