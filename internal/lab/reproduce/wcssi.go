package reproduce

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/tradewind-broker/tradewind/internal/base/chart"
	"github.com/tradewind-broker/tradewind/internal/bidding/workflow"
	"github.com/tradewind-broker/tradewind/internal/lab/backtest"
)

const wcssiNote = "The paper's prices (Alibaba Cloud, g6, October to December 2019, three zones) are not public. " +
	"Here: the spot markets of Amazon EC2 of 2016, with all their types."

// relativePrices is the mean spot price of each type relative to its on-demand price.
func relativePrices(_ context.Context, s *source) (Item, error) {
	item := Item{
		Title:     "mean spot price by machine type, relative to on demand",
		Columns:   []string{"type", "onDemandUSD", "relative", "zones"},
		PaperRows: []Row{{"type": "g6, large to 3xlarge", "relative": "0.1 to 0.2, rising with the size"}},
		Note:      wcssiNote,
	}
	all, err := s.markets()
	if err != nil {
		return item, err
	}
	type sum struct {
		usd, relative float64
		zones         int
	}
	sums := map[string]*sum{}
	for _, m := range all {
		if m.OnDemandUSD <= 0 {
			continue
		}
		prices := m.Spot.Hourly().USD
		mean := 0.0
		for _, p := range prices {
			mean += p / float64(len(prices))
		}
		if sums[m.Type] == nil {
			sums[m.Type] = &sum{usd: m.OnDemandUSD}
		}
		sums[m.Type].relative += mean / m.OnDemandUSD
		sums[m.Type].zones++
	}
	names := slices.SortedFunc(maps.Keys(sums), func(a, b string) int {
		return cmp.Or(cmp.Compare(sums[a].usd, sums[b].usd), cmp.Compare(a, b))
	})
	for _, name := range names {
		t := sums[name]
		item.Rows = append(item.Rows, Row{"type": name, "onDemandUSD": t.usd, "relative": t.relative / float64(t.zones),
			"zones": t.zones})
	}
	return item, nil
}

// priceByDeadline is the least cost of a task by the deadline, relative to on demand.
func priceByDeadline(ctx context.Context, s *source) (Item, error) {
	item := Item{
		Title:     "least cost of 24 hours of work by the deadline, relative to on demand",
		Columns:   []string{"deadlineOverWork", "clairvoyant", "markov", "aib"},
		PaperRows: []Row{{"deadlineOverWork": "1 to 3", "clairvoyant": "falls, most of it up to 1.5"}},
		Note:      wcssiNote + " Every type and zone has the same weight.",
	}
	all, err := s.markets()
	if err != nil {
		return item, err
	}
	lines := map[string][]chart.Point{}
	for _, hours := range []int{25, 27, 30, 36, 48, 72} {
		r, err := backtest.Bid(ctx, all, backtest.BidOptions{Work: 24, Deadline: hours, Every: 24, Train: 0.5,
			Policies: []string{backtest.Markov, backtest.AIB}})
		if err != nil {
			return item, err
		}
		row := Row{"deadlineOverWork": float64(hours) / 24}
		for _, name := range []string{backtest.Clairvoyant, backtest.Markov, backtest.AIB} {
			row[name] = r.Policies[name].ToOnDemand
			lines[name] = append(lines[name], chart.Point{X: float64(hours) / 24, Y: r.Policies[name].ToOnDemand})
		}
		item.Rows = append(item.Rows, row)
	}
	panel := chart.Panel{Title: item.Title, X: chart.Axis{Label: "deadline / work"},
		Y: chart.Axis{Label: "× on demand"}}
	for _, name := range []string{backtest.Clairvoyant, backtest.Markov, backtest.AIB} {
		panel.Series = append(panel.Series, chart.Series{Name: name, Points: lines[name]})
	}
	item.Panels = []chart.Panel{panel}
	return item, nil
}

// paperWorkflows are the workflows of the paper's section 4, as published by Pegasus.
func paperWorkflows() []string {
	return []string{"CyberShake_30", "Sipht_30", "Inspiral_30", "Epigenomics_24"}
}

