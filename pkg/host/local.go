package host

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/internal/dagbucket"
	"github.com/tradewind-broker/tradewind/internal/metrics"
	"github.com/tradewind-broker/tradewind/internal/traces"
	"github.com/tradewind-broker/tradewind/pkg/agent/proc"
	"github.com/tradewind-broker/tradewind/pkg/agent/token"
	"github.com/tradewind-broker/tradewind/pkg/agent/wire"
	"github.com/tradewind-broker/tradewind/pkg/api"
	"github.com/tradewind-broker/tradewind/pkg/api/logstore"
	"github.com/tradewind-broker/tradewind/pkg/broker"
	"github.com/tradewind-broker/tradewind/pkg/broker/planner"
	"github.com/tradewind-broker/tradewind/pkg/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/bus"
	"github.com/tradewind-broker/tradewind/pkg/bus/local"
	"github.com/tradewind-broker/tradewind/pkg/catalog"
	"github.com/tradewind-broker/tradewind/pkg/catalog/egress"
	"github.com/tradewind-broker/tradewind/pkg/clock"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
	cloudlocal "github.com/tradewind-broker/tradewind/pkg/cloud/local"
	"github.com/tradewind-broker/tradewind/pkg/dag"
	"github.com/tradewind-broker/tradewind/pkg/grant"
	"github.com/tradewind-broker/tradewind/pkg/grant/filegrant"
	"github.com/tradewind-broker/tradewind/pkg/host/running"
	"github.com/tradewind-broker/tradewind/pkg/secret"
	"github.com/tradewind-broker/tradewind/pkg/store"
	"github.com/tradewind-broker/tradewind/pkg/store/bolt"
	"github.com/tradewind-broker/tradewind/pkg/store/boltfile"
	"github.com/tradewind-broker/tradewind/pkg/store/mem"
	"github.com/tradewind-broker/tradewind/pkg/tunnel/relay"
	"github.com/tradewind-broker/tradewind/web"
)

// ErrLocked says that another process works on the state folder.
var ErrLocked = boltfile.ErrLocked

// Host is the broker on one machine.
type Host struct {
	opt      Options
	state    state
	log      *slog.Logger
	clock    clock.Clock
	worked   time.Time // by the wall's clock: when a broker last worked on the folder before this one
	file     *boltfile.File
	bus      bus.Bus
	broker   *broker.Broker
	engine   *Engine
	api      *api.API
	listen   net.Listener
	token    string
	objects  *filegrant.Store // what jobs keep
	data     grant.Store
	machines *cloudlocal.Host
	clouds   map[string]cloud.Cloud
	bought   *buying
	folder   *folder
	packs    *packs
	policy   *policyFile // nil without one
	planner  *planner.Planner
	kept     record.Stores          // where what tasks leave is kept, beside the state folder
	planned  atomic.Pointer[string] // tag of the refreshed catalogue that is planned on
	script   *cloudlocal.Scenario   // nil without one
	traces   *traces.Traces         // nil where nobody asked for them
}

// LoadCatalog loads the catalogue of a folder, or the one in the binary.
func LoadCatalog(dir string) (*catalog.Catalog, error) { return catalog.Open(dir) }

// loadPrices loads a catalogue, and what moving data costs.
func loadPrices(dir string) (*catalog.Catalog, *egress.Prices, error) {
	c, err := LoadCatalog(dir)
	if err != nil {
		return nil, nil, err
	}
	moves, err := egress.Default()
	if err != nil {
		return nil, nil, err
	}
	return c, moves, nil
}

