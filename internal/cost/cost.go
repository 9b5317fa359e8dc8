package cost

import (
	"context"
	"time"

	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/pkg/agent/wire"
	"github.com/tradewind-broker/tradewind/pkg/broker"
	"github.com/tradewind-broker/tradewind/pkg/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/dag"
)

// Bill is what the control plane costs for a DAG.
type Bill struct {
	Job   string  `json:"job"`
	Tasks int     `json:"tasks"`
	Hours float64 `json:"hours"` // that work is open
	// USD is EventsUSD, what the job's own transitions cost, and OpenUSD, what grows with the hours.
	USD       float64  `json:"usd"`
	EventsUSD float64  `json:"eventsUSD"`
	OpenUSD   float64  `json:"openUSD"`
	Lines     []Charge `json:"lines"`
	// Records are the kinds of records by what their writes cost, the dearest first.
	Records   []Record   `json:"records"`
	Functions []Function `json:"functions"`
	Idle      Idle       `json:"idleMonth"`
	// Prices says which prices, Assumptions what else.
	Prices      string   `json:"prices"`
	Assumptions []string `json:"assumptions"`
}

// Charge is one line of a bill.
type Charge struct {
	Service    string  `json:"service"`
	Unit       string  `json:"unit"`
	Events     float64 `json:"events"` // units for the job's transitions
	Open       float64 `json:"open"`   // units by the hour
	USDPerUnit float64 `json:"usdPerUnit"`
	USD        float64 `json:"usd"`
}

// Record is what one kind of record costs to write.
type Record struct {
	Kind   string  `json:"kind"`
	Writes int     `json:"writes"`
	Units  float64 `json:"units"`
	USD    float64 `json:"usd"`
}

// Function is how often a function was invoked.
type Function struct {
	Name     string  `json:"name"`
	Requests int     `json:"requests"`
	Batch    float64 `json:"batch,omitempty"` // messages of a batch, on average
}

// Idle is what a month costs in which nothing is submitted, with the records of this job kept.
type Idle struct {
	StorageUSD float64 `json:"storageUSD"`
	TableBytes int     `json:"tableBytes"`
	USD        float64 `json:"usd"`
}

// Config is the broker's configuration on AWS as far as it changes what is counted.
func Config() record.Config {
	cfg := record.DefaultConfig()
	cfg.Pace, cfg.SilentFor = wire.Pace{Alive: laterPolls, Polls: true, Tail: wire.MaxReportLog}, 16*time.Minute
	return cfg
}

// Of runs a job through the functions and returns the bill. It fails when there is no plan for the job, or it
// does not come to its end.
func Of(ctx context.Context, spec *dag.Job, p broker.Planner, start time.Time) (*Bill, error) {
	w := newWorld(ctx, p, Config(), start)
	w.after(0, func() { w.submit(spec) })
	w.schedule(events.FnReconcile, 2*time.Minute, events.BrokerReconcile{})
	w.schedule(events.FnTick, 10*time.Minute, events.MarketTicked{})
	if err := w.run(); err != nil {
		return nil, err
	}
	hours := w.now.Sub(start).Hours()
	w.as(byTime, func() {
		polls := hours * pollsPerHour * float64(len(events.Functions()))
		w.meter.add(QueuePolls, min(polls, freePolls))
		w.meter.add(QueueRequests, max(0, polls-freePolls))
	})
	return w.bill(spec, hours), nil
}

func (w *world) bill(spec *dag.Job, hours float64) *Bill {
	b := &Bill{
		Job: spec.Name, Tasks: len(spec.Tasks), Hours: hours, Records: w.meter.top(),
		Prices: PricesSource + ", " + PricesRegion + ", " + PricesDate, Assumptions: Assumptions(),
	}
	for l, p := range prices() {
		units := w.meter.units[l]
		c := Charge{Service: p.Service, Unit: p.Unit, Events: units[byEvents], Open: units[byTime], USDPerUnit: p.USD}
		c.USD = (c.Events + c.Open) * p.USD
		b.EventsUSD += c.Events * p.USD
		b.OpenUSD += c.Open * p.USD
		b.Lines = append(b.Lines, c)
	}
	b.USD = b.EventsUSD + b.OpenUSD
	for _, fn := range append(events.Functions(), fnAPI, fnRelay) {
		f := Function{Name: fn, Requests: w.meter.calls[fn]}
		if n := w.meter.batchN[fn]; n > 0 {
			f.Batch = float64(n) / float64(f.Requests)
		}
		b.Functions = append(b.Functions, f)
	}
	b.Idle = idle(w.table.bytes())
	return b
}

func idle(tableBytes int) Idle {
	const gb = 1 << 30
	i := Idle{TableBytes: tableBytes, StorageUSD: float64(tableBytes) / gb * (usdTableGB + usdBackupGB)}
	i.USD = i.StorageUSD // no schedule runs but one a day, and no queue is polled
	return i
}
