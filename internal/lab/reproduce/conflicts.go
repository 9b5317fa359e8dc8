package reproduce

import (
	"context"
	"fmt"
	"time"

	"github.com/tradewind-broker/tradewind/internal/base/chart"
	"github.com/tradewind-broker/tradewind/internal/lab/windtunnel"
	"github.com/tradewind-broker/tradewind/pkg/parsync"
)

// sweep is one of the paper's four figures on conflicts: the slots that a cluster needs besides those in use, by one
// parameter.
type sweep struct {
	title, parameter string
	expect           string // what the paper says
	values           []float64
	set              func(c *windtunnel.Config, value float64)
	note             string
}

const (
	perScheduler = 200.0  // tries a second, of any number of schedulers
	arrivals     = 1500.0 // tasks a second, unless the rate is the parameter
	maxDelay     = 100 * time.Millisecond
)

func arriving(c *windtunnel.Config, perSecond float64) {
	load := perSecond / c.Rate
	c.Load = [][]float64{{load, load, load}}
}

var (
	byRate = sweep{
		title: "extra slots by the rate of tasks (R)", parameter: "tasksPerSecond", expect: "grows with R",
		values: []float64{1000, 1400, 1600, 1800}, set: arriving,
	}
	byGap = sweep{
		title: "extra slots by the time between two synchronisations (G)", parameter: "gapSeconds",
		expect: "grows with G", values: []float64{0.25, 0.5, 1},
		set: func(c *windtunnel.Config, v float64) { c.Gap = time.Duration(v * float64(time.Second)) },
	}
	byVariance = sweep{
		title: "extra slots by the variance of the machines' scores (V)", parameter: "variance",
		expect: "grows with V", values: []float64{0, 0.01, 0.04},
		set: func(c *windtunnel.Config, v float64) { c.ScoreVariance = v },
		note: " A scheduler takes the better of two slots, so only their order counts: more variance than that makes " +
			"no difference here.",
	}
	byPartitions = sweep{
		title: "extra slots by the number of partitions (P)", parameter: "partitions", expect: "hardly depends on P",
		values: []float64{50, 100, 200},
		set: func(c *windtunnel.Config, v float64) {
			c.Partitions, c.Policy = int(v), parsync.QualityFirst
		},
		note: " Schedulers synchronise one partition after another, and take slots of any partition; the model is of " +
			"views that are synchronised at once.",
	}
)

// run finds the extra slots for each value and 10, 20 and 40 schedulers.
func (s sweep) run(ctx context.Context, _ *source) (Item, error) {
	item := Item{
		Title:   s.title,
		Columns: []string{s.parameter, "schedulers", "extraSlots", "inUse", "conflictsPerTask", "model"},
		PaperRows: []Row{
			{s.parameter: s.expect, "schedulers": "fewer extra slots with more schedulers"},
		},
		Note: "The paper gives no numbers for its plots. Each scheduler tries 200 tasks a second. Over all " +
			"schedulers, 1,500 tasks arrive a second. A task holds its slot for 5 s, and a view is synchronised " +
			"every 0.5 s. One of these values may be the table's parameter. `extraSlots` is the least number of " +
			"slots, besides those in use, with which a task waits 0.1 s or less on average. With it, the schedulers " +
			"have enough tries to make up for those that conflicts waste. `model` is the number of " +
			"conflicts for each task that the refined formula (parsync.TurnoverConflicts) expects." + s.note,
	}
	panel := chart.Panel{
		Title: "Extra slots", X: chart.Axis{Label: s.parameter}, Y: chart.Axis{Label: "slots", Log: true},
	}
	for _, n := range []int{10, 20, 40} {
		series := chart.Series{Name: fmt.Sprint(n, " schedulers")}
		for _, value := range s.values {
			c := windtunnel.Config{
				Schedulers: n, Partitions: 50, Rate: perScheduler * float64(n), Phase: 20 * time.Second,
				Hold: 5 * time.Second, Policy: parsync.StateSync, Gap: 500 * time.Millisecond,
				Candidates: windtunnel.DefaultCandidates, Seed: 1,
			}
			arriving(&c, arrivals)
			s.set(&c, value)
			x, err := windtunnel.FindExtra(ctx, c, maxDelay)
			if err != nil {
				return item, err
			}
			row := Row{
				s.parameter: value, "schedulers": n, "extraSlots": x.Slots, "inUse": x.InUse,
				"conflictsPerTask": x.PerTask,
			}
			if x.Expected > 0 {
				row["model"] = x.Expected
			}
			item.Rows = append(item.Rows, row)
			series.Points = append(series.Points, chart.Point{X: value, Y: float64(x.Slots)})
		}
		panel.Series = append(panel.Series, series)
	}
	item.Panels = []chart.Panel{panel}
	return item, nil
}
