package host

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync/atomic"
	"time"

	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/internal/agent/proc"
	"github.com/tradewind-broker/tradewind/internal/agent/token"
	"github.com/tradewind-broker/tradewind/internal/agent/wire"
	"github.com/tradewind-broker/tradewind/internal/api"
	"github.com/tradewind-broker/tradewind/internal/api/logstore"
	"github.com/tradewind-broker/tradewind/internal/base/clock"
	"github.com/tradewind-broker/tradewind/internal/base/files"
	"github.com/tradewind-broker/tradewind/internal/broker"
	"github.com/tradewind-broker/tradewind/internal/broker/config"
	"github.com/tradewind-broker/tradewind/internal/broker/planner"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/internal/bus/local"
	"github.com/tradewind-broker/tradewind/internal/cloud/driver"
	cloudlocal "github.com/tradewind-broker/tradewind/internal/cloud/local"
	"github.com/tradewind-broker/tradewind/internal/dagbucket"
	"github.com/tradewind-broker/tradewind/internal/grant/filegrant"
	"github.com/tradewind-broker/tradewind/internal/localfiles"
	"github.com/tradewind-broker/tradewind/internal/metrics"
	"github.com/tradewind-broker/tradewind/internal/notify"
	"github.com/tradewind-broker/tradewind/internal/pack"
	"github.com/tradewind-broker/tradewind/internal/secret"
	"github.com/tradewind-broker/tradewind/internal/store/bolt"
	"github.com/tradewind-broker/tradewind/internal/traces"
	"github.com/tradewind-broker/tradewind/internal/tunnel/relay"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/bus"
	"github.com/tradewind-broker/tradewind/pkg/catalog"
	"github.com/tradewind-broker/tradewind/pkg/catalog/egress"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
	"github.com/tradewind-broker/tradewind/pkg/dag"
	"github.com/tradewind-broker/tradewind/pkg/grant"
	"github.com/tradewind-broker/tradewind/pkg/store"
	"github.com/tradewind-broker/tradewind/pkg/store/mem"
	"github.com/tradewind-broker/tradewind/web"
)

// ErrLocked means that another process uses the state folder.
var ErrLocked = bolt.ErrLocked

// Host is the broker on one machine.
type Host struct {
	opt      Options
	state    state
	log      *slog.Logger
	clock    clock.Clock
	worked   time.Time // wall time at which an earlier broker last worked on the folder
	file     *bolt.File
	store    store.Store
	guard    *stateGuard
	bus      bus.Bus
	broker   *broker.Broker
	engine   *Engine
	api      *api.API
	listen   net.Listener
	token    string
	objects  *filegrant.Store // data of jobs
	data     grant.Store
	machines *cloudlocal.Host
	clouds   map[string]cloud.Cloud
	bought   *boughtClouds
	folder   *folder
	packs    *packs
	policy   *policyFile // nil without one
	planner  *planner.Planner
	kept     config.Stores          // where outputs are stored, in addition to the state folder
	planned  atomic.Pointer[string] // tag of the refreshed catalogue in use
	script   *cloudlocal.Scenario   // nil without one
	traces   *traces.Traces         // nil if not configured
	disk     *diskGuard
	placed   chan struct{} // a place of a service was made
}

// LoadCatalog loads the catalogue from a folder, or the one in the binary if dir is empty.
func LoadCatalog(dir string) (*catalog.Catalog, error) { return catalog.Open(dir) }

// loadPrices loads a catalogue and the prices of data transfer.
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

