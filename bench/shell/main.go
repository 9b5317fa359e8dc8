// Command shell measures the time from a key press to its echo on the machine of a task: with `tradewind exec` in one
// process and on the emulated AWS, and with ssh to a server on this computer.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/tradewind-broker/tradewind/internal/benchreport"
	"github.com/tradewind-broker/tradewind/internal/tunnel/tunneltest"
)

const title = "From key to echo"

func main() {
	n := flag.Int("n", 300, "number of keys")
	program := flag.String("tradewind", "bin/tradewind", "the tradewind program")
	page := flag.String("report", "", "page whose section to update, such as bench/RESULTS.md; empty prints it")
	flag.Parse()
	if err := run(context.Background(), *program, *n, *page); err != nil {
		fmt.Fprintln(os.Stderr, "shell:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, program string, n int, page string) error {
	if n < 1 {
		return errors.New("-n: at least 1")
	}
	program, err := filepath.Abs(program)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "shell-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // a temporary folder
	body := strings.Builder{}
	fmt.Fprintf(&body, "One byte at a time to `cat` and back, %d times; `make bench-shell`.\n\n", n)
	body.WriteString("| by | half within | 99 of 100 within |\n|---|---:|---:|\n")
	for _, way := range []struct {
		name    string
		measure func(ctx context.Context, dir, program string, n int) ([]time.Duration, error)
	}{
		{"ssh to a server on this computer", overSSH},
		{"`tradewind exec`, one process", oneProcess},
		{"`tradewind exec`, functions on the emulated AWS (DynamoDB Local)", onAWS},
	} {
		took, err := way.measure(ctx, dir, program, n)
		if err != nil {
			return fmt.Errorf("%s: %w", way.name, err)
		}
		fmt.Fprintf(&body, "| %s | %s | %s |\n", way.name, rounded(tunneltest.Quantile(took, 0.5)), rounded(tunneltest.Quantile(took, 0.99)))
	}
	body.WriteString("\nThere is no network in between; its latency would be added to all of them. On AWS, a call that " +
		"waits for the other side polls the table after 50 ms, and then less and less often.\n")
	if page == "" {
		_, err := fmt.Println(benchreport.Section(title, body.String(), time.Now()))
		return err
	}
	return benchreport.Write(page, title, body.String(), time.Now())
}

func rounded(d time.Duration) string { return d.Round(100 * time.Microsecond).String() }

// measureEcho measures a command that echoes its input.
func measureEcho(cmd *exec.Cmd, n int) (took []time.Duration, err error) {
	cmd.Stderr = os.Stderr
	to, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	from, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	took, err = tunneltest.MeasureEcho(to, from, n)
	return took, errors.Join(err, to.Close(), cmd.Wait())
}

const job = `apiVersion: tradewind/v1
name: visited
tasks:
  t: {run: 'until [ -e "$GO" ]; do sleep 0.2; done', resources: {cpus: 1}, time: 10m}
`

// oneProcess runs a task on this computer and executes a command next to it.
func oneProcess(ctx context.Context, dir, program string, n int) (took []time.Duration, err error) {
	file, state, end := filepath.Join(dir, "job.yaml"), filepath.Join(dir, "state"), filepath.Join(dir, "go")
	if err := os.WriteFile(file, []byte(strings.ReplaceAll(job, "$GO", end)), 0o600); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	run := exec.CommandContext(ctx, program, "run", file, "--state", state) //nolint:gosec // our own
	var said strings.Builder
	run.Stdout, run.Stderr = &said, &said
	if err := run.Start(); err != nil {
		return nil, err
	}
	defer func() {
		err = errors.Join(err, os.WriteFile(end, nil, 0o600))
		if werr := run.Wait(); werr != nil {
			err = errors.Join(err, fmt.Errorf("%w\n%s", werr, said.String()))
		}
	}()
	beside := func(command string) *exec.Cmd {
		//nolint:gosec // our own
		return exec.CommandContext(ctx, program, "exec", "last", "t", "--state", state, "--", command)
	}
	for beside("true").Run() != nil { // the task has not started yet
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		time.Sleep(100 * time.Millisecond)
	}
	return measureEcho(beside("cat"), n)
}

// onAWS measures with the end-to-end test of remote commands: functions that communicate only through the emulated AWS.
func onAWS(ctx context.Context, dir, _ string, n int) (took []time.Duration, err error) {
	file := filepath.Join(dir, "aws.json")
	cmd := exec.CommandContext(ctx, "go", "test", "-count=1", "-run", "^TestVisitRunsCommandNextToTask$",
		"./internal/lambdahost/e2e")
	cmd.Env = append(os.Environ(), fmt.Sprintf("TRADEWIND_BENCH_ECHO=%d:%s", n, file))
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%w\n%s", err, out)
	}
	raw, err := os.ReadFile(file) //nolint:gosec // ours
	if err != nil {
		return nil, err
	}
	return took, json.Unmarshal(raw, &took)
}
