// Command run measures what DESIGN's table of measures asks of the packages that are here, and
// writes bench/RESULTS.md. `make bench` calls it. Times are of the machine it runs on, so each is
// given with its processor; the ratios are what lasts.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"strings"
	"time"
)

// row is one measure.
type row struct {
	what, target, got, command string
}

// section is one part of the report.
type section struct {
	name string
	run  func(ctx context.Context) ([]row, error)
}

func main() {
	out := flag.String("out", "", "file to write; empty is standard output")
	only := flag.String("only", "", "run the sections whose name contains this")
	tasks := flag.Int("tasks", 10_000, "tasks of the large job")
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	sections := []section{
		{"Catalogue", catalogue}, {"Broker", brokerRows},
		{"Large job", func(ctx context.Context) ([]row, error) { return large(ctx, *tasks) }},
		{"Chaos", chaos},
	}
	var report strings.Builder
	fmt.Fprintf(&report, "# Results\n\nWritten by `make bench` on %s, %d processors, %s, %s.\n",
		time.Now().UTC().Format("2006-01-02"), runtime.NumCPU(), processor(), runtime.Version())
	for _, s := range sections {
		if !strings.Contains(strings.ToLower(s.name), strings.ToLower(*only)) {
			continue
		}
		fmt.Fprintln(os.Stderr, "measuring:", s.name)
		rows, err := s.run(ctx)
		if err != nil {
			fmt.Fprintf(os.Stderr, "%s: %v\n", s.name, err)
			os.Exit(1)
		}
		fmt.Fprintf(&report, "\n## %s\n\n| measure | target | measured | command |\n| --- | --- | --- | --- |\n", s.name)
		for _, r := range rows {
			fmt.Fprintf(&report, "| %s | %s | %s | `%s` |\n", r.what, r.target, r.got, r.command)
		}
	}
	if *out == "" {
		fmt.Print(report.String())
		return
	}
	if err := os.WriteFile(*out, []byte(report.String()), 0o600); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// processor is the machine's, as Linux names it.
func processor() string {
	body, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return runtime.GOARCH
	}
	for line := range strings.Lines(string(body)) {
		if name, ok := strings.CutPrefix(line, "model name"); ok {
			return strings.TrimSpace(strings.TrimLeft(name, "\t: "))
		}
	}
	return runtime.GOARCH
}