// Open prepares a host. It locks the state folder until Close, and returns ErrLocked if another process has locked it.
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
	if _, err := dag.ParseKeep(opt.Keep); err != nil {
		return nil, fmt.Errorf("keep: %w", err)
	}
	h := &Host{opt: opt, log: opt.Log, placed: make(chan struct{}, 1)}
	if h.state, err = openState(opt.State); err != nil {
		return nil, err
	}
	h.disk = &diskGuard{dir: string(h.state), reserve: opt.ReserveBytes, space: files.Space, log: opt.Log}
	h.log = slog.New(diskLog{opt.Log.Handler(), h.disk})
	if h.file, err = bolt.OpenFile(h.state.path("tradewind.db"), bolt.Options{}); err != nil {
		return nil, fmt.Errorf("state folder %s: %w", h.state, err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, h.Close())
		}
	}()
	if !opt.Passive {
		h.compact(ctx)
	}
	if h.guard, err = newStateGuard(string(h.state), h.state.path("tradewind.db")); err != nil {
		return nil, err
	}
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

// show writes the file by which clients find the host. Connections wait until Serve is called.
func (h *Host) show() error {
	if h.opt.Passive {
		return nil
	}
	return h.state.writeJSON(localfiles.RunningFile, Running{URL: h.URL(), PID: os.Getpid(), Started: time.Now(),
		TimeScale: h.opt.TimeScale, Clouds: h.bought.names(), PublicURL: h.bought.publicURL,
		Archs: h.opt.Agents.Archs(), Limit: apitypes.Bought(h.opt.Limit)})
}

// hide removes the file by which clients find the host. If a crash leaves the file, clients detect that.
func (h *Host) hide() {
	if !h.opt.Passive && h.file != nil { // otherwise the file is another broker's
		_ = os.Remove(h.state.path(localfiles.RunningFile))
	}
}

// listenLoopback listens on the port of the last start if it is free, so that machines that still run find the broker.
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

// wire creates the parts and connects them.
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
	h.store = st
	b, err := local.New(h.file, local.Config{Queues: Queues(), Route: events.Routes()})
	if err != nil {
		return err
	}
	counts := metrics.New(h.opt.Version)
	h.disk.look()
	counts.Paused(h.disk.paused)
	if h.traces, err = h.openTraces(ctx, counts.Gatherer()); err != nil {
		return err
	}
	h.bus = h.traces.Bus(counts.Bus(b))
	c, moves, err := loadPrices(h.opt.Catalog)
	if err != nil {
		return err
	}
	planned := planner.DefaultOptions()
	planned.Stores, planned.Without, planned.Archs = h.stores(moves), h.without(), h.archs()
	planned.Limit = h.opt.Limit
	if h.clouds, err = h.openClouds(ctx, st, c.Clouds()); err != nil {
		return err
	}
	planned.Handling = h.bought.handling()
	planned.Services = servicesBought(h.bought.services)
	p := planner.New(c, moves, planned)
	h.planner, h.kept = p, planned.Stores
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
	logs, err := logstore.New(h.state.path("logs"), 0)
	if err != nil {
		return err
	}
	ports := broker.Ports{
		Data: h.data, Logs: logs, Services: h.bought.services, Placed: h.wakeServices, AppendLog: api.AppendAll(logs),
		Unpack: func(ctx context.Context, uri, prefix string) (string, error) {
			return pack.CopyTo(ctx, h.packs, h.data, uri, prefix)
		},
		// on bought clouds, claim prevents unknown machines; simulated machines ran only on this computer
		NoOthers: true,
		Store:    st, Bus: h.bus, Clouds: h.clouds, Planner: p, Moves: moves, Now: h.clock.Now, Log: h.log,
		Tokens:    func(c wire.Claims) (string, error) { return token.Mint(key, c) },
		Changed:   hub.Changed,
		Committed: func(context.Context, []store.Event) { h.engine.Wake() },
		Refresh:   h.refresh,
		Hook:      h,
		Announces: h.bought.announcer != nil,
		Notifier:  h.notifier(),
		Packs:     h.packs,
		Here:      h.localMachine(),
		Paused:    h.disk.paused,
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
		buckets := dagbucket.Buckets{Files: h.bought.files, Other: ports.Objects}
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
	dashboard, err := web.Handler()
	if err != nil {
		return err
	}
	h.api, err = api.New(api.Config{
		Broker: api.PortsOf(h.broker), Token: h.token, Logs: logs, Hub: hub, Plan: h.plan, Dead: h.bus,
		Simulated: len(h.bought.clouds) == 0,
		Frontier:  h.frontier, Offers: h.offers, Clouds: api.Unblocking(h.checkClouds, h.broker.Users.Unblock),
		Dashboard: dashboard, Metrics: counts.Handler(h.broker.Views, h.bus, h.log),
		Verify:   func(text string) (wire.Claims, error) { return token.Verify(key, text, h.clock.Now()) },
		Machines: h.machineTokens(key),
		Packs:    h.packs, Objects: h.objects, Records: http.HandlerFunc(h.serveRecords),
		Visits:   h.visits(),
		Identity: h.bought.proofs, Program: h.programs(), Mounter: h.mounters(),
		Hosts: append(h.bought.hosts(), h.opt.Hosts...),
		Now:   h.clock.Now, Version: h.opt.Version, Log: h.log,
		FullDisk: func() (what, hint string) { return FullDisk(string(h.state)) },
	})
	h.newDesk(key)
	return err
}

