package backtest

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"sort"

	"golang.org/x/sync/errgroup"

	"github.com/tradewind-broker/tradewind/internal/bidding/workflow"
	"github.com/tradewind-broker/tradewind/pkg/dag"
	"github.com/tradewind-broker/tradewind/pkg/market"
)

// WorkflowOptions configures Workflow.
type WorkflowOptions struct {
	// Deadlines are multiples of the workflow's time on the most powerful type, with the starts of machines, as in the
	// paper: from 1.1 to 3.
	Deadlines []float64
	Repeats   int    // runs for each deadline and zone, with random starts
	Seed      uint64 // of the starts
	Train     float64
	// Hours is the workflow's time on the most powerful type. Recorded run times are scaled to it, because the
	// paper's model counts in hours.
	Hours    float64
	Restart  float64 // hours that every start of a machine takes, 0 to 1
	Policies []string
	// PathBound adds the paper's lower bound to the results, by the name workflow.PathBound.
	PathBound bool
}

func (o *WorkflowOptions) check(job *dag.Job) error {
	switch {
	case len(o.Deadlines) == 0:
		return fmt.Errorf("%w: at least one deadline is required", ErrBadRequest)
	case o.Repeats < 1 || o.Repeats > 1e5:
		return fmt.Errorf("%w: the number of repeats must be from 1 to 100000", ErrBadRequest)
	case !(o.Train > 0 && o.Train < 1):
		return fmt.Errorf("%w: the share for training must be between 0 and 1", ErrBadRequest)
	case !(o.Hours > 0 && o.Hours <= 24*30):
		return fmt.Errorf("%w: the time of the workflow must be more than zero and at most 30 days", ErrBadRequest)
	case !(o.Restart >= 0 && o.Restart <= 1):
		return errRestart
	case job.TotalRecorded() <= 0:
		return fmt.Errorf("%w: the workflow has no recorded run times", ErrBadRequest)
	}
	for _, d := range o.Deadlines {
		if !(d >= 1 && d <= 100) {
			return fmt.Errorf("%w: a deadline must be from 1 to 100 times the workflow's own time, not %v",
				ErrBadRequest, d)
		}
	}
	return nil
}

// WorkflowReport is a report that also has results by deadline.
type WorkflowReport struct {
	Report
	Deadlines []Group `json:"deadlines"`
	// Zones are the results by deadline in each zone of Markets.
	Zones [][]Group `json:"-"`
}

// Workflow runs the paper's experiment (WCSSI, section 4): a DAG on the spot markets of one zone, with several
// deadlines, from random starts. Every task has a separate machine. The speed of a machine type is proportional to
// its on-demand price, as in the paper, where a unit of computing costs the same on all types. Prices change once an
// hour; a part of an hour is billed as such. A start of a machine is paid, too. Zones in which no run fits are skipped.
// Errors wrap ErrBadRequest, or are the context's.
func Workflow(ctx context.Context, job *dag.Job, markets []*market.Market, o WorkflowOptions) (*WorkflowReport, error) {
	if err := o.check(job); err != nil {
		return nil, err
	}
	names, err := choose(o.Policies, OnDemand, Spot, AIB, BFRC, Markov, Clairvoyant)
	if err != nil {
		return nil, err
	}
	if o.PathBound {
		names = append(slices.Clone(names), workflow.PathBound)
	}
	zones := byZone(markets)
	byDeadline := make([][]sums, len(zones))
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(runtime.GOMAXPROCS(0))
	titles := make([]string, len(zones))
	for i, z := range zones {
		titles[i] = z[0].Zone
		g.Go(func() (err error) {
			byDeadline[i], err = workflowZone(ctx, job, z, o, names, uint64(i)) //nolint:gosec // an index
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	all := make([]sums, len(zones))
	perDeadline := make([]sums, len(o.Deadlines))
	for i, zone := range byDeadline {
		all[i] = sums{}
		for d, s := range zone {
			all[i].merge(s)
			if perDeadline[d] == nil {
				perDeadline[d] = sums{}
			}
			perDeadline[d].merge(s)
		}
	}
	r, err := report(titles, all)
	if err != nil {
		return nil, err
	}
	out := &WorkflowReport{Report: *r}
	out.Deadlines = deadlineGroups(o.Deadlines, perDeadline)
	for _, zone := range byDeadline {
		if len(zone) > 0 {
			out.Zones = append(out.Zones, deadlineGroups(o.Deadlines, zone))
		}
	}
	return out, nil
}

func deadlineGroups(deadlines []float64, all []sums) (groups []Group) {
	for d, s := range all {
		groups = append(groups, Group{Name: fmt.Sprint(deadlines[d]), Runs: s[OnDemand].runs, Policies: s.results()})
	}
	return groups
}

// byZone groups the markets that have an on-demand price by zone, in order.
func byZone(markets []*market.Market) (zones [][]*market.Market) {
	at := map[string]int{}
	for _, m := range markets {
		if m.OnDemandUSD <= 0 {
			continue
		}
		i, known := at[m.Zone]
		if !known {
			i = len(zones)
			at[m.Zone], zones = i, append(zones, nil)
		}
		zones[i] = append(zones[i], m)
	}
	sort.Slice(zones, func(i, j int) bool { return zones[i][0].Zone < zones[j][0].Zone })
	return zones
}

// workflowZone replays a workflow in one zone for each deadline. It returns nil if no run fits.
func workflowZone(ctx context.Context, job *dag.Job, markets []*market.Market, o WorkflowOptions, names []string,
	stream uint64) ([]sums, error) {
	prices, length := align(markets)
	first := int(float64(length) * o.Train)
	if first < 2 {
		return nil, nil
	}
	types := make([]workflow.Type, len(markets))
	for i, m := range markets {
		types[i] = workflow.Type{Name: m.Type, OnDemandUSD: m.OnDemandUSD, USD: prices[i]}
	}
	w, err := workflow.New(ctx, job, types, o.Hours, o.Restart, first)
	if err != nil {
		return nil, err
	}
	room := length - first - int(math.Ceil(slices.Max(o.Deadlines)*w.Hours()-1e-9)) - 1
	if room < 1 {
		return nil, nil
	}
	random := rand.New(rand.NewPCG(o.Seed, stream)) //nolint:gosec // starts of a back-test, by seed
	out := make([]sums, len(o.Deadlines))
	for d, multiple := range o.Deadlines {
		out[d] = sums{}
		for range o.Repeats {
			start := first + random.IntN(room)
			run := map[string]outcome{}
			for _, name := range names {
				got, err := w.Run(ctx, name, start, multiple*w.Hours())
				if err != nil {
					return nil, err
				}
				run[name] = outcome{usd: got.USD, missed: got.Missed, interruptions: got.Interruptions}
			}
			out[d].add(run)
		}
	}
	return out, nil
}

// align aligns hourly prices to the hour in which the last market begins.
func align(markets []*market.Market) (prices [][]float64, length int) {
	hourly := make([]market.Hourly, len(markets))
	begin := markets[0].Spot.Hourly().Start
	for i, m := range markets {
		hourly[i] = m.Spot.Hourly()
		if hourly[i].Start.After(begin) {
			begin = hourly[i].Start
		}
	}
	length = math.MaxInt
	for _, h := range hourly {
		skip := min(int(begin.Sub(h.Start).Hours()), len(h.USD))
		prices = append(prices, h.USD[skip:])
		length = min(length, len(h.USD)-skip)
	}
	return prices, length
}
