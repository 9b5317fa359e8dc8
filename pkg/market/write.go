package market

import (
	"encoding/csv"
	"io"
	"sort"
	"strconv"
	"time"
)

// WriteQuotes writes markets to one file in the format that ReadMarkets reads, with all price changes in time order.
func WriteQuotes(w io.Writer, markets []*Market) error {
	out := csv.NewWriter(w)
	if err := out.Write([]string{columnTime, columnType, columnAccel, columnCount, columnZone, columnSpot,
		columnOnDemand}); err != nil {
		return err
	}
	type row struct{ market, entry int }
	var rows []row
	for m := range markets {
		for e := range markets[m].Spot.Len() {
			rows = append(rows, row{m, e})
		}
	}
	sort.SliceStable(rows, func(i, j int) bool {
		a, b := rows[i], rows[j]
		return markets[a.market].Spot.at[a.entry] < markets[b.market].Spot.at[b.entry]
	})
	for _, r := range rows {
		m := markets[r.market]
		onDemand := ""
		if m.OnDemandUSD > 0 {
			onDemand = number(m.OnDemandUSD)
		}
		at := m.Spot.At(r.entry).Format(time.RFC3339Nano)
		if err := out.Write([]string{at, m.Type, "", "", m.Zone, number(m.Spot.USD(r.entry)), onDemand}); err != nil {
			return err
		}
	}
	out.Flush()
	return out.Error()
}

func number(x float64) string { return strconv.FormatFloat(x, 'g', -1, 64) }

// Merge appends the prices of another record of the same market that are later than the market's last price. It
// returns how many it added.
func (m *Market) Merge(other *Market) (added int, err error) {
	for i := range other.Spot.Len() {
		if _, last := m.Spot.Span(); m.Spot.Len() > 0 && !other.Spot.At(i).After(last) {
			continue
		}
		if err := m.Spot.Append(other.Spot.At(i), other.Spot.USD(i)); err != nil {
			return added, err
		}
		added++
	}
	if other.OnDemandUSD > 0 {
		m.OnDemandUSD = other.OnDemandUSD
	}
	return added, nil
}
