package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/tradewind-broker/tradewind/bench/report"
	"github.com/tradewind-broker/tradewind/internal/rehearsal/account"
	"github.com/tradewind-broker/tradewind/internal/rehearsal/clouds"
)

// failover measures the time from a refusal to the next launch on another cloud, by the deployed functions.
func failover(ctx context.Context, o account.Options, n int, page string, out io.Writer) error {
	took, err := clouds.Failover(ctx, o, n)
	if err != nil {
		return err
	}
	slices.Sort(took)
	at := func(share float64) string {
		return took[min(int(share*float64(len(took))), len(took)-1)].Round(time.Millisecond).String()
	}
	const title, command = "Failover between clouds, on the emulated AWS", "make bench-failover-aws"
	body := fmt.Sprintf("A job a refusal, %d of them, one after the other, by the Lambda functions on the emulated "+
		"AWS: Azure has no capacity of the type that the plan chose, what was begun of the machine is removed, the "+
		"broker plans anew and asks Google for one. From the refusal's answer to the next call for a machine; the "+
		"functions are cold or warm as they come.\n\n", n) + report.Table([]report.Row{
		{What: "refusal to the next launch elsewhere, on AWS, 50th percentile", Got: at(0.5), Command: command},
		{What: "the same, 99th percentile", Target: "5 s", Got: at(0.99), Command: command},
		{What: "the same, the longest", Got: at(1), Command: command},
	})
	if page == "" {
		_, err := fmt.Fprintln(out, report.Section(title, body, time.Now()))
		return err
	}
	return report.Write(page, title, body, time.Now())
}
