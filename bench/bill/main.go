// Command bill compares the plan of a recorded workflow with its bill on the emulated AWS: each task sleeps for as long
// as it ran when it was recorded, on one machine type. With -services it compares those of a Spark application on each
// emulated service.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/tradewind-broker/tradewind/internal/benchreport"
	"github.com/tradewind-broker/tradewind/pkg/dag"
	"github.com/tradewind-broker/tradewind/pkg/dag/read"
)

const title = "Plan and bill on the emulated AWS"

func main() {
	machine := flag.String("machine", "c5.4xlarge", "machine type of all tasks")
	shrink := flag.Float64("shrink", 1, "divide run times by this")
	deadline := flag.Duration("deadline", 0, "deadline of the jobs, which decides how many machines they have; 0 is none")
	page := flag.String("report", "", "page whose section to update, such as bench/RESULTS.md; empty prints it")
	services := flag.Duration("services", 0, "run a Spark application that waits this long on each service instead")
	flag.Parse()
	if *services > 0 {
		if err := onServices(context.Background(), *services, *page); err != nil {
			fmt.Fprintln(os.Stderr, "bill:", err)
			os.Exit(1)
		}
		return
	}
	if flag.NArg() == 0 || !(*shrink > 0) {
		fmt.Fprintln(os.Stderr, "usage: bill [flags] WORKFLOW...")
		os.Exit(2)
	}
	set := setting{machine: *machine, shrink: *shrink, deadline: *deadline}
	if err := run(context.Background(), flag.Args(), set, *page); err != nil {
		fmt.Fprintln(os.Stderr, "bill:", err)
		os.Exit(1)
	}
}

// setting is how workflows run: on a machine type, with run times divided by shrink, by a deadline if it is not 0.
type setting struct {
	machine  string
	shrink   float64
	deadline time.Duration
}

func run(ctx context.Context, files []string, set setting, page string) error {
	var body strings.Builder
	fmt.Fprintf(&body, "`tradewind run --on aws` of recorded workflows whose tasks sleep for as long as they ran "+
		"(divided by %v), on one machine type on demand, with messages through a bucket. Machines boot as slowly as measured ones. "+
		"The bill is that of the account: what EC2 says about the life of each machine. `make bench-bill`. The goal "+
		"is 5 %%.\n\n", set.shrink)
	body.WriteString("| workflow | machine | tasks | machines | planned | bill / plan | booked by the broker / plan | " +
		"time / plan |\n|---|---|---:|---:|---:|---:|---:|---:|\n")
	for _, file := range files {
		name, tasks, got, err := measure(ctx, file, set)
		if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		fmt.Fprintf(&body, "| %s | %s | %d | %d | %.4f USD | %.3f | %.3f | %.3f |\n", name, set.machine, tasks, got.Machines,
			got.PlannedUSD, got.USD/got.PlannedUSD, got.BrokerUSD/got.PlannedUSD, got.Hours/got.PlannedHours)
	}
	return report(page, title, body.String())
}

// report prints a section, or writes it into a page.
func report(page, title, body string) error {
	if page == "" {
		_, err := fmt.Println(benchreport.Section(title, body, time.Now()))
		return err
	}
	return benchreport.Write(page, title, body, time.Now())
}

// onServices compares plan and bill on the emulated services that run Spark.
func onServices(ctx context.Context, wait time.Duration, page string) error {
	rows, err := endToEnd(ctx, "TestBillsOfServicesAreThoseOfAccounts", "TRADEWIND_BENCH_SERVICES="+wait.String())
	if err != nil {
		return err
	}
	return report(page, "Plan and bill of Spark services", fmt.Sprintf("A Spark application that waits for %s with two "+
		"executors, on each emulated service, in real time. Services take as long to start as plans expect: EMR 10 "+
		"minutes, EMR Serverless 2, Dataproc 1.5, Dataproc Serverless 1. The bill is the account's usage (machines from "+
		"request to end, serverless workers from the start of the application) at the prices of the catalogue. `make "+
		"bench-bill-services`. The goal is 5 %%.\n\n| service | planned | bill / plan | booked by the broker / plan |\n"+
		"|---|---:|---:|---:|\n%s", wait, rows))
}

// endToEnd runs an end-to-end test of the program, and returns what it has measured.
func endToEnd(ctx context.Context, test, setting string) ([]byte, error) {
	dir, err := os.MkdirTemp("", "bill-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // a temporary folder
	wrote := filepath.Join(dir, "result")
	cmd := exec.CommandContext(ctx, "go", "test", "-count=1", "-timeout=12h", "-run", "^"+test+"$", "./cmd/tradewind")
	cmd.Env = append(os.Environ(), setting, "TRADEWIND_BENCH_RESULT="+wrote)
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%w\n%s", err, out)
	}
	return os.ReadFile(wrote) //nolint:gosec // ours
}

// result is what the end-to-end test of bills writes.
type result struct {
	PlannedUSD, PlannedHours, USD, BrokerUSD, Hours float64
	Machines                                        int
}

func measure(ctx context.Context, file string, set setting) (name string, tasks int, got result, err error) {
	raw, err := os.ReadFile(file) //nolint:gosec // the caller's
	if err != nil {
		return name, tasks, got, err
	}
	job, err := read.Job(file, bytes.NewReader(raw))
	if err != nil {
		return name, tasks, got, err
	}
	dir, err := os.MkdirTemp("", "bill-")
	if err != nil {
		return name, tasks, got, err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // a temporary folder
	path := filepath.Join(dir, "job.yaml")
	if err := os.WriteFile(path, sleeping(job, set), 0o600); err != nil {
		return name, tasks, got, err
	}
	if raw, err = endToEnd(ctx, "TestLaptopBillIsThatOfAccount", "TRADEWIND_BENCH_BILL="+path); err != nil {
		return name, tasks, got, err
	}
	return job.Name, len(job.Tasks), got, json.Unmarshal(raw, &got)
}

// sleeping returns a job file with the tasks of a workflow that sleep on a machine type of AWS.
func sleeping(job *dag.Job, set setting) []byte {
	var b bytes.Buffer
	name := strings.ToLower(strings.ReplaceAll(job.Name, "_", "-"))
	fmt.Fprintf(&b, "apiVersion: tradewind/v1\nname: %s\n", name)
	if set.deadline > 0 {
		fmt.Fprintf(&b, "deadline: %s\n", set.deadline)
	}
	b.WriteString("tasks:\n")
	for i := range job.Tasks {
		t := &job.Tasks[i]
		var after []string
		for _, e := range job.EdgesTo(i) {
			after = append(after, job.Tasks[job.Edges[e].From].Name)
		}
		seconds := t.Recorded.Seconds() / set.shrink
		fmt.Fprintf(&b, "  %s: {run: sleep %.2f, time: %.2fs, share: true, after: [%s], reference: %s, resources: "+
			"{cpus: 1, memory: 1, cloud: aws, region: us-east-1, instanceType: %s, market: on-demand}}\n",
			t.Name, seconds, max(seconds, 0.01), strings.Join(after, ", "), set.machine, set.machine)
	}
	return b.Bytes()
}
