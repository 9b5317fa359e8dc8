package reproduce

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/tradewind-broker/tradewind/internal/lab/windtunnel"
	"github.com/tradewind-broker/tradewind/pkg/parsync"
)

// tunnel is the paper's setting: 20 schedulers, 200,000 slots, 40,000 tasks a second. The paper does not give the
// time between two synchronisations, how alike the machines of a partition are, or how StateSync chooses among all
// slots. The values here are those, of a search, for which all policies differ.
func tunnel(load [][]float64, policy parsync.Policy) windtunnel.Config {
	return windtunnel.Config{
		Schedulers: 20, Partitions: 40, Slots: 200_000, Rate: 40_000, Load: load, Phase: 15 * time.Second,
		Policy: policy,
		Gap:    3 * time.Second, Switch: parsync.DefaultSwitch, ScoreVariance: windtunnel.DefaultVariance, Alike: 0.8,
		Candidates: 200, Seed: 1,
	}
}

const tunnelNote = "The wind tunnel is simulated in virtual time. The paper gives no numbers for its plots, no " +
	"synchronisation delay and no scores; here a slot's state is refreshed every 3 s, the scores of a partition's " +
	"slots correlate with 0.8, and StateSync takes the best of 200 slots. The delay is in seconds. The quality is " +
	"the mean score of the slots taken, relative to the best slots of the cluster, as many as are in use."

// policies is the comparison of the policies over five phases of load.
func policies(ctx context.Context, _ *source) (Item, error) {
	item := Item{
		Title:   "delay and quality of each policy at 50, 80, 95, 80 and 50 % load",
		Columns: []string{"policy", "delay", "quality", "phases"},
		PaperRows: []Row{
			{"policy": "latency", "delay": "least", "quality": "falls with the load"},
			{"policy": "parsync", "delay": "between", "quality": "falls with the load"},
			{"policy": "quality", "delay": "not controlled, below StateSync", "quality": "as StateSync"},
			{"policy": "statesync", "delay": "not controlled", "quality": "best"},
		},
		Note: tunnelNote + " `parsync` is the adaptive policy.",
	}
	var runs []*windtunnel.Result
	for _, policy := range []parsync.Policy{parsync.LatencyFirst, parsync.Adaptive, parsync.QualityFirst,
		parsync.StateSync} {
		r, err := windtunnel.Run(ctx, tunnel([][]float64{{0.5, 0.8, 0.95, 0.8, 0.5}}, policy))
		if err != nil {
			return item, err
		}
		item.Rows = append(item.Rows, means(r.Phases, Row{"policy": string(policy)}))
		runs = append(runs, r)
	}
	item.Panels = windtunnel.Panels(runs)[:2] // delay and quality
	return item, nil
}

// means adds the delay and the quality of all tasks, and of each phase, to a row. The quality is relative to the ideal
// if the phases have it.
func means(phases []windtunnel.Phase, row Row) Row {
	tasks, delay, quality, text := 0.0, 0.0, 0.0, ""
	for _, p := range phases {
		n, q := float64(p.Tasks), p.Quality/cmp.Or(p.Ideal, 1)
		tasks, delay, quality = tasks+n, delay+n*p.DelaySeconds, quality+n*q
		text += fmt.Sprintf("%.2f s/%.3f ", p.DelaySeconds, q)
	}
	row["delay"], row["quality"], row["phases"] = delay/max(tasks, 1), quality/max(tasks, 1), text
	return row
}

// classes is the experiment with two classes of schedulers, of which one gets more load first.
func classes(ctx context.Context, _ *source) (Item, error) {
	item := Item{
		Title:   "two classes of schedulers: A at 2/3, all, all of its capacity, B at 2/3, 2/3, all",
		Columns: []string{"policy", "class", "delay", "quality", "phases"},
		PaperRows: []Row{
			{"policy": "quality", "class": "A and B", "delay": "grows in phases 2 and 3", "quality": "good throughout"},
			{"policy": "latency", "class": "A and B", "delay": "hardly grows", "quality": "falls with the load"},
			{"policy": "parsync", "class": "A", "delay": "below 1.5 s", "quality": "below B in phase 2"},
			{"policy": "parsync", "class": "B", "delay": "below 1.5 s", "quality": "above A in phase 2"},
		},
		Note: tunnelNote,
	}
	load := [][]float64{{2. / 3, 1, 1}, {2. / 3, 2. / 3, 1}}
	for _, policy := range []parsync.Policy{parsync.QualityFirst, parsync.LatencyFirst, parsync.Adaptive} {
		r, err := windtunnel.Run(ctx, tunnel(load, policy))
		if err != nil {
			return item, err
		}
		for i, phases := range r.Classes {
			row := Row{"policy": string(policy), "class": string(rune('A' + i))}
			item.Rows = append(item.Rows, means(phases, row))
		}
	}
	item.Note += " In this table the quality is the mean score itself, because the classes share one cluster."
	return item, nil
}
