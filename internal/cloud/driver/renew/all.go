package renew

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/tradewind-broker/tradewind/internal/cloud/driver"
	"github.com/tradewind-broker/tradewind/pkg/catalog"
)

// ErrNoAnswer means that no cloud could list its offers; the old data stays valid.
var ErrNoAnswer = errors.New("no cloud could list its offers")

// Source is a cloud that can list its offers.
type Source struct {
	Cloud   string // the catalogue's name of it
	Refresh driver.Refresh
}

// Report is the result of refreshing one cloud's offers.
type Report struct {
	Cloud   string    `json:"cloud"`
	Renewed bool      `json:"renewed"`           // if false, the old data stays valid
	At      time.Time `json:"at"`                // time of the request
	Problem string    `json:"problem,omitempty"` // why the offers were not renewed
	Offers  int       `json:"offers"`            // number of offers that the cloud sells
	Diff
	Kept []string `json:"kept,omitempty"` // the parts that were not renewed although the others were, with the reason
}

// Diff is the changes of a cloud's offers. An offer counts once per market.
type Diff struct {
	New     int      `json:"new"`
	Gone    int      `json:"gone"`
	Dearer  int      `json:"dearer"`
	Cheaper int      `json:"cheaper"`
	Largest []Change `json:"largest,omitempty"` // the largest relative price changes, largest first
}

// Change is a changed price, in USD per hour.
type Change struct {
	Offer  string  `json:"offer"` // its ID, with the market
	WasUSD float64 `json:"wasUSD"`
	USD    float64 `json:"usd"`
}

// Share is the relative change of the price: 0.1 is a rise by 10%, below 0 is a fall.
func (c Change) Share() float64 { return c.USD/c.WasUSD - 1 }

// All refreshes the sources one after the other, each based on the result of the previous one, and reports the
// changes. A cloud that fails, or whose list cannot be read, keeps its old offers. All fails with ErrNobody if no
// cloud answered, and with the context's error when the context ends.
func All(ctx context.Context, s driver.Snapshots, now func() time.Time, sources []Source) ([]Report, error) {
	var reports []Report
	answered := 0
	var errs []error
	for _, source := range sources {
		r := Report{Cloud: source.Cloud, At: now().UTC()}
		if err := one(ctx, s, source, &r); err != nil {
			if ctx.Err() != nil {
				return reports, ctx.Err()
			}
			r.Problem = err.Error()
			errs = append(errs, fmt.Errorf("cloud %s: %w", source.Cloud, err))
		} else {
			r.Renewed = true
			answered++
		}
		reports = append(reports, r)
	}
	if answered == 0 {
		return reports, fmt.Errorf("%w: %w", ErrNoAnswer, errors.Join(errs...))
	}
	return reports, nil
}

func one(ctx context.Context, s driver.Snapshots, source Source, r *Report) error {
	before, _, err := Last(ctx, s, nil)
	if err != nil {
		return err
	}
	res, err := source.Refresh(ctx, s)
	if err != nil {
		return err
	}
	after, _, err := Last(ctx, s, nil)
	if err != nil {
		return err
	}
	r.Offers, r.Kept, r.Diff = res.Offers, res.Kept, Compare(before, after, source.Cloud)
	return nil
}

// maxChanges is the maximum number of price changes that a Diff lists.
const maxChanges = 10

// minChange is the smallest relative price change that counts: catalogues store more digits than clouds do.
const minChange = 1e-6

// Compare returns the changes of a cloud's offers from one catalogue to another.
func Compare(before, after *catalog.Catalog, cloud string) (d Diff) {
	of := func(o *catalog.Offer) bool { return o.Cloud == cloud }
	was, is := prices(before, of), prices(after, of)
	var changed []Change
	for id, usd := range is {
		old, known := was[id]
		switch {
		case !known:
			d.New++
			continue
		case usd > old*(1+minChange):
			d.Dearer++
		case usd < old*(1-minChange):
			d.Cheaper++
		default:
			continue
		}
		changed = append(changed, Change{Offer: id, WasUSD: old, USD: usd})
	}
	for id := range was {
		if _, still := is[id]; !still {
			d.Gone++
		}
	}
	slices.SortFunc(changed, func(a, b Change) int {
		return cmp.Or(cmp.Compare(factor(b), factor(a)), cmp.Compare(a.Offer, b.Offer))
	})
	d.Largest = changed[:min(len(changed), maxChanges)]
	return d
}

// factor measures the change of a price. A doubled and a halved price give the same value.
func factor(c Change) float64 { return math.Abs(math.Log(c.USD / c.WasUSD)) }

// prices returns the prices of the matching offers on each market, by ID.
func prices(c *catalog.Catalog, of func(*catalog.Offer) bool) map[string]float64 {
	all := map[string]float64{}
	for _, o := range Collect(c, of) {
		for _, market := range []catalog.Market{catalog.OnDemand, catalog.Spot} {
			if usd, sold := o.USDPerHour(market); sold && usd > 0 {
				m := catalog.Match{Offer: o, Market: market}
				all[m.ID()] = usd
			}
		}
	}
	return all
}

// Part returns a snapshot with only one cloud's offers.
func Part(ctx context.Context, s driver.Snapshots, cloud string) (*driver.Memory, error) {
	last, _, err := Last(ctx, s, nil)
	if err != nil {
		return nil, err
	}
	part, err := last.Replace(func(o *catalog.Offer) bool { return o.Cloud != cloud }, nil)
	if err != nil {
		return nil, err
	}
	m := driver.NewMemory(nil)
	return m, Save(ctx, m, part)
}

// Merge replaces one cloud's offers in snapshot s by those of snapshot part.
func Merge(ctx context.Context, s, part driver.Snapshots, cloud string) error {
	data, _, err := part.Get(ctx, "")
	if err != nil {
		return err
	}
	fresh, err := catalog.ReadSnapshot(data)
	if err != nil {
		return err
	}
	last, _, err := Last(ctx, s, nil)
	if err != nil {
		return err
	}
	of := func(o *catalog.Offer) bool { return o.Cloud == cloud }
	var offers []catalog.Offer
	for o := range fresh.All() {
		if of(&o) {
			offers = append(offers, o)
		}
	}
	if len(offers) == 0 {
		return fmt.Errorf("%w: cloud %s sends a catalogue without any of its own offers", catalog.ErrBadSnapshot, cloud)
	}
	next, err := last.Replace(of, offers)
	if err != nil {
		return err
	}
	var mine []catalog.Reserved
	for _, r := range fresh.Reserved() {
		if r.Cloud == cloud {
			mine = append(mine, r)
		}
	}
	if next, err = next.WithReserved(func(r *catalog.Reserved) bool { return r.Cloud == cloud }, mine); err != nil {
		return err
	}
	return Save(ctx, s, next)
}