// visits connects users with machines. It is nil for a broker without an address, because visits need more than
// messages.
func (h *Host) visits() *api.Visits {
	if h.bought.mail != nil {
		return nil
	}
	return &api.Visits{Relay: relay.New(mem.New(), time.Now, 0)}
}

// openFolder opens the DAG folder, and creates it if it is missing.
func (h *Host) openFolder() error {
	dir, err := filepath.Abs(h.opt.DAGs)
	if err == nil {
		err = os.MkdirAll(dir, 0o700)
	}
	if err != nil {
		return fmt.Errorf("DAG folder: %w", err)
	}
	h.folder = &folder{dir: dir, log: h.log, told: map[string]*told{}, packFiles: h.packFiles}
	h.folder.emit = func(ctx context.Context, id string, data events.Data) error {
		return h.broker.Functions.Emit(ctx, "tradewind/folder", id, data)
	}
	return nil
}

// operational times are times of real processes. They are wall time and do not shrink with virtual time, because a
// process does not start faster in fast virtual time.
const (
	bootWithin = 2 * time.Minute
	silentFor  = 90 * time.Second
	stuckFor   = 20 * time.Second
	overhead   = 20 * time.Second
	restart    = time.Second
)

// config adapts the broker's times to the time scale.
func (h *Host) config() config.Config {
	cfg := config.Default()
	cfg.Endpoint = h.URL()
	cfg.StoreURL = (&url.URL{Scheme: "file", Path: h.state.path("objects")}).String()
	cfg.Scale = h.clock.Wall(time.Hour).Hours()
	cfg.StandInScale = h.opt.TimeScale
	virtual := func(wall time.Duration) time.Duration { return time.Duration(float64(wall) / cfg.Scale) }
	cfg.BootWithin = max(cmp.Or(h.opt.BootWithin, cfg.BootWithin), virtual(bootWithin))
	if h.opt.BootWithin > 0 { // the user's limit is for all machines
		cfg.SlowBoots = slices.DeleteFunc(cfg.SlowBoots, func(b config.SlowBoot) bool { return b.Service == "" })
	}
	cfg.SilentFor = max(cfg.SilentFor, virtual(silentFor))
	cfg.StuckFor = max(cfg.StuckFor, virtual(stuckFor))
	if len(h.bought.clouds) == 0 { // local machines are listed at once: tasks continue as soon as the broker is back
		cfg.ListLag = virtual(stuckFor)
	}
	cfg.TokenFor = max(cfg.TokenFor, virtual(24*time.Hour))
	cfg.SeenFor = max(cfg.SeenFor, virtual(24*time.Hour))
	cfg.Overhead = max(cfg.Overhead, virtual(overhead))
	cfg.Restart = max(cfg.Restart, virtual(restart))
	cfg.TickEvery = max(cfg.TickEvery, virtual(tickLeast))
	cfg.Proven, cfg.Stores = h.bought.proven(), h.kept
	for name := range h.clouds {
		if h.bought.clouds[name] == nil {
			cfg.Shared = append(cfg.Shared, name)
		}
	}
	cfg.BuysNothing = len(h.bought.clouds) == 0
	if h.machines != nil || h.opt.MaxMachines > 0 {
		cfg.DefaultQueue.MaxRunning = h.maxMachines()
	}
	cfg.Keep, _ = dag.ParseKeep(h.opt.Keep) // Open checks it
	cfg.Limit = h.opt.Limit
	cfg.Pool = poolTimes(virtual)
	if h.bought.mail != nil { // each call costs requests of the bucket, and polls show that an agent is alive
		cfg.Pool = config.DefaultPoolTimes()
		cfg.Private = []string{mailFolder, agentFolder, mirrorFolder}
		cfg.Pace = wire.Pace{Alive: time.Minute, Log: mailLogEvery, Polls: true, Tail: wire.MaxReportLog}
	}
	return cfg
}

