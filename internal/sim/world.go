package sim

import (
	"iter"
	"slices"

	"github.com/tradewind-broker/tradewind/internal/broker"
	"github.com/tradewind-broker/tradewind/internal/broker/config"
	"github.com/tradewind-broker/tradewind/internal/broker/recordcache"
	"github.com/tradewind-broker/tradewind/internal/sim/breaks"
	"github.com/tradewind-broker/tradewind/internal/sim/check"
	"github.com/tradewind-broker/tradewind/internal/sim/drawn"
	"github.com/tradewind-broker/tradewind/internal/sim/timeline"
	"github.com/tradewind-broker/tradewind/internal/sim/weather"
	"github.com/tradewind-broker/tradewind/pkg/bus"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
)

// world is the state of one simulation.
type world struct {
	*timeline.Timeline
	opt    Options
	cfg    config.Config
	faults weather.Faults // current
	onTime bool           // nothing takes longer than planned
	kind   kind           // drawn for an invariant
	rand   sources

	// running is the process in control, nil if it is the world itself; idle are unused coroutines.
	running *process
	idle    []*coroutine

	store   *recordStore
	decoded *recordcache.Decoded // shared by the checker and all hosts
	bus     *messageBus
	clouds  []*provider
	managed []*managed // nil without Options.Services
	sky     *weather.Sky
	hosts   []*host
	engine  *engine
	network *network
	post    *postOffice // nil if the broker has an address
	bucket  *bucket
	objects *objectStore
	pace    pace
	moves   bool // data is moved to and from the store by grants
	planner *notedPlanner
	users   *users
	rules   drawn.Rules // how sessions decide
	yard    *poolOwners
	check   *check.Checker
}

// sources are the random sources of the parts of a world.
type sources struct {
	process, store, bus, cloud, machine, network, task, engine, user, pool, gang, join, role         timeline.Random
	grant, suspend, bounds, kept, placed, month, service, fast, deadly, siblings, array, share, keep timeline.Random

	chunk timeline.Random
}

func newSources(seed uint64, steady bool) sources {
	part := func(name string) timeline.Random {
		r := timeline.NewRandom(seed, name)
		r.Steady = steady
		return r
	}
	return sources{
		process: part("process"), store: part("store"), bus: part("bus"), cloud: part("cloud"),
		machine: part("machine"), network: part("network"), task: part("task"), engine: part("engine"),
		user: part("user"), pool: part("pool"), gang: part("gang"), join: part("join"), role: part("role"),
		grant: part("grant"), suspend: part("suspend"), bounds: part("bounds"), kept: part("kept"),
		placed: part("placed"), month: part("month"), service: part("service"),
		fast: part("fast"), deadly: part("deadly"), siblings: part("siblings"), array: part("array"),
		chunk: part("chunk"),
		share: part("share"), keep: part("keep"),
	}
}

// newWorld returns a world in which nothing has happened yet.
func newWorld(seed uint64, opt Options, f weather.Faults) *world {
	w := &world{
		Timeline: timeline.New(seed, opt.Keep, opt.History),
		opt:      opt, cfg: brokerConfig(seed, opt, f.Punctual()), faults: f, rand: newSources(seed, opt.steady),
	}
	w.pace = worstPace
	if opt.usual {
		w.pace, w.rand = usualPace, newSources(seed, false)
	}
	w.store, w.decoded = newRecordStore(w), recordcache.NewDecoded()
	if opt.olderVersion(seed) {
		w.decoded.Between(&recordcache.Older{Forgets: opt.Break == breaks.Amnesiac})
	}
	w.bus = newMessageBus(w)
	w.sky = weather.New(w.Timeline, &w.faults, opt.Traces, w.outbid)
	w.check = check.New(w.Timeline, w.sky, w.cfg, w.store.mem, w.decoded, w)
	for _, name := range weather.CloudNames() {
		w.clouds = append(w.clouds, newProvider(w, name))
	}
	w.rules = drawn.NewRules(seed, opt.steady, f.Punctual(), opt.Break)
	w.check.Follow(w.rules.Policy)
	w.yard = newYard(w)
	w.clouds = append(w.clouds, w.yard.provider)
	w.managed = newManaged(w)
	w.network, w.post = &network{w: w}, newPostOffice(w)
	w.bucket, w.objects = newBucket(), newObjectStore(w)
	w.moves = !opt.steady && timeline.NewRandom(seed, "moves").Chance(shareMoves) || opt.Break.Moves()
	w.check.Data = w.objects
	w.planner = &notedPlanner{w: w, inner: opt.planner(seed)}
	w.users = newUsers(w)
	w.engine = newEngine(w)
	for i := range hostCount {
		w.hosts = append(w.hosts, newHost(w, i))
	}
	return w
}

