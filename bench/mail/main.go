// Command mail measures how fast orders reach machines that communicate with a broker without a public address through
// a bucket: from the broker's commit of an order to run a task until the task's command begins on a warm worker of the
// emulated AWS, as with `tradewind run --on aws`.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/tradewind-broker/tradewind/internal/benchreport"
	"github.com/tradewind-broker/tradewind/internal/tunnel/tunneltest"
)

const title = "Orders through a bucket"

func main() {
	page := flag.String("report", "", "page whose section to update, such as bench/RESULTS.md; empty prints it")
	flag.Parse()
	if err := run(context.Background(), *page); err != nil {
		fmt.Fprintln(os.Stderr, "mail:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, page string) error {
	took, err := measure(ctx)
	if err != nil {
		return err
	}
	const command = "make bench-mail"
	half, most := rounded(tunneltest.Quantile(took, 0.5)), rounded(tunneltest.Quantile(took, 0.9))
	rows := []benchreport.Row{
		{Measure: "half of the orders", Target: "3 s", Result: half, Command: command},
		{Measure: "nine of ten orders", Result: most, Command: command},
	}
	body := fmt.Sprintf("`tradewind run --on aws` on the emulated AWS, with messages through a bucket: from the "+
		"broker's commit of an order to run a task until its command begins on a warm worker, %d tasks one after "+
		"the other. This includes the start of the task's agent and its first call.\n\n", len(took)) +
		benchreport.Table(rows)
	if page == "" {
		_, err := fmt.Println(benchreport.Section(title, body, time.Now()))
		return err
	}
	return benchreport.Write(page, title, body, time.Now())
}

func rounded(d time.Duration) string { return d.Round(10 * time.Millisecond).String() }

// measure runs the end-to-end test of jobs without a public address: the real program, agents and boot script. The test
// fails if the median is above 3 s.
func measure(ctx context.Context) (took []time.Duration, err error) {
	dir, err := os.MkdirTemp("", "mail-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // a temporary folder
	results := filepath.Join(dir, "orders.json")
	cmd := exec.CommandContext(ctx, "go", "test", "-count=1", "-run", "^TestLaptopOrdersArriveInSeconds$",
		"./cmd/tradewind")
	cmd.Env = append(os.Environ(), "TRADEWIND_BENCH_ORDERS="+results)
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%w\n%s", err, out)
	}
	text, err := os.ReadFile(results) //nolint:gosec // ours
	if err != nil {
		return nil, err
	}
	return took, json.Unmarshal(text, &took)
}
