// Command optimizer solves the same models with Tradewind's optimizer and with its peers: CBC with the formulation of
// the intercloud broker's paper, HiGHS and CP-SAT with a tighter one, toulbar2, and SkyPilot's own optimizer. It checks
// that all agree, and reports the time of each. `make bench-optimizer` installs the peers in a separate environment and
// calls it.
//
// Only solving is timed: for a peer, reading and building a model does not count; for ours, everything after reading
// does. All run on one thread. The ratios are of processor time, which other work on the machine distorts little.
//
// With -shared, it compares plans in which tasks share machines instead, and with -services it compares these plans
// with models of AWS Batch and SkyPilot (package machines).
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"strings"
	"time"

	"github.com/tradewind-broker/tradewind/bench/optimizer/machines"
	"github.com/tradewind-broker/tradewind/internal/benchreport"
)

type options struct {
	quick           bool
	only, peers     string
	limit           time.Duration
	python, scripts string
	data            string
	results, detail string
	shared          bool
	services        bool
}

func main() {
	var o options
	flag.BoolVar(&o.quick, "quick", false, "run only a part of the grid, which takes some minutes")
	flag.StringVar(&o.only, "only", "", "run only the parts whose names contain this: grid, workflows, skypilot, replan")
	flag.StringVar(&o.peers, "peers", "", "run only the peers whose names contain this")
	flag.DurationVar(&o.limit, "limit", 12*time.Second, "time for a peer to solve one model")
	flag.StringVar(&o.python, "python", ".tools/bench-optimizer/venv/bin/python", "Python interpreter with the peers installed")
	flag.StringVar(&o.scripts, "scripts", "bench/optimizer/peers", "the peers' scripts")
	flag.StringVar(&o.data, "data", "../shared/data", "public data: catalogues and workflows")
	flag.StringVar(&o.results, "results", "", "file whose section on the optimizer to update")
	flag.StringVar(&o.detail, "detail", "", "file for the table of all rows; empty is standard output")
	flag.BoolVar(&o.shared, "shared", false, "plans in which tasks share machines: compare with HEFT, IC-PCP and CP-SAT")
	flag.BoolVar(&o.services, "services", false, "cost and time of the workflows by AWS Batch, SkyPilot, HEFT and ours")
	flag.Parse()
	runtime.GOMAXPROCS(1)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, &o); err != nil {
		fmt.Fprintln(os.Stderr, "bench/optimizer:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o *options) error {
	if o.shared {
		return runShared(ctx, o)
	}
	if o.services {
		return runServices(ctx, o)
	}
	if _, err := os.Stat(o.python); err != nil {
		return fmt.Errorf("%w: `make bench-optimizer` installs the peers", err)
	}
	r := &report{begin: time.Now(), quick: o.quick, limit: o.limit}
	var failures []error
	for _, part := range []struct {
		name string
		run  func(context.Context, *options, *report) error
	}{{"replan", replan}, {"grid", grid}, {"workflows", workflows}, {"skypilot", skypilot}} {
		if strings.Contains(part.name, o.only) {
			if err := part.run(ctx, o, r); err != nil {
				failures = append(failures, fmt.Errorf("%s: %w", part.name, err))
			}
		}
	}
	return errors.Join(append(failures, r.write(o), r.verdict())...)
}

// runShared writes the tables of shared machines to standard output, or to the file for details.
func runShared(ctx context.Context, o *options) (err error) {
	out := os.Stdout
	if o.detail != "" {
		if out, err = os.Create(o.detail); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, out.Close()) }()
	}
	return machines.Run(ctx, machines.Options{
		Data: o.data, Only: o.only, Python: o.python, Scripts: o.scripts, Limit: o.limit, Out: out,
	})
}

// runServices writes the tables of services to the section of the results, or to standard output.
func runServices(ctx context.Context, o *options) error {
	tables, err := machines.SideBySide(ctx, &machines.Options{Data: o.data, Only: o.only})
	if err != nil {
		return err
	}
	if o.results == "" {
		_, err := fmt.Println(tables)
		return err
	}
	title := "The same workflows by AWS Batch, SkyPilot, HEFT and Tradewind"
	return benchreport.Write(o.results, title, tables, time.Now())
}
