// Command warm measures the time from the end of a task's command to the start of the next one's on the same worker: in
// one process, and with functions and machines of the emulated AWS.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tradewind-broker/tradewind/internal/benchreport"
	"github.com/tradewind-broker/tradewind/internal/tunnel/tunneltest"
)

const title = "From task to task on a warm worker"

func main() {
	n := flag.Int("n", 60, "number of tasks in one process; a quarter of it on AWS")
	program := flag.String("tradewind", "bin/tradewind", "the tradewind program")
	page := flag.String("report", "", "page whose section to update, such as bench/RESULTS.md; empty prints it")
	flag.Parse()
	if err := run(context.Background(), *program, *n, *page); err != nil {
		fmt.Fprintln(os.Stderr, "warm:", err)
		os.Exit(1)
	}
}

// job is an array whose members run on one machine, as many at a time as it has room for. Each prints when its command
// has begun and ended, in nanoseconds, and its folder, which is below that of its worker.
const job = `apiVersion: tradewind/v1
name: warm
tasks:
  a:
    share: true
    array: %d
    run: b=$(date +%%s%%N); sleep %s; echo "SPAN $b $(date +%%s%%N) $PWD"
    time: 10s
    resources: {cpus: %d, memory: %d, instanceType: m6i.large, cloud: aws}
`

func run(ctx context.Context, program string, n int, page string) error {
	if n < 12 {
		return errors.New("-n: at least 12")
	}
	program, err := filepath.Abs(program)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "warm-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // a temporary folder
	body := strings.Builder{}
	fmt.Fprintf(&body, "From the end of a command to the start of the next one on the same worker, while tasks wait; "+
		"load of this computer: %s; `make bench-warm`.\n\n", load())
	body.WriteString("| on | tasks at a time | pairs | half within | nine of ten within |\n|---|---:|---:|---:|---:|\n")
	for _, way := range []struct {
		name    string
		run     func(ctx context.Context, dir, program, file string) (log string, err error)
		n       int
		seconds string
	}{{"one process", oneProcess, n, "0.4"}, {"the emulated AWS (DynamoDB Local)", onAWS, n / 4, "3"}} {
		for _, slots := range []int{1, 2} {
			file := filepath.Join(dir, fmt.Sprintf("%s-%d.yaml", strings.Fields(way.name)[0], slots))
			text := fmt.Sprintf(job, way.n*slots, way.seconds, 2/slots, 4/slots)
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				return err
			}
			log, err := way.run(ctx, dir, program, file)
			if err != nil {
				return fmt.Errorf("%s: %w", way.name, err)
			}
			took := gaps(log)
			if len(took) == 0 {
				return fmt.Errorf("%s: no worker ran two tasks:\n%s", way.name, log)
			}
			fmt.Fprintf(&body, "| %s | %d | %d | %s | %s |\n", way.name, slots, len(took),
				rounded(tunneltest.Quantile(took, 0.5)), rounded(tunneltest.Quantile(took, 0.9)))
		}
	}
	if page == "" {
		_, err := fmt.Println(benchreport.Section(title, body.String(), time.Now()))
		return err
	}
	return benchreport.Write(page, title, body.String(), time.Now())
}

// load returns the load average of the last minute.
func load() string {
	raw, _ := os.ReadFile("/proc/loadavg")
	average, _, _ := strings.Cut(string(raw), " ")
	return cmp.Or(average, "unknown")
}

func rounded(d time.Duration) string { return d.Round(time.Millisecond).String() }

var span = regexp.MustCompile(`SPAN (\d+) (\d+) (\S+)`)

// gaps returns, for each end of a task on a worker, the time until the next start there that no earlier end has.
func gaps(log string) (took []time.Duration) {
	starts, ends := map[string][]int64{}, map[string][]int64{}
	for _, m := range span.FindAllStringSubmatch(log, -1) {
		worker, _, _ := strings.Cut(m[3], "/agents/clusters/")
		from, _ := strconv.ParseInt(m[1], 10, 64)
		to, _ := strconv.ParseInt(m[2], 10, 64)
		starts[worker], ends[worker] = append(starts[worker], from), append(ends[worker], to)
	}
	for worker, s := range starts {
		slices.Sort(s)
		slices.Sort(ends[worker])
		for _, end := range ends[worker] {
			i, _ := slices.BinarySearch(s, end)
			if i == len(s) {
				break
			}
			took = append(took, time.Duration(s[i]-end))
			s = slices.Delete(s, i, i+1)
		}
	}
	return took
}

func oneProcess(ctx context.Context, dir, program, file string) (string, error) {
	state := file + "-state"
	run := exec.CommandContext(ctx, program, "run", file, "--state", state) //nolint:gosec // our own
	run.Dir = dir
	if out, err := run.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w\n%s", err, out)
	}
	log, err := exec.CommandContext(ctx, program, "logs", "last", "--state", state).Output() //nolint:gosec // our own
	return string(log), err
}

// onAWS runs the job with the end-to-end test of workers: functions that communicate only through the emulated AWS, and
// machines that run the real boot script.
func onAWS(ctx context.Context, _, _, file string) (string, error) {
	log := file + ".log"
	cmd := exec.CommandContext(ctx, "go", "test", "-count=1", "-run", "^TestWorkerRunsTaskAfterTask$",
		"./internal/lambdahost/e2e")
	cmd.Env = append(os.Environ(), "TRADEWIND_BENCH_JOB="+file, "TRADEWIND_BENCH_LOG="+log)
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w\n%s", err, out)
	}
	raw, err := os.ReadFile(log) //nolint:gosec // ours
	return string(raw), err
}
