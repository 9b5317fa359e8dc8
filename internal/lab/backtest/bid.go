package backtest

import (
	"context"
	"fmt"
	"math"
	"runtime"

	"golang.org/x/sync/errgroup"

	"github.com/tradewind-broker/tradewind/internal/bidding/policy"
	"github.com/tradewind-broker/tradewind/pkg/market"
)

// BidOptions configures Bid.
type BidOptions struct {
	Work     float64 // hours
	Deadline int     // whole hours
	Every    int     // hours between starts
	Train    float64 // share of each market that is history before the first start
	Restart  float64 // hours that every start of a machine takes, 0 to 1, rounded to minutes
	Policies []string
	// Informed makes our own policy learn its chain from the whole record. This shows how much of the gap to the
	// clairvoyant no chain can close.
	Informed bool
}

var errRestart = fmt.Errorf("%w: a restart must take at most an hour and must not be negative", ErrBadRequest)

func (o *BidOptions) check() error {
	switch {
	case !(o.Work > 0) || o.Work > 24*365:
		return fmt.Errorf("%w: the work must be more than zero and at most a year", ErrBadRequest)
	case float64(o.Deadline) < math.Ceil(o.Work+o.Restart):
		return fmt.Errorf("%w: the deadline must leave time for the work: at least %.0fh", ErrBadRequest,
			math.Ceil(o.Work+o.Restart))
	case o.Deadline > 24*365:
		return fmt.Errorf("%w: the deadline must be within a year", ErrBadRequest)
	case o.Every < 1:
		return fmt.Errorf("%w: starts must be at least an hour apart", ErrBadRequest)
	case !(o.Train > 0 && o.Train < 1):
		return fmt.Errorf("%w: the share for training must be between 0 and 1", ErrBadRequest)
	case !(o.Restart >= 0 && o.Restart <= 1):
		return errRestart
	}
	o.Restart = math.Round(o.Restart*60) / 60
	return nil
}