// Open prepares a host. It holds the state folder until Close, and fails with ErrLocked when another process does.
func Open(ctx context.Context, opt Options) (_ *Host, err error) {
	if opt.State == "" {
		opt.State = DefaultState()
	}
	if opt.Log == nil {
		opt.Log = slog.New(slog.DiscardHandler)
	}
	if err := proc.Supported(); err != nil {
		return nil, err
	}
	h := &Host{opt: opt, log: opt.Log}
	if h.state, err = openState(opt.State); err != nil {
		return nil, err
	}
	if h.file, err = boltfile.Open(h.state.path("tradewind.db"), boltfile.Options{}); err != nil {
		return nil, fmt.Errorf("state folder %s: %w", h.state, err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, h.Close())
		}
	}()
	wall := time.Now()
	h.worked = h.state.lastWorked()
	virtual, err := h.state.startOfTime(wall, opt.TimeScale)
	if err != nil {
		return nil, err
	}
	h.clock = clock.From(wall, virtual, opt.TimeScale)
	if err := h.listenLoopback(ctx); err != nil {
		return nil, err
	}
	if err := h.wire(ctx); err != nil {
		return nil, err
	}
	return h, h.show()
}

// show lets others find the host: connections wait until it serves.
func (h *Host) show() error {
	if h.opt.Passive {
		return nil
	}
	return h.state.writeJSON(running.File, Running{URL: h.URL(), PID: os.Getpid(), Started: time.Now(),
		TimeScale: h.opt.TimeScale, Clouds: h.bought.names(), PublicURL: h.bought.publicURL})
}

// hide takes that back. A leftover is recognised.
func (h *Host) hide() {
	if !h.opt.Passive && h.file != nil { // else it is another's
		_ = os.Remove(h.state.path(running.File))
	}
}

// listenLoopback takes the port of the last start again, where it is free, so that machines that are still at work find
// the broker.
func (h *Host) listenLoopback(ctx context.Context) error {
	var config net.ListenConfig
	var err error
	if h.opt.Addr != "" {
		h.listen, err = config.Listen(ctx, "tcp", h.opt.Addr)
		return err
	}
	var last struct{ Addr string }
	if found, err := h.state.readJSON("addr.json", &last); err == nil && found {
		if h.listen, err = config.Listen(ctx, "tcp", last.Addr); err == nil {
			return nil
		}
	}
	if h.listen, err = config.Listen(ctx, "tcp", "127.0.0.1:0"); err != nil {
		return err
	}
	last.Addr = h.listen.Addr().String()
	return h.state.writeJSON("addr.json", last)
}