// shareLimit is the fraction of worlds in which the broker may have few machines at a time, and shareDollars the
// fraction of these in which their price is limited instead. Their jobs may miss deadlines, which plans do not foresee.
const (
	shareLimit   = 0.1
	shareDollars = 0.3
)

// shareWalk is the fraction of worlds in which one invocation checks a job or two.
const shareWalk = 0.2

// shareChunks is the fraction of worlds in which short members of arrays run in chunks, if tasks share machines.
const shareChunks = 0.5

// shareMoves is the fraction of worlds in which data are moved. Each call for that costs steps.
const shareMoves = 0.3

// brokerConfig returns the broker's configuration. The fewer tries a launch has, the more launches are given up while
// running.
func brokerConfig(seed uint64, opt Options, onTime bool) config.Config {
	cfg, steady := config.Default(), opt.steady
	cfg.EndTryWithin = 0 // wall time has no place in a simulation
	r := timeline.NewRandom(seed, "limit")
	if (r.Chance(shareLimit) || opt.Break == breaks.Ungated) && !steady && !onTime {
		cfg.Limit.Machines = 3 + r.IntN(6)
		if r.Chance(shareDollars) {
			cfg.Limit = config.Limit{USDPerHour: r.Uniform(2, 6)}
		}
	}
	if !steady {
		cfg.LaunchTries = 1 + timeline.NewRandom(seed, "config").IntN(cfg.LaunchTries)
	}
	if timeline.NewRandom(seed, "walk").Chance(shareWalk) && !steady {
		cfg.Walk = config.Walk{Together: 1, Most: 3, Span: 2, Spans: 2} // as with thousands of jobs
	}
	// Not with other bugs, so that those show as often.
	if opt.Break.Chunks() || timeline.NewRandom(seed, "chunks").Chance(shareChunks) && !steady && opt.Break == "" {
		cfg.Chunk = config.PaidChunk
	}
	cfg.Pool, cfg.Schedulers = poolTimes(), hostCount
	if opt.usual {
		cfg.Pool = config.DefaultPoolTimes()
	}
	cfg.Endpoint, cfg.StoreURL = "https://broker.invalid", "sim://bucket"
	cfg.Stores = stores(seed, steady)
	if opt.managed() {
		cfg.Stores = withServices(seed, cfg.Stores)
	}
	return cfg
}

// The fraction of worlds that have stores in some places, and the fraction of those places.
const (
	shareStores = 0.5
	shareStore  = 0.6
)

// stores returns the stores of a world's places, if it has any.
func stores(seed uint64, steady bool) config.Stores {
	s := config.Stores{URLs: map[string]string{}, Moves: weather.Moves()}
	r := timeline.NewRandom(seed, "stores")
	if steady || !r.Chance(shareStores) {
		return s
	}
	for _, l := range weather.Catalogue() {
		if place := l.Cloud + ":" + l.Region; s.URLs[place] == "" && r.Chance(shareStore) {
			s.URLs[place] = "sim://" + l.Cloud + "-" + l.Region
		}
	}
	return s
}

func (w *world) cloudPorts() map[string]cloud.Cloud {
	ports := make(map[string]cloud.Cloud, len(w.clouds))
	for _, c := range w.clouds {
		if c != w.yard.provider { // the broker has its own driver for pools
			ports[c.name] = c
		}
	}
	return ports
}

// end unwinds the remaining processes.
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

// Machines returns all machines that were ever launched.
func (w *world) Machines() iter.Seq[*check.Machine] {
	return func(yield func(*check.Machine) bool) {
		for _, c := range w.clouds {
			for _, f := range c.order {
				for _, m := range f.machines {
					if !yield(&m.Machine) {
						return
					}
				}
			}
		}
		for _, s := range w.managed {
			for _, p := range s.order {
				if !yield(&p.Machine) {
					return
				}
			}
		}
	}
}

// Busy reports whether a message waits or a process runs.
func (w *world) Busy() bool {
	return slices.ContainsFunc(w.bus.queues, func(q *queue) bool { return len(q.messages) > 0 }) ||
		slices.ContainsFunc(w.hosts, func(h *host) bool { return len(h.processes) > 0 })
}

// Queued lists the waiting messages.
func (w *world) Queued() string { return w.bus.depths() }

// Dead returns the dead letters.
func (w *world) Dead() []bus.DeadLetter { return w.bus.dead }

// Broker returns the broker of the first host.
func (w *world) Broker() *broker.Broker { return w.hosts[0].broker }
