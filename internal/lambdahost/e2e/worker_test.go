package e2e_test

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/tradewind-broker/tradewind/internal/cli"
	"github.com/tradewind-broker/tradewind/internal/cli/command"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
)

// shared is a job whose tasks run one after another on few workers.
const shared = `apiVersion: tradewind/v1
name: shared
tasks:
  a: {share: true, array: 6, run: 'echo member', time: 10s, resources: {cpus: 2, memory: 4, instanceType: m6i.large}}
`

// TestWorkerRunsTaskAfterTask runs an array on machines that start with the real boot script. bench/warm runs it with
// its own job, and reads the log.
func TestWorkerRunsTaskAfterTask(t *testing.T) {
	if testing.Short() {
		t.Skip("starts emulators")
	}
	w := deploy(t)
	ctx, cancel := context.WithTimeout(t.Context(), hangs)
	defer cancel()
	defer w.agents.Wait()
	defer cancel()
	w.offerProgram(ctx)
	file := os.Getenv("TRADEWIND_BENCH_JOB")
	if file == "" {
		file = filepath.Join(t.TempDir(), "shared.yaml")
		if err := os.WriteFile(file, []byte(shared), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	run := func(args ...string) string {
		t.Helper()
		var out, errs strings.Builder
		code := cli.Run(ctx, &cli.Env{Env: command.Env{
			In: strings.NewReader(""), Out: &out, Err: io.MultiWriter(&errs, t.Output()), Now: time.Now, Exit: os.Exit,
			Environ: append(os.Environ(), "TRADEWIND_SIGN_REGION=us-east-1"),
		}}, slices.Insert(args, 1, "--endpoint", w.api.URL))
		if code != 0 {
			t.Fatalf("exit %d\n%s", code, errs.String())
		}
		return out.String()
	}
	run("submit", file)
	machines := 0
	job := w.untilOver(ctx, func(i types.Instance) {
		machines++
		w.boot(ctx, i)
	})
	if job.State != apitypes.JobSucceeded || machines >= job.Succeeded {
		t.Errorf("%d machines for %+v\n%s", machines, job, w.log.String())
	}
	logs := run("logs", "last")
	if to := os.Getenv("TRADEWIND_BENCH_LOG"); to != "" {
		if err := os.WriteFile(to, []byte(logs), 0o600); err != nil {
			t.Error(err)
		}
	} else if strings.Count(logs, "member\n") != 6 {
		t.Errorf("logs %q", logs)
	}
}
