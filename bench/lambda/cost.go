package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/tradewind-broker/tradewind/internal/broker"
	"github.com/tradewind-broker/tradewind/internal/broker/planner"
	"github.com/tradewind-broker/tradewind/internal/cost"
	"github.com/tradewind-broker/tradewind/pkg/catalog"
	"github.com/tradewind-broker/tradewind/pkg/catalog/egress"
	"github.com/tradewind-broker/tradewind/pkg/dag"
	"github.com/tradewind-broker/tradewind/pkg/dag/read"
)

// targetCost is the maximum cost of the control plane for a DAG of a hundred tasks.
const targetCost = "0.0035 USD for tasks of 12 minutes"

// hundred is a DAG of a hundred tasks, ten in parallel, each of which depends on an earlier one.
func hundred(minutes int, share bool) (*dag.Job, error) {
	var b strings.Builder
	b.WriteString("apiVersion: tradewind/v1\nname: hundred\ntasks:\n")
	for i := range 100 {
		fmt.Fprintf(&b, "  t%03d:\n    run: \"true\"\n    resources: {cpus: 2+}\n    time: %dm\n    share: %v\n", i, minutes, share)
		if i >= 10 {
			fmt.Fprintf(&b, "    after: [t%03d]\n", i-10)
		}
	}
	return read.Job("hundred.yaml", strings.NewReader(b.String()))
}

// costs is the control plane's cost on AWS as `tradewind cost` computes it.
func costs(ctx context.Context) (string, error) {
	c, err := catalog.Default()
	if err != nil {
		return "", err
	}
	moves, err := egress.Default()
	if err != nil {
		return "", err
	}
	opt := planner.DefaultOptions()
	opt.Clouds, opt.Now = []string{"aws"}, nil
	plan := planner.New(c, moves, opt)
	var b strings.Builder
	fmt.Fprintf(&b, "\nThe output of `tradewind cost` for a DAG of 100 tasks, ten in parallel, total (target: %s). The "+
		"rehearsal above counts the requests of the same functions to the emulators. Shared machines cost more here, "+
		"since workers ask for work while another task would fit; the machines themselves cost less.\n\n"+
		"| tasks of | machines | work is open | for the job's events | while open | USD |\n| --- | --- | ---: | ---: | ---: | ---: |\n",
		targetCost)
	for _, share := range []bool{false, true} {
		machines := "one per task"
		if share {
			machines = "shared"
		}
		for _, minutes := range []int{1, 12, 60} {
			spec, err := hundred(minutes, share)
			if err != nil {
				return "", err
			}
			bill, err := cost.BillFor(ctx, spec, plan, time.Unix(0, 0).UTC())
			if err != nil {
				return "", err
			}
			fmt.Fprintf(&b, "| %d min | %s | %.1f h | %.4f | %.4f | %.4f |\n", minutes, machines, bill.Hours,
				bill.EventsUSD, bill.OpenUSD, bill.USD)
		}
	}
	err = arrays(ctx, plan, &b)
	return b.String(), err
}

// targetMember is the maximum cost of the control plane for a member of an array of 10,000.
const targetMember = "8 µUSD for each of 10,000 members of 30 s"

// arrays writes the cost of arrays of short tasks, for each member.
func arrays(ctx context.Context, plan broker.Planner, b *strings.Builder) error {
	fmt.Fprintf(b, "\nArrays of tasks of 30 s on shared machines, for each member (target: %s):\n\n"+
		"| members | work is open | API requests | write units | read units | µUSD a member |\n"+
		"| ---: | ---: | ---: | ---: | ---: | ---: |\n", targetMember)
	for _, n := range []int{1000, 10_000} {
		spec, err := read.Job("short.yaml", strings.NewReader(fmt.Sprintf(
			"apiVersion: tradewind/v1\nname: short\ntasks:\n  a:\n    run: \"true\"\n    array: %d\n    time: 30s\n", n)))
		if err != nil {
			return err
		}
		bill, err := cost.BillFor(ctx, spec, plan, time.Unix(0, 0).UTC())
		if err != nil {
			return err
		}
		each := func(l cost.Line) float64 { return (bill.Lines[l].Events + bill.Lines[l].Open) / float64(n) }
		fmt.Fprintf(b, "| %d | %.1f h | %.1f | %.1f | %.1f | %.1f |\n", n, bill.Hours, each(cost.APIRequests),
			each(cost.TableWrites), each(cost.TableReads), bill.USD/float64(n)*1e6)
	}
	return nil
}
