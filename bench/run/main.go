// Command run measures the packages of this repository for RESULTS.md, and writes their sections of bench/RESULTS.md.
// `make bench` calls it.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"time"

	"github.com/tradewind-broker/tradewind/internal/benchreport"
)

// section is one part of the report.
type section struct {
	name string
	run  func(ctx context.Context) ([]benchreport.Row, error)
}

func main() {
	out := flag.String("out", "", "file to write; empty is standard output")
	only := flag.String("only", "", "run only the sections whose names contain this")
	tasks := flag.Int("tasks", 10_000, "tasks of the large job")
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	sections := []section{
		{"Catalogue", catalogue}, {"Broker", brokerRows},
		{"Large job", func(ctx context.Context) ([]benchreport.Row, error) { return large(ctx, *tasks) }},
		{"Chaos", chaos}, {"Wind tunnel", windtunnel},
	}
	for _, s := range sections {
		if !strings.Contains(strings.ToLower(s.name), strings.ToLower(*only)) {
			continue
		}
		fmt.Fprintln(os.Stderr, "measuring:", s.name)
		rows, err := s.run(ctx)
		if err == nil {
			err = write(*out, s.name, benchreport.Table(rows))
		}
		if err != nil {
			fmt.Fprintf(os.Stderr, "%s: %v\n", s.name, err)
			os.Exit(1)
		}
	}
}

// write updates a section of the page, or prints it if there is no page.
func write(out, name, body string) error {
	if out != "" {
		return benchreport.Write(out, name, body, time.Now())
	}
	_, err := fmt.Println(benchreport.Section(name, body, time.Now()))
	return err
}
