// Command failover measures the time from a cloud's refusal to the next launch on another cloud, in one process that
// buys on two emulated clouds with their real drivers: Lambda's GPU cloud has no capacity, Google Cloud has. It measures
// the same between two services that run Spark: Dataproc has no machines, Dataproc Serverless runs the application.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/tradewind-broker/tradewind/internal/benchreport"
)

func main() {
	n := flag.Int("n", 200, "refusals")
	page := flag.String("report", "", "page whose section to update, such as bench/RESULTS.md; empty prints it")
	flag.Parse()
	if err := run(context.Background(), *n, *page); err != nil {
		fmt.Fprintln(os.Stderr, "failover:", err)
		os.Exit(1)
	}
}

const title = "Failover between clouds"

func run(ctx context.Context, n int, page string) error {
	if n < 1 {
		return errors.New("-n: at least 1")
	}
	dir, err := os.MkdirTemp("", "failover-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // a temporary folder
	hops, err := measure(ctx, dir, n)
	if err != nil {
		return err
	}
	onServices, err := measureServices(ctx, filepath.Join(dir, "services"), n)
	if err != nil {
		return err
	}
	body := describe(hops) + "\n" + describeServices(onServices)
	if page == "" {
		_, err := fmt.Println(benchreport.Section(title, body, time.Now()))
		return err
	}
	return benchreport.Write(page, title, body, time.Now())
}

const command = "make bench-failover"

// describe writes the part of the section about clouds.
func describe(hops []hop) string {
	at, launches := summary(hops)
	return fmt.Sprintf("One job for each refusal, %d of them, one after the other: Lambda's cloud has no capacity of the "+
		"type that the plan chose, so the broker replans and requests a machine from Google. Measured from the arrival of "+
		"the refusal to the next call. %d launches were requested, two for each job.\n\n", len(hops), launches) + benchreport.Table([]benchreport.Row{
		{Measure: "refusal to the next launch elsewhere, one process, 50th percentile", Result: at(0.5), Command: command},
		{Measure: "the same, 99th percentile", Target: "5 s", Result: at(0.99), Command: command},
		{Measure: "the same, the longest", Result: at(1), Command: command},
	})
}

// describeServices writes the part about services.
func describeServices(hops []hop) string {
	at, requests := summary(hops)
	return fmt.Sprintf("The same for %d Spark tasks: Dataproc accepts each cluster and refuses it when it would be ready. "+
		"Measured from the answer that says so to the request for a batch of Dataproc Serverless. %d clusters and batches "+
		"were requested.\n\n", len(hops), requests) + benchreport.Table([]benchreport.Row{
		{Measure: "refusal to the application's submission to another service, 50th percentile", Result: at(0.5),
			Command: command},
		{Measure: "the same, 99th percentile", Target: "5 s", Result: at(0.99), Command: command},
		{Measure: "the same, the longest", Result: at(1), Command: command},
	})
}

// summary returns the percentiles of the times and the sum of the launches.
func summary(hops []hop) (at func(share float64) string, launches int) {
	var took []time.Duration
	for _, h := range hops {
		took = append(took, h.took)
		launches += h.launches
	}
	slices.Sort(took)
	return func(share float64) string {
		return took[min(int(share*float64(len(took))), len(took)-1)].Round(time.Millisecond).String()
	}, launches
}