// mailLogEvery is the time between two pieces of log that are sent as messages; wall time.
const mailLogEvery = 2 * time.Second

// maxMachines returns how many simulated machines may run at once.
func (h *Host) maxMachines() int {
	if h.opt.MaxMachines > 0 {
		return h.opt.MaxMachines
	}
	return 8 * runtime.NumCPU()
}

// URL returns the URL of the API and the dashboard.
func (h *Host) URL() string { return "http://" + h.listen.Addr().String() }

// Token returns the user token of the API.
func (h *Host) Token() string { return h.token }

// Broker returns the host's broker.
func (h *Host) Broker() *broker.Broker { return h.broker }

// plan makes a plan without submitting, with the current blocks and prices.
func (h *Host) plan(ctx context.Context, spec *dag.Job) (*record.Plan, error) {
	return h.broker.Users.DryRun(ctx, spec)
}

// planFirst makes a catalogue from the clouds' last answers. If only clusters without any known offers are used, it
// asks them first.
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

// planOn gives the planner the part of a catalogue that can be bought or is simulated.
func (h *Host) planOn(c *catalog.Catalog) error {
	c, err := h.bought.narrow(c, h.opt.PlayOthers, h.opt.Play)
	if err == nil {
		h.planner.SetCatalog(c)
	}
	return err
}

// bucketsWithin limits how long removing temporary buckets may take.
const bucketsWithin = 30 * time.Second

// removeBuckets removes the temporary buckets of finished jobs, because this host may never be started again. If it
// is started again, it retries the removals that failed.
func (h *Host) removeBuckets() {
	ctx, cancel := context.WithTimeout(context.Background(), bucketsWithin)
	defer cancel()
	if err := h.broker.Functions.RemoveBuckets(ctx, "stop/"+h.clock.Now().Format(time.RFC3339Nano)); err != nil {
		h.log.Warn("a bucket could not be removed", "err", err)
	}
}

// notifier sends notifications to people. If no machines are bought, the tasks of jobs run as the user of this
// process, so the commands of notifications may run as that user, too.
func (h *Host) notifier() *notify.Notifier {
	return &notify.Notifier{Own: h.opt.Notify, Local: len(h.opt.Clouds) == 0, Mail: h.bought.mailer}
}

// Notify implements broker.Hook: it logs news for users, and writes errors next to the file that they are about.
func (h *Host) Notify(ctx context.Context, e events.Event) error {
	switch data := e.Data.(type) {
	case events.DAGRejected:
		h.log.Error("a DAG file was rejected", "file", data.Key, "reason", data.Reason)
		if ours, err := (dagbucket.Buckets{Files: h.bought.files}).Rejected(ctx, data); ours {
			return err
		}
		if h.folder != nil {
			return h.folder.rejected(data)
		}
	case events.DAGFinished:
		h.log.Info("job finished", "job", data.Job, "outcome", data.Outcome, "usd", data.USD, "reason", data.Reason)
		return driver.AnnounceFinished(ctx, h.bought.announcer, e, data)
	}
	return nil
}