// Bid replays one task on each market, from every start after the training part. It skips markets that are too short
// for a run or have no on-demand price. Errors wrap ErrBadRequest, or are the context's.
func Bid(ctx context.Context, markets []*market.Market, o BidOptions) (*Report, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	names, err := choose(o.Policies)
	if err != nil {
		return nil, err
	}
	all, others := make([]sums, len(markets)), kin(markets)
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(runtime.GOMAXPROCS(0))
	for i, m := range markets {
		g.Go(func() (err error) {
			all[i], err = bidMarket(ctx, m, others[i], o, names)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	names = make([]string, len(markets))
	for i, m := range markets {
		names[i] = m.Name
	}
	return report(names, all)
}

// report combines the sums of all markets.
func report(names []string, all []sums) (*Report, error) {
	r := &Report{}
	total := sums{}
	for i, s := range all {
		if len(s) == 0 {
			r.Skipped = append(r.Skipped, names[i])
			continue
		}
		total.merge(s)
		r.Markets = append(r.Markets, Group{Name: names[i], Runs: s[OnDemand].runs, Policies: s.results()})
	}
	if len(total) == 0 {
		return nil, fmt.Errorf("%w: the data is too short for any run with this deadline", ErrBadRequest)
	}
	r.Policies, r.Runs = total.results(), total[OnDemand].runs
	return r, nil
}

// bidMarket replays one market.
func bidMarket(ctx context.Context, m *market.Market, kin []market.Past, o BidOptions, names []string) (sums, error) {
	hourly := m.Spot.Hourly()
	prices := hourly.USD
	first := int(float64(len(prices)) * o.Train)
	if m.OnDemandUSD <= 0 || first < 1 || first+o.Deadline > len(prices) {
		return nil, nil
	}
	bidders, err := bidders(ctx, names, prices[:first], m.OnDemandUSD, o)
	if err != nil {
		return nil, err
	}
	if o.Informed {
		bidders[Markov] = func() policy.Bidder { return policy.NewInformed(ctx, m.OnDemandUSD, prices) }
	}
	s := sums{}
	for start := first; start+o.Deadline <= len(prices); start += o.Every {
		run := map[string]outcome{}
		for _, name := range names {
			if name == Clairvoyant {
				run[name] = outcome{
					usd: optimalBidCost(prices[start:start+o.Deadline], m.OnDemandUSD, o.Work, o.Restart),
				}
				continue
			}
			t := &Timeline{}
			if run[name], err = replay(bidders[name](), hourly, start, m.OnDemandUSD, o, kin, t); err != nil {
				return nil, err
			}
		}
		s.add(run)
		if err := ctx.Err(); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// maxKin is the maximum number of other zones that a policy sees. More add little information and take time.
const maxKin = 4

// kin returns other markets of each market's type, on the scale of market.WeekHour. A policy sees only their prices
// before its hour.
func kin(markets []*market.Market) [][]market.Past {
	hourly := make([]market.Hourly, len(markets))
	types := map[string][]int{}
	for i, m := range markets {
		hourly[i] = m.Spot.Hourly()
		types[m.Type] = append(types[m.Type], i)
	}
	out := make([][]market.Past, len(markets))
	for i, m := range markets {
		for _, k := range types[m.Type] {
			if markets[k] != m && len(hourly[k].USD) > 0 && len(out[i]) < maxKin {
				out[i] = append(out[i], market.Past{
					USD: hourly[k].USD, First: market.WeekHour(hourly[k].Start), CapUSD: markets[k].OnDemandUSD,
				})
			}
		}
	}
	return out
}

// Run replays one run of a policy on market m and returns its timeline. start is an index into the hourly prices; all
// prices before it are history. others are additional markets that the policy may learn from. Errors wrap
// ErrBadRequest, or are the context's.
func Run(ctx context.Context, m *market.Market, others []*market.Market, o BidOptions, policy string,
	start int) (*Timeline, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	hourly := m.Spot.Hourly()
	prices := hourly.USD
	if m.OnDemandUSD <= 0 || start < 1 || start+o.Deadline > len(prices) {
		return nil, fmt.Errorf("%w: no run of %s fits at hour %d of %d", ErrBadRequest, m.Name, start, len(prices))
	}
	names, err := choose([]string{policy})
	if err != nil {
		return nil, err
	}
	made, err := bidders(ctx, names, prices[:start], m.OnDemandUSD, o)
	if err != nil {
		return nil, err
	}
	if made[policy] == nil {
		return nil, fmt.Errorf("%w: %s has no timeline", ErrBadRequest, policy)
	}
	t := &Timeline{}
	known := kin(append([]*market.Market{m}, others...))[0]
	out, err := replay(made[policy](), hourly, start, m.OnDemandUSD, o, known, t)
	t.USD = out.usd
	return t, err
}

// bidders returns, for each policy, a function that creates a bidder for one run.
func bidders(ctx context.Context, names []string, history []float64, onDemand float64,
	o BidOptions) (map[string]func() policy.Bidder, error) {
	known := map[string]func() policy.Bidder{
		OnDemand: func() policy.Bidder { return policy.AlwaysOnDemand{} },
		Spot:     func() policy.Bidder { return policy.AlwaysSpot{OnDemandUSD: onDemand} },
		Greedy:   func() policy.Bidder { return policy.Greedy{OnDemandUSD: onDemand} },
		AIB:      func() policy.Bidder { return &policy.AIB{OnDemandUSD: onDemand} },
		UniformProgress: func() policy.Bidder {
			return policy.UniformProgress{OnDemandUSD: onDemand, Work: o.Work, Deadline: float64(o.Deadline)}
		},
		Markov: func() policy.Bidder { return policy.NewMarkov(ctx, onDemand) },
	}
	for _, name := range names {
		if name == BFRC {
			paper, err := policy.NewBFRC(ctx, history, int(math.Ceil(o.Work)), o.Deadline, onDemand)
			if err != nil {
				return nil, err
			}
			known[BFRC] = func() policy.Bidder { return paper.Run() }
		}
	}
	return known, nil
}
