// Command bidding replays the recorded markets and availability traces of ../shared/data under every policy, and writes
// its section of bench/RESULTS.md, or the plots of docs/bidding.md. `make bench-bidding` and `make docs-plots` call it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/tradewind-broker/tradewind/internal/benchreport"
	"github.com/tradewind-broker/tradewind/internal/lab/backtest"
	"github.com/tradewind-broker/tradewind/pkg/bidding"
	"github.com/tradewind-broker/tradewind/pkg/dag/read"
	"github.com/tradewind-broker/tradewind/pkg/market"
)

func main() {
	data := flag.String("data", "../shared/data", "folder of the public data")
	results := flag.String("report", "", "file whose section on bidding to update; empty prints it")
	plots := flag.String("plots", "", "folder to write the plots to, instead of measuring")
	only := flag.String("only", "", "measure one part and print it: bids, availability, held, workflows or table")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	_, err := os.Stat(*data)
	switch {
	case err != nil:
		err = fmt.Errorf("the public data is missing; docs/bidding.md describes it: %w", err)
	case *only != "" && *results != "":
		err = errors.New("-report needs all parts, so it excludes -only")
	case *plots == "":
		err = measure(ctx, *data, *results, *only)
	default:
		err = draw(ctx, *data, *plots)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench/bidding:", err)
		os.Exit(1)
	}
}

func measure(ctx context.Context, data, results, only string) error {
	var rows []benchreport.Row
	for _, part := range []struct {
		name string
		rows func(context.Context, string) ([]benchreport.Row, error)
	}{{"bids", bids}, {"availability", availability}, {"held", held}, {"workflows", workflows}, {"table", table}} {
		if only != "" && part.name != only {
			continue
		}
		more, err := part.rows(ctx, data)
		if err != nil {
			return err
		}
		rows = append(rows, more...)
	}
	body := "Costs are means over the runs of each run's cost as a multiple of the clairvoyant policy's cost for the " +
		"same run; `-o json` also has the\n" +
		"ratio of the mean costs. docs/bidding.md explains how they are counted.\n\n" + benchreport.Table(rows)
	if results == "" {
		fmt.Println(benchreport.Section("Bidding", body, time.Now()))
		return nil
	}
	return benchreport.Write(results, "Bidding", body, time.Now())
}

// deadlines are the hours within which 24 hours of work must end, with our target on the markets of 2016.
func deadlines() []struct {
	hours  int
	target string
} {
	return []struct {
		hours  int
		target string
	}{{26, "1.03, below every baseline"}, {36, "1.05, below every baseline"}, {48, "1.06, below every baseline"}}
}

// bids replays every set of prices under every policy, and adds a summary for the set that has targets.
func bids(ctx context.Context, data string) ([]benchreport.Row, error) {
	var rows []benchreport.Row
	for _, set := range sets() {
		markets, err := market.ReadMarkets(os.DirFS(filepath.Join(data, "spot-prices", set)))
		if err != nil {
			return nil, err
		}
		for _, d := range deadlines() {
			o := backtest.BidOptions{Work: 24, Deadline: d.hours, Every: startsEvery(set), Train: 0.5}
			r, err := backtest.Bid(ctx, markets, o)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", set, err)
			}
			command := fmt.Sprintf("bin/tradewind-lab backtest bid --prices ../shared/data/spot-prices/%s --work 24h "+
				"--deadline %dh --every %dh --train 0.5", set, d.hours, o.Every)
			if set == withTargets {
				o.Policies, o.Informed = []string{backtest.Markov}, true
				informed, err := backtest.Bid(ctx, markets, o)
				if err != nil {
					return nil, fmt.Errorf("%s: %w", set, err)
				}
				rows = append(rows, bidSummary(r, informed, d.hours, d.target, command))
			}
			rows = append(rows, benchreport.Row{
				Measure: fmt.Sprintf("%s, 24 h of work by %d h: every policy × clairvoyant", set, d.hours),
				Result: everyPolicy(r.Policies, func(p backtest.Result) string { return fmt.Sprintf("%.4f", p.ToClairvoyant) }) +
					fmt.Sprintf("; %d misses in %d runs", misses(r.Policies), r.Runs),
				Command: command,
			})
		}
	}
	return rows, nil
}

// bidSummary compares our policy with the best baseline, and with itself with hindsight.
func bidSummary(r, informed *backtest.Report, hours int, target, command string) benchreport.Row {
	ours, next := r.Policies[backtest.Markov], bestBaseline(r.Policies)
	return benchreport.Row{
		Measure: fmt.Sprintf("24 h of work by %d h on the AWS markets of 2016, × clairvoyant", hours),
		Target:  target, Result: fmt.Sprintf("%.4f (%.4f of the mean costs); next best "+
			"%s %.4f (%.4f); a 24-level chain with hindsight %.4f (%.4f); %d misses in %d runs",
			ours.ToClairvoyant, ours.USDToClairvoyant, next, r.Policies[next].ToClairvoyant,
			r.Policies[next].USDToClairvoyant, informed.Policies[backtest.Markov].ToClairvoyant,
			informed.Policies[backtest.Markov].USDToClairvoyant, misses(r.Policies), r.Runs),
		Command: command,
	}
}

