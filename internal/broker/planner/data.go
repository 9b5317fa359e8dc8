package planner

import (
	"slices"

	"github.com/tradewind-broker/tradewind/pkg/catalog"
	"github.com/tradewind-broker/tradewind/pkg/dag"
)

// data is where data lies and what it costs to move it, as a model has it: tasks leave theirs in the store of the place
// where they run, and who reads it reads it there.
type data struct {
	places     []string // those of the market, and those of buckets that are apart from them
	usd, hours [][]float64
	store      []int       // of each place, its store's; nil where each has its own
	buckets    map[int]int // of a place with a bucket that a task reads: its number as such
}

// whereDataLies finds the store of each place for the job. ok is false where none lies in what the job allows.
func (b *builder) whereDataLies() (d data, ok bool) {
	d = data{places: b.places, usd: b.market.usd, hours: b.hours}
	if len(b.p.opt.Stores.URLs) == 0 {
		return d, true
	}
	store, apart := make([]int, len(d.places)), false
	for i, place := range d.places {
		_, at, ok := b.p.opt.Stores.For(place, b.in.Spec.Regions)
		if !ok {
			return d, false
		}
		if store[i], ok = b.number[at]; !ok {
			store[i] = i // a place that the catalogue does not know
		}
		apart = apart || store[i] != i
	}
	if !apart {
		return d, true
	}
	d.store, d.buckets = store, map[int]int{}
	usd, hours := make([][]float64, len(store)), make([][]float64, len(store))
	for i, s := range store {
		usd[i], hours[i] = b.market.usd[s], b.hours[s]
	}
	for _, place := range b.bucketsRead() {
		if store[place] == place {
			continue
		}
		d.buckets[place] = len(usd)
		d.places = append(slices.Clip(d.places), d.places[place]+" bucket")
		usd, hours = append(usd, b.market.usd[place]), append(hours, b.hours[place])
	}
	d.usd, d.hours = square(usd), square(hours)
	return d, true
}

// bucketsRead are the places of the buckets that tasks of the job read.
func (b *builder) bucketsRead() (places []int) {
	for i := range b.in.Spec.Tasks {
		for _, in := range b.in.Spec.Tasks[i].Inputs {
			if p, ok := b.number[b.p.moves.PlaceOf(in.URI)]; ok && in.Size > 0 && !slices.Contains(places, p) {
				places = append(places, p)
			}
		}
	}
	return places
}

// square fills rows up to as many columns as there are rows: nothing moves to a bucket that is only read.
func square(rows [][]float64) [][]float64 {
	for i := range rows {
		if lacks := len(rows) - len(rows[i]); lacks > 0 {
			rows[i] = append(slices.Clip(rows[i]), make([]float64, lacks)...)
		}
	}
	return rows
}

// bucketAt is the number of a place as that of a bucket there, whose data does not come by a store.
func (d *data) bucketAt(place int) int {
	if n, apart := d.buckets[place]; apart {
		return n
	}
	return place
}

// leave adds to an option what it costs and takes to bring what a task leaves to the store.
func (b *builder) leave(t *dag.Task, o *option) {
	if b.data.store == nil {
		return
	}
	gib, store := float64(leaves(t)), b.data.store[o.Place]
	o.movesUSD = gib * b.market.usd[o.Place][store]
	hours := gib * b.hours[o.Place][store]
	o.USD += o.movesUSD
	o.Hours += hours
	o.expected += hours
}

// keepUSD is what keeping what a task leaves costs where its option has it, USD a month.
func (d *data) keepUSD(t *dag.Task, o *option) float64 {
	place := o.Place
	if d.store != nil {
		place = d.store[place]
	}
	return float64(leaves(t)) * catalog.StorageUSD(d.places[place])
}

// leaves is how much data a task leaves to be kept, as far as its author says.
func leaves(t *dag.Task) (sum dag.GiB) {
	for i := range t.Outputs {
		sum += t.Outputs[i].Size
	}
	return sum
}
