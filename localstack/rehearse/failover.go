package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/tradewind-broker/tradewind/internal/benchreport"
	"github.com/tradewind-broker/tradewind/internal/rehearsal/account"
	"github.com/tradewind-broker/tradewind/internal/rehearsal/clouds"
)

// failover measures the time from a refusal to the next launch on another cloud, by the deployed functions.
func failover(ctx context.Context, o account.Options, n int, page string, out io.Writer) error {
	hops, err := clouds.Failover(ctx, o, n)
	if err != nil && (len(hops) == 0 || ctx.Err() == nil) {
		return err
	}
	n = len(hops) // fewer if it was interrupted
	took, ours, waits := make([]time.Duration, len(hops)), make([]time.Duration, len(hops)), map[string]time.Duration{}
	for i, h := range hops {
		took[i], ours[i] = h.Took, h.Took
		for what, d := range h.Spent {
			waits[what] += d
			if strings.HasPrefix(what, emulated) {
				ours[i] -= d
			}
		}
	}
	at := func(of []time.Duration, share float64) string {
		slices.Sort(of)
		return of[min(int(share*float64(len(of))), len(of)-1)].Round(time.Millisecond).String()
	}
	const title, command = "Failover between clouds, on the emulated AWS", "make bench-failover-aws"
	body := fmt.Sprintf("%d jobs, one after the other, each with one refusal, by the Lambda functions on the emulated "+
		"AWS: Azure has no capacity of the type that the plan chose; the broker removes what was created of the "+
		"machine, "+
		"replans and asks Google for one. Measured from the refusal's answer to the next call for a machine; the "+
		"functions may start cold or warm. The time of the emulators' own answers is measured separately: AWS "+
		"answers such calls in milliseconds.\n\n", n) + benchreport.Table([]benchreport.Row{
		{
			Measure: "refusal to the next launch elsewhere, on AWS, 50th percentile",
			Result:  at(took, 0.5),
			Command: command,
		},
		{Measure: "the same, 99th percentile", Target: "5 s", Result: at(took, 0.99), Command: command},
		{Measure: "the same, maximum", Result: at(took, 1), Command: command},
		{Measure: "without the emulator's answers, 50th percentile", Result: at(ours, 0.5), Command: command},
		{Measure: "the same, 99th percentile", Target: "5 s", Result: at(ours, 0.99), Command: command},
	}) + "\n" + spent(waits, n)
	if page == "" {
		_, err := fmt.Fprintln(out, benchreport.Section(title, body, time.Now()))
		return err
	}
	return benchreport.Write(page, title, body, time.Now())
}

// emulated is the prefix of time spent in the emulator (account.Trace).
const emulated = "emulated "

// spent returns a table of how the hops' time was spent, the largest share first.
func spent(sum map[string]time.Duration, n int) string {
	var all time.Duration
	for _, d := range sum {
		all += d
	}
	var b strings.Builder
	b.WriteString("| a hop's time is spent on | ms, on average | share |\n| --- | ---: | ---: |\n")
	for _, what := range slices.SortedFunc(maps.Keys(sum), func(a, b string) int {
		return cmp.Or(cmp.Compare(sum[b], sum[a]), cmp.Compare(a, b))
	}) {
		fmt.Fprintf(&b, "| %s | %d | %.0f %% |\n", what, (sum[what] / time.Duration(n)).Milliseconds(),
			100*float64(sum[what])/float64(all))
	}
	return b.String()
}
