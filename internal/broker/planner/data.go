package planner

import (
	"slices"

	"github.com/tradewind-broker/tradewind/pkg/catalog"
	"github.com/tradewind-broker/tradewind/pkg/dag"
)

// data has the places of data in a model and the cost of moving data. Tasks write their outputs to the store of the
// place where they run, and later tasks read them there.
type data struct {
	places     []string // the market's places, and extra places for buckets that are not reached through a store
	usd, hours [][]float64
	store      []int       // the place of each place's store; nil if each place has its own store
	buckets    map[int]int // the extra place of each place that has a bucket which a task reads
}

// placeData finds the job's store for each place. ok is false if no store is in the job's regions.
func (b *builder) placeData() (d data, ok bool) {
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
			store[i] = i // the catalogue does not know the store's place
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

// bucketsRead returns the places of the buckets that tasks of the job read.
func (b *builder) bucketsRead() (places []int) {
	for i := range b.in.Spec.Tasks {
		for _, in := range b.in.Spec.Tasks[i].Inputs {
			if p, ok := b.number[b.p.placeOf(in.URI)]; ok && in.Size > 0 && !slices.Contains(places, p) {
				places = append(places, p)
			}
		}
	}
	return places
}

// square extends the rows to a square matrix. The new columns are zero, because no data moves to a bucket that is
// only read.
func square(rows [][]float64) [][]float64 {
	for i := range rows {
		if lacks := len(rows) - len(rows[i]); lacks > 0 {
			rows[i] = append(slices.Clip(rows[i]), make([]float64, lacks)...)
		}
	}
	return rows
}

// bucketAt returns the number of the place for reading from a bucket at a place. Such data does not pass through a
// store.
func (d *data) bucketAt(place int) int {
	if n, apart := d.buckets[place]; apart {
		return n
	}
	return place
}

// addOutputCost adds to an option the cost and time of moving the task's outputs to the store.
func (b *builder) addOutputCost(t *dag.Task, o *option) {
	if b.data.store == nil {
		return
	}
	gib, store := float64(outputSize(t)), b.data.store[o.Place]
	o.movesUSD = gib * b.market.usd[o.Place][store]
	hours := gib * b.hours[o.Place][store]
	o.USD += o.movesUSD
	o.Hours += hours
	o.expected += hours
}

// keepUSD returns the cost of storing the task's outputs at the option's store, in USD per month.
func (d *data) keepUSD(t *dag.Task, o *option) float64 {
	place := o.Place
	if d.store != nil {
		place = d.store[place]
	}
	return float64(outputSize(t)) * catalog.StorageUSD(d.places[place])
}

// outputSize returns the declared size of a task's outputs.
func outputSize(t *dag.Task) (sum dag.GiB) {
	for i := range t.Outputs {
		sum += t.Outputs[i].Size
	}
	return sum
}