// bestBaseline is the cheapest policy except ours and the clairvoyant ones.
func bestBaseline(policies map[string]backtest.Result) string {
	best := backtest.OnDemand
	for _, name := range backtest.Policies() {
		r, ok := policies[name]
		if ok && name != backtest.Markov && name != backtest.Clairvoyant &&
			r.ToClairvoyant < policies[best].ToClairvoyant {
			best = name
		}
	}
	return best
}

// misses counts the missed deadlines of all policies.
func misses(policies map[string]backtest.Result) (n int) {
	for _, r := range policies {
		n += r.Misses
	}
	return n
}

// availability replays the traces of V100 machines, each zone alone and all zones together.
func availability(ctx context.Context, data string) ([]benchreport.Row, error) {
	traces, err := market.ReadTraces(os.DirFS(filepath.Join(data, "spot-availability", "availability")))
	if err != nil {
		return nil, err
	}
	const command = "bin/tradewind-lab backtest availability --traces ../shared/data/spot-availability/availability " +
		"--work 48h --deadline %s"
	var rows []benchreport.Row
	for _, d := range []struct {
		times    float64
		deadline string
	}{{1.08, "51h50m24s"}, {1.25, "60h"}, {1.5, "72h"}} {
		o := backtest.AvailabilityOptions{
			Work: 48, Deadline: 48 * d.times, Changeover: 0.2, SpotRatio: 0.333, Every: 24,
			Policies: []string{backtest.UniformProgress, backtest.Markov},
		}
		r, err := backtest.Availability(ctx, traces, o)
		if err != nil {
			return nil, err
		}
		o.Informed = true
		informed, err := backtest.Availability(ctx, traces, o)
		if err != nil {
			return nil, err
		}
		o.Informed = false
		ours, theirs := r.Policies[backtest.Markov], r.Policies[backtest.UniformProgress]
		rows = append(rows, benchreport.Row{
			Measure: fmt.Sprintf("availability traces, one zone, deadline %v × the work, × clairvoyant", d.times),
			Target:  "1.08",
			Result: fmt.Sprintf("%.4f; Uniform Progress %.4f; ours with hindsight %.4f; %d misses in %d runs",
				ours.ToClairvoyant, theirs.ToClairvoyant,
				informed.Policies[backtest.Markov].ToClairvoyant, misses(r.Policies), r.Runs),
			Command: fmt.Sprintf(command, d.deadline),
		})
		o.Together = true
		if r, err = backtest.Availability(ctx, traces, o); err != nil {
			return nil, err
		}
		ours = r.Policies[backtest.Markov]
		saved := func(name string) float64 { return 100 * (1 - ours.USD/r.Policies[name].USD) }
		rows = append(rows, benchreport.Row{
			Measure: fmt.Sprintf("the same across zones, cheaper than Uniform Progress in %% at %v ×", d.times),
			Target:  "15",
			Result: fmt.Sprintf(
				"%.1f than in one zone, %.1f than stretched to all (no policy can be cheaper than that by more than %.1f)",
				saved(backtest.UniformProgress), saved(backtest.UniformProgressZones),
				100*(1-r.Policies[backtest.Clairvoyant].USD/r.Policies[backtest.UniformProgressZones].USD)),
			Command: fmt.Sprintf(command, d.deadline) + " --zones together",
		})
	}
	return rows, nil
}

// held replays all traces, including those of machines that were held until they were preempted, each zone alone.
func held(ctx context.Context, data string) ([]benchreport.Row, error) {
	traces, err := market.ReadTraces(os.DirFS(filepath.Join(data, "spot-availability")))
	if err != nil {
		return nil, err
	}
	var rows []benchreport.Row
	for _, d := range []struct {
		times    float64
		deadline string
	}{{1.08, "51h50m24s"}, {1.25, "60h"}, {1.5, "72h"}} {
		o := backtest.AvailabilityOptions{
			Work: 48, Deadline: 48 * d.times, Changeover: 0.2, SpotRatio: 0.333, Every: 24,
			Policies: []string{backtest.Markov},
		}
		r, err := backtest.Availability(ctx, traces, o)
		if err != nil {
			return nil, err
		}
		o.Informed = true
		informed, err := backtest.Availability(ctx, traces, o)
		if err != nil {
			return nil, err
		}
		rows = append(rows, benchreport.Row{
			Measure: fmt.Sprintf("all traces, including held machines, one zone, deadline %v × the work, × clairvoyant",
				d.times), Target: "1.08",
			Result: fmt.Sprintf("%.4f; ours with hindsight %.4f; %d misses in %d runs",
				r.Policies[backtest.Markov].ToClairvoyant,
				informed.Policies[backtest.Markov].ToClairvoyant, misses(r.Policies), r.Runs),
			Command: "bin/tradewind-lab backtest availability --traces ../shared/data/spot-availability --work 48h " +
				"--deadline " + d.deadline,
		})
	}
	return rows, nil
}

