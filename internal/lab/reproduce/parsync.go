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

const exclusiveNote = "`static` and `lock` are the paper's section 4 without its parameters: static partitions are " +
	"one twentieth of the slots for each scheduler, which knows their state; with `lock`, a scheduler asks for the " +
	"lock of a random partition every 75 ms, and waits for the next time if another scheduler has it."

// policies is the comparison of the policies over five phases of load.
func policies(ctx context.Context, _ *source) (Item, error) {
	item := Item{
		Title:   "delay and quality of each policy at 50, 80, 95, 80 and 50 % load",
		Columns: []string{"policy", "delay", "quality", "conflictsPerTask", "phases"},
		PaperRows: []Row{
			{"policy": "latency", "delay": "least", "quality": "falls with the load"},
			{"policy": "parsync", "delay": "between", "quality": "falls with the load"},
			{"policy": "quality", "delay": "not controlled, below StateSync", "quality": "as StateSync"},
			{"policy": "statesync", "delay": "not controlled", "quality": "best"},
			{"policy": "static", "conflictsPerTask": 0}, {"policy": "lock", "conflictsPerTask": 0},
		},
		Note: tunnelNote + " `parsync` is the adaptive policy. " + exclusiveNote + " In this experiment, `static` " +
			"has no disadvantage, because each scheduler's tasks fit into its own slots: see the item `exclusive`.",
	}
	var runs []*windtunnel.Result
	for _, policy := range []parsync.Policy{parsync.LatencyFirst, parsync.Adaptive, parsync.QualityFirst,
		parsync.StateSync, windtunnel.Static, windtunnel.Lock} {
		r, err := windtunnel.Run(ctx, tunnel([][]float64{{0.5, 0.8, 0.95, 0.8, 0.5}}, policy))
		if err != nil {
			return item, err
		}
		row := Row{"policy": string(policy), "conflictsPerTask": r.Total.PerTask}
		item.Rows = append(item.Rows, means(r.Phases, row))
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

// exclusive is the cost of a static partition and of a lock if half of the schedulers need more slots than their share.
func exclusive(ctx context.Context, _ *source) (Item, error) {
	item := Item{
		Title:   "half of the schedulers need 1.4 times their share of the slots, the others 0.42 times",
		Columns: []string{"policy", "delayLoaded", "delayOthers", "used", "waiting", "conflictsPerTask"},
		PaperRows: []Row{
			{"policy": "static", "used": "wastes slots that others could use", "conflictsPerTask": 0},
			{"policy": "lock", "delayLoaded": "suffers from frequent locking", "conflictsPerTask": 0},
		},
		Note: tunnelNote + " " + exclusiveNote + " The paper describes both only in words. Here the load is 100 % " +
			"and 30 %, and a task holds its slot for 7 s instead of 5 s: all tasks together need 91 % of the slots. " +
			"`used` is the share of the slots in use in the last 15 s, `waiting` the tasks at the end.",
	}
	for _, policy := range []parsync.Policy{parsync.LatencyFirst, parsync.Adaptive, windtunnel.Static,
		windtunnel.Lock} {
		c := tunnel([][]float64{{1, 1, 1}, {0.3, 0.3, 0.3}}, policy)
		c.Hold = 7 * time.Second
		r, err := windtunnel.Run(ctx, c)
		if err != nil {
			return item, err
		}
		last := len(r.Phases) - 1
		item.Rows = append(item.Rows, Row{
			"policy": string(policy), "delayLoaded": r.Classes[0][last].DelaySeconds,
			"delayOthers": r.Classes[1][last].DelaySeconds, "used": r.Phases[last].Used,
			"waiting": r.Phases[last].Waiting, "conflictsPerTask": r.Total.PerTask,
		})
	}
	return item, nil
}