// wire makes the parts and hands them to each other.
func (h *Host) wire(ctx context.Context) error {
	key, err := h.state.secret("key")
	if err != nil {
		return err
	}
	userToken, err := h.state.secret("token")
	if err != nil {
		return err
	}
	h.token = string(userToken)
	st := bolt.New(h.file)
	b, err := local.New(h.file, local.Config{Queues: Queues(), Route: events.Routes()})
	if err != nil {
		return err
	}
	counts := metrics.New(h.opt.Version)
	if h.traces, err = h.openTraces(ctx, counts.Gatherer()); err != nil {
		return err
	}
	h.bus = h.traces.Bus(counts.Bus(b))
	c, moves, err := loadPrices(h.opt.Catalog)
	if err != nil {
		return err
	}
	planned := planner.DefaultOptions()
	planned.Stores, planned.Without = h.stores(moves), h.without()
	p := planner.New(c, moves, planned)
	h.planner, h.kept = p, planned.Stores
	if h.clouds, err = h.openClouds(ctx, st, c.Clouds()); err != nil {
		return err
	}
	if err := h.planFirst(ctx, c); err != nil {
		return err
	}
	hub := api.NewHub()
	if err := h.openData(key); err != nil {
		return err
	}
	if h.packs, err = openPacks(h.state.path("objects"), h.URL(), h.objects); err != nil {
		return err
	}
	ports := broker.Ports{
		Data: h.data,
		// claim lets nobody forget what was bought, and what this computer played ran nowhere else.
		NoOthers: true,
		Store:    st, Bus: h.bus, Clouds: h.clouds, Planner: p, Moves: moves, Now: h.clock.Now, Log: h.log,
		Tokens:    func(c wire.Claims) (string, error) { return token.Mint(key, c) },
		Changed:   hub.Changed,
		Committed: func(context.Context, []store.Event) { h.engine.Wake() },
		Refresh:   h.refresh,
		Hook:      h,
		Packs:     h.packs,
		Here:      h.here(),
		Secrets: &secret.Vault{
			Keys: func() ([][]byte, error) { return [][]byte{key}, nil }, Sources: h.opt.Secrets,
		},
	}
	if h.opt.DAGs != "" {
		if err := h.openFolder(); err != nil {
			return err
		}
		ports.Objects, ports.Accepted = h.folder, h.folder.accepted
	}
	if len(h.bought.files) > 0 {
		buckets := dagbucket.Buckets{Files: h.bought.files, Else: ports.Objects}
		ports.Objects, ports.Accepted = buckets, buckets.Accepted(ports.Accepted, h.log)
	}
	if h.opt.Policy != "" {
		if h.policy, err = openPolicy(h.opt.Policy, h.log); err != nil {
			return err
		}
		ports.Policy = h.policy.Policy
	}
	if h.script != nil {
		ports.Prices = newFeed(h.script, c, h.clock.Now, h.machines.Age)
	}
	if len(h.bought.prices) > 0 {
		ports.Prices = h.spotPrices()
	}
	if err := ports.Check(append(events.Functions(), broker.FnAPI)...); err != nil {
		return err
	}
	h.broker = broker.New(h.config(), ports)
	h.engine = NewEngine(h.broker.Functions, h.bus, h.log)
	h.engine.Handled = h.handled(counts)
	logs, err := logstore.New(h.state.path("logs"), 0)
	if err != nil {
		return err
	}
	dashboard, err := web.Handler()
	if err != nil {
		return err
	}
	h.api, err = api.New(api.Config{
		Broker: api.PortsOf(h.broker), Token: h.token, Logs: logs, Hub: hub, Plan: h.plan, Dead: h.bus,
		Frontier: h.frontier, Clouds: h.askClouds,
		Dashboard: dashboard, Metrics: counts.Handler(h.broker.Views, h.bus, h.log),
		Verify:   func(text string) (wire.Claims, error) { return token.Verify(key, text, h.clock.Now()) },
		Machines: h.machineTokens(key),
		Packs:    h.packs, Objects: h.objects,
		Visits:   &api.Visits{Relay: relay.New(mem.New(), time.Now, 0)},
		Identity: h.bought.proofs, Program: h.programs(), Mounter: h.mounters(),
		Hosts: append(h.bought.hosts(), h.opt.Hosts...),
		Now:   h.clock.Now, Version: h.opt.Version, Log: h.log,
	})
	return err
}

// openFolder makes the DAG folder, if it is not there yet.
func (h *Host) openFolder() error {
	dir, err := filepath.Abs(h.opt.DAGs)
	if err == nil {
		err = os.MkdirAll(dir, 0o700)
	}
	if err != nil {
		return fmt.Errorf("DAG folder: %w", err)
	}
	h.folder = &folder{dir: dir, log: h.log, told: map[string]*told{}, settle: h.settle}
	h.folder.emit = func(ctx context.Context, id string, data events.Data) error {
		return h.broker.Functions.Emit(ctx, "tradewind/folder", id, data)
	}
	return nil
}

// operational times are the machine's own and do not shrink with virtual time: a process takes as long to start however
// fast the plan's hours pass.
const (
	bootWithin = 2 * time.Minute
	silentFor  = 90 * time.Second
	stuckFor   = 20 * time.Second
	overhead   = 20 * time.Second
	restart    = time.Second
)

