package metrics

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/bus"
)

// stateCollector collects the current state; it is read at each scrape.
type stateCollector struct {
	source Source
	bus    bus.Bus
	failed func(error)
}

func described(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("tradewind_"+name, help, labels, nil)
}

var (
	running = described("queue_running_tasks", "Tasks that are admitted and not finished.", "queue")
	used    = described("queue_vcpus", "vCPUs that a queue's running tasks hold.", "queue")
	most    = described("queue_max_vcpus", "Maximum vCPUs of a queue, if it has a limit.", "queue")
	month   = described("queue_month_usd",
		"USD that a queue and those below it have spent and reserved this month.", "queue")
	budget   = described("queue_max_month_usd", "Monthly budget of a queue, USD, if it has one.", "queue")
	waiting  = described("queue_waiting_tasks", "Tasks waiting for admission, up to 1000.", "queue")
	blocked  = described("blocked_locations", "Locations that are currently blocked.", "cloud", "kind")
	depth    = described("function_queue_depth", "Events that wait for a function or are in progress.", "function")
	dead     = described("dead_letters", "Events that will not be retried, up to 1000.", "function")
	machines = described("pool_machines", "Machines of a pool.", "pool")
)

// Describe implements prometheus.Collector.
func (s *stateCollector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{running, used, most, month, budget, waiting, blocked, depth, dead, machines} {
		out <- d
	}
}

const (
	lookWithin = 5 * time.Second
	lookMost   = 1000
)

// Collect implements prometheus.Collector. State that cannot be read is omitted, and counted as a failure.
func (s *stateCollector) Collect(out chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), lookWithin)
	defer cancel()
	gauge := func(d *prometheus.Desc, value float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
	}
	for _, look := range []func(context.Context, func(*prometheus.Desc, float64, ...string)) error{
		s.queues, s.blocks, s.pools, s.functions, s.letters,
	} {
		if err := look(ctx, gauge); err != nil {
			s.failed(err)
		}
	}
}

type put = func(d *prometheus.Desc, value float64, labels ...string)

func (s *stateCollector) queues(ctx context.Context, gauge put) error {
	queues, err := s.source.Queues(ctx)
	if err != nil {
		return err
	}
	for _, q := range queues {
		gauge(running, float64(q.Running), q.Name)
		gauge(used, q.VCPU, q.Name)
		if q.MaxVCPU > 0 {
			gauge(most, q.MaxVCPU, q.Name)
		}
		if usd := q.Max[apitypes.USDPerMonth]; usd > 0 {
			gauge(month, q.Month.SpentUSD+q.Month.ReservedUSD+q.Month.BelowUSD, q.Name)
			gauge(budget, usd, q.Name)
		}
		list, err := s.source.Waiting(ctx, q.Name, lookMost)
		if err != nil {
			return err
		}
		gauge(waiting, float64(len(list)), q.Name)
	}
	return nil
}

func (s *stateCollector) blocks(ctx context.Context, gauge put) error {
	list, err := s.source.Blocks(ctx)
	if err != nil {
		return err
	}
	count := map[[2]string]int{}
	for _, b := range list {
		count[[2]string{b.Cloud, b.Kind}]++
	}
	for at, n := range count {
		gauge(blocked, float64(n), at[0], at[1])
	}
	return nil
}

func (s *stateCollector) pools(ctx context.Context, gauge put) error {
	list, err := s.source.Pools(ctx)
	if err != nil {
		return err
	}
	for _, p := range list {
		gauge(machines, float64(len(p.Machines)), p.Name)
	}
	return nil
}

func (s *stateCollector) functions(ctx context.Context, gauge put) error {
	for _, fn := range events.Functions() {
		n, err := s.bus.Depth(ctx, fn)
		if err != nil {
			return err
		}
		gauge(depth, float64(n), fn)
	}
	return nil
}

func (s *stateCollector) letters(ctx context.Context, gauge put) error {
	list, err := s.bus.DeadLetters(ctx, "", lookMost)
	if err != nil {
		return err
	}
	count := map[string]int{}
	for _, l := range list {
		count[l.Queue]++
	}
	for _, fn := range events.Functions() {
		gauge(dead, float64(count[fn]), fn)
	}
	return nil
}