// deadlinesOfPaper are multiples of the workflow's time, as in section 4.
func deadlinesOfPaper() []float64 { return []float64{1.1, 1.3, 1.5, 2, 2.5, 3} }

// relativeCosts is the cost of each workflow under each policy by the deadline, relative to on demand.
func relativeCosts(ctx context.Context, s *source) (Item, error) {
	names := []string{backtest.AIB, backtest.BFRC, backtest.Markov, workflow.PathBound, backtest.Clairvoyant}
	item := Item{
		Title:   "cost of workflows by the deadline, relative to on demand",
		Columns: append([]string{"workflow", "zone", "deadline"}, append(names, "toAIB")...),
		PaperRows: []Row{
			{"workflow": "all, mean", backtest.BFRC: 0.117, "toAIB": 0.942},
			{"workflow": "all, least and most", backtest.BFRC: "0.101 to 0.198", "toAIB": "0.768 to 1.042"},
		},
		Note: wcssiNote + " Each cell is the mean of 30 random starts, in a zone or in all. `bfrc` is the paper's " +
			"method, `markov` this project's, `path-bound` the paper's lower bound (equations 9 and 10: one path, at " +
			"most two types, mean prices), `clairvoyant` the lower bound with all prices known. `toAIB` is that of " +
			"`bfrc`.",
	}
	for _, name := range paperWorkflows() {
		r, err := s.workflow(ctx, name)
		if err != nil {
			return item, err
		}
		addZone(&item, names, name, "all", r.Deadlines)
		for z, groups := range r.Zones {
			item.Panels = append(item.Panels, addZone(&item, names, name, r.Markets[z].Name, groups))
		}
	}
	return item, nil
}

// addZone adds the rows of a workflow in a zone, and returns its panel of the figure.
func addZone(item *Item, names []string, workflow, zone string, groups []backtest.Group) chart.Panel {
	panel := chart.Panel{Title: workflow + " in " + zone, X: chart.Axis{Label: "deadline / time on the fastest type"},
		Y: chart.Axis{Label: "× on demand"}}
	lines := map[string][]chart.Point{}
	for i, group := range groups {
		row := Row{"workflow": workflow, "zone": zone, "deadline": deadlinesOfPaper()[i],
			"toAIB": group.Policies[backtest.BFRC].ToAIB}
		for _, p := range names {
			row[p] = group.Policies[p].ToOnDemand
			lines[p] = append(lines[p], chart.Point{X: deadlinesOfPaper()[i], Y: group.Policies[p].ToOnDemand})
		}
		item.Rows = append(item.Rows, row)
	}
	for _, p := range names {
		panel.Series = append(panel.Series, chart.Series{Name: p, Points: lines[p]})
	}
	return panel
}

// beatsAIB is the share of the runs in which a method costs less than AIB, and by how much it costs more in the others.
func beatsAIB(ctx context.Context, s *source) (Item, error) {
	item := Item{
		Title:   "share of runs that cost less than with AIB, and mean ratio of the others",
		Columns: []string{"workflow", "policy", "share", "ratioOfOthers"},
		PaperRows: []Row{
			{"workflow": "most", "policy": backtest.BFRC, "share": "above 0.9"},
			{"workflow": "Inspiral, one zone", "policy": backtest.BFRC, "share": 0.652},
			{"workflow": "all", "policy": backtest.BFRC, "ratioOfOthers": 1.011},
		},
		Note: wcssiNote,
	}
	for _, name := range paperWorkflows() {
		r, err := s.workflow(ctx, name)
		if err != nil {
			return item, err
		}
		for _, policy := range []string{backtest.BFRC, backtest.Markov} {
			p := r.Policies[policy]
			item.Rows = append(item.Rows, Row{"workflow": name, "policy": policy, "share": p.BelowAIB,
				"ratioOfOthers": p.AboveAIB})
		}
	}
	item.Note += fmt.Sprintf(" Deadlines of %v times the workflow's time, 30 starts in each zone.", deadlinesOfPaper())
	return item, nil
}