// config fits the broker's times to the time scale.
func (h *Host) config() record.Config {
	cfg := record.DefaultConfig()
	cfg.Endpoint = h.URL()
	cfg.StoreURL = (&url.URL{Scheme: "file", Path: h.state.path("objects")}).String()
	cfg.Scale = h.clock.Wall(time.Hour).Hours()
	cfg.StandInScale = h.opt.TimeScale
	virtual := func(wall time.Duration) time.Duration { return time.Duration(float64(wall) / cfg.Scale) }
	cfg.BootWithin = max(cmp.Or(h.opt.BootWithin, cfg.BootWithin), virtual(bootWithin))
	cfg.SilentFor = max(cfg.SilentFor, virtual(silentFor))
	cfg.StuckFor = max(cfg.StuckFor, virtual(stuckFor))
	if len(h.bought.clouds) == 0 { // what runs here is listed at once: tasks go on as soon as a stopped broker is back
		cfg.ListLag = virtual(stuckFor)
	}
	cfg.TokenFor = max(cfg.TokenFor, virtual(24*time.Hour))
	cfg.SeenFor = max(cfg.SeenFor, virtual(24*time.Hour))
	cfg.Overhead = max(cfg.Overhead, virtual(overhead))
	cfg.Restart = max(cfg.Restart, virtual(restart))
	cfg.TickEvery = max(cfg.TickEvery, virtual(tickLeast))
	cfg.Proven, cfg.Stores = h.bought.proven(), h.kept
	if h.machines != nil || h.opt.MaxMachines > 0 {
		cfg.DefaultQueue.MaxRunning = h.maxMachines()
	}
	cfg.Pool = poolTimes(virtual)
	return cfg
}

// maxMachines is how many machines one computer plays at once.
func (h *Host) maxMachines() int {
	if h.opt.MaxMachines > 0 {
		return h.opt.MaxMachines
	}
	return 8 * runtime.NumCPU()
}

// URL is where the API and the dashboard are.
func (h *Host) URL() string { return "http://" + h.listen.Addr().String() }

// Token proves a user to the API.
func (h *Host) Token() string { return h.token }

// Broker is the host's broker.
func (h *Host) Broker() *broker.Broker { return h.broker }

// plan makes a plan without submitting, with the blocks and prices of now.
func (h *Host) plan(ctx context.Context, spec *dag.Job) (*record.Plan, error) {
	return h.broker.Users.DryRun(ctx, spec)
}

// planFirst is planOn of what the clouds said last. Of clusters that are bought on for the first time, and of no cloud
// beside them, nothing is known: they are asked.
func (h *Host) planFirst(ctx context.Context, c *catalog.Catalog) error {
	err := h.planOn(h.refreshed(ctx, c))
	if err == nil || len(h.bought.refresh) == 0 {
		return err
	}
	if asked := h.refresh(ctx); asked != nil {
		return errors.Join(err, asked)
	}
	return nil
}

// planOn has the planner know what of a catalogue can be bought, or is played.
func (h *Host) planOn(c *catalog.Catalog) error {
	c, err := h.bought.narrow(c, h.opt.PlayOthers, h.opt.Play)
	if err == nil {
		h.planner.SetCatalog(c)
	}
	return err
}

// bucketsWithin is how long what jobs had made for a time may take to be removed.
const bucketsWithin = 30 * time.Second

// removeBuckets removes what jobs that have ended had made for a time: nobody may start this host again. What cannot be
// removed is tried again if somebody does.
func (h *Host) removeBuckets() {
	ctx, cancel := context.WithTimeout(context.Background(), bucketsWithin)
	defer cancel()
	if err := h.broker.Functions.RemoveBuckets(ctx, "stop/"+h.clock.Now().Format(time.RFC3339Nano)); err != nil {
		h.log.Warn("a bucket is not removed", "err", err)
	}
}

// Notify implements broker.Hook: news for people go to the log, and beside the file that they are about.
func (h *Host) Notify(ctx context.Context, e events.Event) error {
	switch data := e.Data.(type) {
	case events.DAGRejected:
		h.log.Error("a DAG file was refused", "file", data.Key, "reason", data.Reason)
		if ours, err := (dagbucket.Buckets{Files: h.bought.files}).Rejected(ctx, data); ours {
			return err
		}
		if h.folder != nil {
			return h.folder.rejected(data)
		}
	case events.DAGFinished:
		h.log.Info("job finished", "job", data.Job, "outcome", data.Outcome, "usd", data.USD, "reason", data.Reason)
	}
	return nil
}