// withTargets is the set of prices of the paper, for which there are targets.
const withTargets = "aws-2016"

// sets are the recorded prices, one folder for each.
func sets() []string { return []string{withTargets, "gcp-2026", "azure-2026"} }

// startsEvery is the number of hours between the starts of runs. The prices of 2026 change about once a month, and there
// are thousands of markets, so a start a week is enough.
func startsEvery(set string) int {
	if set == withTargets {
		return 6
	}
	return 7 * 24
}

// everyPolicy lists a measure of every policy that ran.
func everyPolicy(policies map[string]backtest.Result, measure func(backtest.Result) string) string {
	var all []string
	for _, name := range backtest.Policies() {
		if r, ok := policies[name]; ok {
			all = append(all, name+" "+measure(r))
		}
	}
	return strings.Join(all, ", ")
}

// workflows repeats the paper's experiment with its five workflows, on every set of prices.
func workflows(ctx context.Context, data string) ([]benchreport.Row, error) {
	var rows []benchreport.Row
	files := []string{"CyberShake_30", "Epigenomics_24", "Inspiral_30", "Montage_25", "Sipht_30"}
	for _, set := range sets() {
		markets, err := market.ReadMarkets(os.DirFS(filepath.Join(data, "spot-prices", set)))
		if err != nil {
			return nil, err
		}
		toAIB, paper, least, most, missed := 0.0, 0.0, math.Inf(1), 0.0, 0
		repeats := 30
		if set != withTargets {
			repeats = 5 // of each of hundreds of zones
		}
		for _, name := range files {
			job, err := read.File(filepath.Join(data, "workflows", "dax", name+".xml.gz"))
			if err != nil {
				return nil, err
			}
			r, err := backtest.Workflow(ctx, job, markets, backtest.WorkflowOptions{
				Deadlines: []float64{1.1, 1.5, 2, 3}, Repeats: repeats, Seed: 1, Train: 0.5, Hours: 24,
			})
			if err != nil {
				return nil, fmt.Errorf("%s: %w", set, err)
			}
			ours := r.Policies[backtest.Markov]
			toAIB += ours.ToAIB / float64(len(files))
			paper += r.Policies[backtest.BFRC].ToAIB / float64(len(files))
			least, most, missed = min(least, ours.ToOnDemand), max(most, ours.ToOnDemand), missed+misses(r.Policies)
			rows = append(rows, benchreport.Row{
				Measure: fmt.Sprintf("%s, %s: every policy × AIB", set, name),
				Result: everyPolicy(r.Policies, func(p backtest.Result) string { return fmt.Sprintf("%.4f", p.ToAIB) }) +
					fmt.Sprintf("; ours %.1f%% of on-demand", 100*ours.ToOnDemand),
				Command: fmt.Sprintf("bin/tradewind-lab backtest workflow --dag ../shared/data/workflows/dax/%s.xml.gz "+
					"--prices ../shared/data/spot-prices/%s --repeats %d", name, set, repeats),
			})
		}
		target := "below BFRC"
		if set == withTargets {
			target = "0.90; 10 to 20%"
		}
		rows = append(rows, benchreport.Row{
			Measure: set + ", the five workflows, mean × AIB and share of on-demand", Target: target,
			Result: fmt.Sprintf("%.4f (the paper's BFRC %.4f); %.1f to %.1f%%; %d misses", toAIB, paper, 100*least, 100*most,
				missed),
			Command: "make bench-bidding",
		})
	}
	return rows, nil
}

// table builds the table of 64 levels several times and reports the median.
func table(ctx context.Context, _ string) ([]benchreport.Row, error) {
	const levels, hours, times = 64, 168, 21
	m := bidding.Model{OnDemandUSD: 1, USD: make([]float32, levels), P: make([]float32, levels*levels)}
	for s := range levels {
		m.USD[s] = 0.05 + 1.2*float32(s)/levels
		sum := float32(0)
		for q := range levels {
			m.P[s*levels+q] = 1 / (1 + float32((s-q)*(s-q)))
			sum += m.P[s*levels+q]
		}
		for q := range levels {
			m.P[s*levels+q] /= sum
		}
	}
	took := make([]time.Duration, times)
	for i := range took {
		start := time.Now()
		if _, err := bidding.Build(ctx, m, hours, hours); err != nil {
			return nil, err
		}
		took[i] = time.Since(start)
	}
	slices.Sort(took)
	if took[0] <= 0 {
		return nil, errors.New("the clock does not advance")
	}
	return []benchreport.Row{{
		Measure: "a table of 64 levels × 168 h of work × 168 h, one thread", Target: "10 ms",
		Result: fmt.Sprintf("%.1f ms (median of %d, least %.1f)", took[times/2].Seconds()*1e3, times,
			took[0].Seconds()*1e3), Command: "go test -bench Build ./pkg/bidding",
	}}, nil
}
