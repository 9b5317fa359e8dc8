package cost

import (
	"context"
	"time"

	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/internal/agent/wire"
	"github.com/tradewind-broker/tradewind/internal/broker"
	"github.com/tradewind-broker/tradewind/internal/broker/config"
	"github.com/tradewind-broker/tradewind/pkg/dag"
)

// Bill is the cost of the control plane for a DAG.
type Bill struct {
	Job   string  `json:"job"`
	Tasks int     `json:"tasks"`
	Hours float64 `json:"hours"` // hours during which work is open
	// USD is the sum of EventsUSD, the cost of the job's transitions, and OpenUSD, which grows with Hours.
	USD       float64  `json:"usd"`
	EventsUSD float64  `json:"eventsUSD"`
	OpenUSD   float64  `json:"openUSD"`
	Lines     []Charge `json:"lines"`
	// Records are the kinds of records by the cost of their writes, the most expensive first.
	Records   []Record   `json:"records"`
	Functions []Function `json:"functions"`
	Idle      Idle       `json:"idleMonth"`
	// Prices names the source of the prices. Assumptions lists the other assumptions.
	Prices      string   `json:"prices"`
	Assumptions []string `json:"assumptions"`
}

// Charge is one line of a bill.
type Charge struct {
	Service    string  `json:"service"`
	Unit       string  `json:"unit"`
	Events     float64 `json:"events"` // units used for the job's transitions
	Open       float64 `json:"open"`   // units that grow with the hours
	USDPerUnit float64 `json:"usdPerUnit"`
	USD        float64 `json:"usd"`
}

// Record is the cost of writing one kind of record.
type Record struct {
	Kind   string  `json:"kind"`
	Writes int     `json:"writes"`
	Units  float64 `json:"units"`
	USD    float64 `json:"usd"`
}

// Function counts the invocations of a function.
type Function struct {
	Name     string  `json:"name"`
	Requests int     `json:"requests"`
	Batch    float64 `json:"batch,omitempty"` // average messages in a batch
}

// Idle is the cost of a month without submissions, with the records of this job kept.
type Idle struct {
	StorageUSD float64 `json:"storageUSD"`
	TableBytes int     `json:"tableBytes"`
	USD        float64 `json:"usd"`
}

// Config returns the broker's configuration on AWS, as far as it affects the count.
func Config() config.Config {
	cfg := config.Default()
	cfg.Pace, cfg.SilentFor = wire.Pace{Alive: laterPolls, Polls: true, Tail: wire.MaxReportLog}, 16*time.Minute
	cfg.Chunk = config.PaidChunk
	return cfg
}

// BillFor runs a job through the functions and returns the bill. It fails if the job has no plan or does
// not finish.
func BillFor(ctx context.Context, spec *dag.Job, p broker.Planner, start time.Time) (*Bill, error) {
	w := newWorld(ctx, p, Config(), start)
	w.after(0, func() { w.submit(spec) })
	w.schedule(events.FnReconcile, 2*time.Minute, events.BrokerReconcile{})
	w.schedule(events.FnTick, 10*time.Minute, events.MarketTicked{})
	if err := w.run(); err != nil {
		return nil, err
	}
	hours := w.now.Sub(start).Hours()
	w.withClass(byTime, func() {
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
	i.USD = i.StorageUSD // only one schedule runs, daily, and no queue is polled
	return i
}
