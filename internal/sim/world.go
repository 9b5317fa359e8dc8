package sim

import (
	"container/heap"
	"fmt"
	"time"

	"github.com/tradewind-broker/tradewind/pkg/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
)

// beginning is when every history begins.
func beginning() time.Time { return time.Date(2026, 5, 20, 0, 0, 0, 0, time.UTC) }

// world is all there is in one simulation.
type world struct {
	seed   uint64
	opt    Options
	cfg    record.Config
	faults Faults // in force now
	stormy bool   // the broker's own parts were to fail
	onTime bool   // nothing was to take longer than planned
	rand   sources

	now    time.Time
	timers timers
	serial uint64
	steps  int
	// running is the process in control, nil while it is the world itself; idle are the coroutines that have none.
	running *process
	idle    []*coroutine

	store   *recordStore
	bus     *messageBus
	clouds  []*provider
	sky     *sky
	hosts   []*host
	engine  *engine
	network *network
	bucket  *bucket
	planner *notedPlanner
	users   *users
	yard    *yard
	check   *checker

	history   *history
	counts    map[string]int
	violation *Violation
}

// sources are the random sources of the parts of a world.
type sources struct {
	process, store, bus, cloud, machine, network, task, engine, user, pool, gang random
}

func newSources(seed uint64, steady bool) sources {
	part := func(name string) random {
		r := newRandom(seed, name)
		r.steady = steady
		return r
	}
	return sources{
		process: part("process"), store: part("store"), bus: part("bus"), cloud: part("cloud"),
		machine: part("machine"), network: part("network"), task: part("task"), engine: part("engine"),
		user: part("user"), pool: part("pool"), gang: part("gang"),
	}
}

// newWorld makes a world in which nothing has happened yet.
func newWorld(seed uint64, opt Options, f Faults) *world {
	w := &world{
		seed: seed, opt: opt, cfg: config(seed, opt.steady), faults: f, rand: newSources(seed, opt.steady),
		now: beginning(), history: newHistory(opt.Keep, opt.History), counts: map[string]int{},
	}
	w.check = newChecker(w)
	w.store = newRecordStore(w)
	w.bus = newMessageBus(w)
	w.sky = newSky(w)
	for _, name := range cloudNames() {
		w.clouds = append(w.clouds, newProvider(w, name))
	}
	w.yard = newYard(w)
	w.clouds = append(w.clouds, w.yard.provider)
	w.network = &network{w: w}
	w.bucket = newBucket()
	w.planner = &notedPlanner{w: w, inner: opt.planner(w), infeasible: map[string]bool{}}
	w.users = newUsers(w)
	w.engine = newEngine(w)
	for i := range hostCount {
		w.hosts = append(w.hosts, newHost(w, i))
	}
	return w
}

// config is the broker's. The fewer tries a launch has, the more is given up while it is under way.
func config(seed uint64, steady bool) record.Config {
	cfg := record.DefaultConfig()
	if !steady {
		cfg.LaunchTries = 1 + newRandom(seed, "config").IntN(cfg.LaunchTries)
	}
	cfg.Pool, cfg.Schedulers = poolTimes(), hostCount
	cfg.Endpoint, cfg.StoreURL = "https://broker.invalid", "sim://bucket"
	return cfg
}

func (w *world) cloudPorts() map[string]cloud.Cloud {
	ports := make(map[string]cloud.Cloud, len(w.clouds))
	for _, c := range w.clouds {
		if c != w.yard.provider { // the broker has a driver of its own for those
			ports[c.name] = c
		}
	}
	return ports
}

// timer is something that will happen.
type timer struct {
	at     time.Time
	serial uint64 // the order of those at the same moment
	f      func()
}

type timers []*timer

func (t timers) Len() int { return len(t) }
func (t timers) Less(i, k int) bool {
	if !t[i].at.Equal(t[k].at) {
		return t[i].at.Before(t[k].at)
	}
	return t[i].serial < t[k].serial
}
func (t timers) Swap(i, k int) { t[i], t[k] = t[k], t[i] }

// Push and Pop are for container/heap.
func (t *timers) Push(x any) { *t = append(*t, x.(*timer)) }

// Pop removes the last element.
func (t *timers) Pop() any {
	last := (*t)[len(*t)-1]
	(*t)[len(*t)-1] = nil
	*t = (*t)[:len(*t)-1]
	return last
}

// at has f called at a moment, or next if that has passed.
func (w *world) at(t time.Time, f func()) {
	if t.Before(w.now) {
		t = w.now
	}
	w.serial++
	heap.Push(&w.timers, &timer{at: t, serial: w.serial, f: f})
}

func (w *world) after(d time.Duration, f func()) { w.at(w.now.Add(d), f) }

// step lets the next thing happen. It is false when there is none, or the world is over.
func (w *world) step() bool {
	if w.violation != nil || len(w.timers) == 0 {
		return false
	}
	t, ok := heap.Pop(&w.timers).(*timer)
	if !ok {
		return false
	}
	w.now = t.at
	w.steps++
	t.f()
	w.check.step()
	return w.violation == nil
}

// until lets things happen up to a moment, or until done says so.
func (w *world) until(t time.Time, done func() bool) {
	for len(w.timers) > 0 && !w.timers[0].at.After(t) {
		if !w.step() || done != nil && done() {
			return
		}
	}
	if w.violation == nil && w.now.Before(t) && (done == nil || !done()) {
		w.now = t
	}
}

// end unwinds what still runs.
func (w *world) end() {
	for _, h := range w.hosts {
		for len(h.processes) > 0 {
			h.processes[0].kill()
		}
	}
	for _, c := range w.idle {
		c.stop()
	}
}

// since is how long ago the history began.
func (w *world) since() time.Duration { return w.now.Sub(beginning()) }

// say adds to the history, up to the violation that ends it.
func (w *world) say(who, what, detail string) {
	if w.violation == nil {
		w.history.add(entry{step: w.steps, at: w.since(), who: who, what: what, detail: detail})
	}
}

// count notes a fault.
func (w *world) count(fault string) { w.counts[fault]++ }

// violate ends the world: an invariant does not hold. The first one counts.
func (w *world) violate(invariant, detail string) {
	if w.violation != nil {
		return
	}
	w.say("INVARIANT", invariant, detail)
	w.violation = &Violation{Seed: w.seed, Step: w.steps, At: w.since(), Invariant: invariant, Detail: detail}
}

func (w *world) violatef(invariant, format string, args ...any) {
	w.violate(invariant, fmt.Sprintf(format, args...))
}
