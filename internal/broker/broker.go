package broker

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/internal/agent/wire"
	"github.com/tradewind-broker/tradewind/internal/broker/admission"
	"github.com/tradewind-broker/tradewind/internal/broker/config"
	"github.com/tradewind-broker/tradewind/internal/broker/inputs"
	"github.com/tradewind-broker/tradewind/internal/broker/outbox"
	"github.com/tradewind-broker/tradewind/internal/broker/planinput"
	"github.com/tradewind-broker/tradewind/internal/broker/pool"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/internal/broker/recordcache"
	"github.com/tradewind-broker/tradewind/internal/broker/txn"
	"github.com/tradewind-broker/tradewind/internal/broker/view"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/bus"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
	"github.com/tradewind-broker/tradewind/pkg/cloud/service"
	"github.com/tradewind-broker/tradewind/pkg/dag"
	"github.com/tradewind-broker/tradewind/pkg/grant"
	"github.com/tradewind-broker/tradewind/pkg/scheduler"
	"github.com/tradewind-broker/tradewind/pkg/store"
)

// Planner makes plans. A plan must depend on its input alone.
type Planner interface {
	Plan(ctx context.Context, in planinput.Input) (*record.Plan, error)
	// Reserves reports whether plans may use capacity of which an account has a limited amount. If so, the input must
	// say which tasks run there; otherwise the broker does not load that.
	Reserves(ctx context.Context) bool
}

// Objects reads DAG files that appeared in a bucket or folder.
type Objects interface {
	// Open reads an object. It fails with fs.ErrNotExist if the object is gone, or its version is not the announced
	// one, and with a *dag.Error if it cannot be a job, whatever its content. tag is the tag of the content read, if
	// the object may have been overwritten since it was announced: the same content is the same job. Empty means the
	// announced tag.
	Open(ctx context.Context, o events.ObjectCreated) (body io.ReadCloser, tag string, err error)
	// Settle resolves what a job states relative to its file, such as relative paths, so that it works anywhere. It
	// fails with a *dag.Error if something cannot be resolved.
	Settle(ctx context.Context, bucket, key string, spec *dag.Job) error
}

// Packs stores the packs that jobs name: uploaded code and files (internal/pack/depot).
type Packs interface {
	// Check fails with pack.ErrIncomplete, ErrURI or ErrCorrupt unless the packs are complete and will be kept for
	// long.
	Check(ctx context.Context, uris ...string) error
	// Stay keeps the packs for some more weeks at least.
	Stay(ctx context.Context, uris ...string) error
}

// Prices reads spot prices for tick. It may return none.
type Prices interface {
	SpotPrices(ctx context.Context) ([]events.PriceTick, error)
}

// Hook is notified of events that people want to know of.
type Hook interface {
	Notify(ctx context.Context, e events.Event) error
}

// Ports are the host's implementations that the broker works with.
type Ports struct {
	Store store.Store
	// Decoded is a cache of this store's decoded records that several brokers of one process share, as in a simulator.
	// Nil gives each broker its own.
	Decoded *recordcache.Decoded
	Bus     bus.Bus                // for the relay, and for events without a record
	Clouds  map[string]cloud.Cloud // by catalogue name
	// Services are the managed services that run Spark applications, by catalogue name.
	Services map[string]service.Service
	// Placed is called after a place of a service was recorded, so that the host watches it at once. May be nil.
	Placed func()
	// Unpack writes the content of a pack (pack://…) below a prefix of a store, and returns the URI of the file, or of
	// the folder with a slash at its end. May be nil: tasks on services that have packed files then fail.
	Unpack func(ctx context.Context, pack, prefix string) (at string, err error)
	// AppendLog appends to the log of an attempt what it does not have yet of all that the attempt has printed. May be
	// nil: what applications on services print is then only in their service's log.
	AppendLog func(ctx context.Context, job, attempt string, all []byte) error
	// NoOthers means that the host has made sure that no machines remain on clouds that are not in Clouds.
	NoOthers bool
	Planner  Planner
	Moves    config.Mover // needed to run or preview scheduling sessions
	Tokens   func(wire.Claims) (string, error)
	Data     grant.Store // the data of tasks: grants agents access, ends unfinished uploads
	// AtOnce is how many calls of Data are made at once for one event or request; 0 means 16. A simulator, which
	// decides the order of everything, uses 1.
	AtOnce  int
	Now     func() time.Time
	Objects Objects        // may be nil: no DAG bucket
	Packs   Packs          // may be nil: jobs that name packs are refused
	Logs    Logs           // may be nil: the logs of expired jobs stay
	Here    inputs.Machine // may be nil: tasks run on bought machines
	Secrets Secrets        // may be nil: jobs with secrets are refused
	Prices  Prices         // may be nil
	Hook    Hook           // may be nil
	// Announces says that Hook publishes on the topics that jobs name; jobs that name one are refused without.
	Announces bool
	// Notifier notifies those that jobs name. May be nil: jobs that name some are refused.
	Notifier Notifier
	Refresh  func(ctx context.Context) error // reloads the catalogue; may be nil
	// Policy returns the current scheduling policy, one that CheckPolicy accepts. It may be nil, or return nil: then
	// OwnPolicy is used.
	Policy func(ctx context.Context) *scheduler.Policy
	// Paused returns why no task is admitted at present, or "". May be nil. When admission resumes, the host emits
	// CapacityFreed for each queue.
	Paused func() string
	Log    *slog.Logger
	// Changed is called with each cluster whose command may have changed, so that a host with waiting agents can answer
	// them at once. May be nil.
	Changed func(cluster string)
	// Committed is called after each commit with the events that it put in the outbox. May be nil.
	Committed func(ctx context.Context, emitted []store.Event)
	// Accepted is called for each object of Objects that has become a job, each time the object is announced, so that
	// the host can remove the error file that an earlier version got. May be nil.
	Accepted func(context.Context, events.ObjectCreated)
}

// FnAPI stands for the requests of users and agents. It is not a function that reacts to events.
const FnAPI = record.FnAPI

// Check returns an error that names the missing ports which the given functions need. Hosts call it before they make a
// broker; otherwise the first event that needs the port would fail.
func (p Ports) Check(functions ...string) error {
	needs := func(any ...string) bool {
		return slices.ContainsFunc(any, func(fn string) bool { return slices.Contains(functions, fn) })
	}
	var missing []string
	for _, port := range []struct {
		name   string
		absent bool
	}{
		{"Store", p.Store == nil}, {"Now", p.Now == nil},
		{"Planner", p.Planner == nil && needs(events.FnOptimize)},
		{"Moves", p.Moves == nil && needs(events.FnSchedule, FnAPI)},
		{"Tokens", p.Tokens == nil && needs(events.FnProvision, FnAPI)},
		{"Data", p.Data == nil && needs(events.FnProvision, FnAPI)},
	} {
		if port.absent {
			missing = append(missing, port.name)
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("broker: %s cannot work without %s", strings.Join(functions, ", "),
			strings.Join(missing, ", "))
	}
	return nil
}

// complete returns the ports with defaults for the optional ones, and with its own copy of the map of clouds.
func (p Ports) complete() Ports {
	p.AtOnce = cmp.Or(p.AtOnce, 16)
	if p.Log == nil {
		p.Log = slog.New(slog.DiscardHandler)
	}
	if p.Clouds = maps.Clone(p.Clouds); p.Clouds == nil {
		p.Clouds = map[string]cloud.Cloud{}
	}
	return p
}

// commitHook returns the hook that notifies the host of the changes of a unit.
func (p Ports) commitHook(known *pool.Known) func(*txn.Unit) {
	return func(u *txn.Unit) {
		known.Committed(u)
		if p.Changed != nil {
			for c := range u.Changes {
				if id, ok := record.ClusterOf(c.Key); ok && c.Written {
					p.Changed(id)
				}
			}
		}
		if p.Committed != nil && len(u.Emits) > 0 {
			p.Committed(u.Ctx, u.Emits)
		}
	}
}

// Broker handles jobs, with one handle for each kind of caller. It has no state except a cache of records that never
// change, so any number of brokers may work on the same store.
type Broker struct {
	// Functions react to events.
	Functions *Functions
	// Agents serves the agents on machines, bought ones and those of pools.
	Agents *Agents
	// Users handles the requests of people.
	Users *Users
	// Services watches the attempts on managed services.
	Services *Services
	// Views show records. They change nothing.
	Views *view.Views
}

// Functions are the functions that react to events, and those that hosts call periodically.
type Functions struct {
	ports    Ports
	cfg      config.Config
	txns     *txn.Transactor
	pools    *pool.Keeper
	sessions *admission.Runner
	uploads  Uploads
	relay    outbox.Relay
	users    *Users // submits DAG files
	log      *slog.Logger
	quota    quotaHint
}

// Agents is the API for agents on machines. Claims come from verified tokens.
type Agents struct {
	ports   Ports
	cfg     config.Config
	txns    *txn.Transactor
	pools   *pool.Keeper
	uploads Uploads
	log     *slog.Logger
}

// Users is the API for people, called through the HTTP API or by a host's own commands.
type Users struct {
	ports Ports
	cfg   config.Config
	txns  *txn.Transactor
	pools *pool.Keeper
	log   *slog.Logger
}

// NewViews makes views of a store without a broker, for adapters that a broker is made with.
func NewViews(cfg config.Config, p Ports) *view.Views {
	txns := txn.NewTransactor(p.Store, p.Now, cfg, txn.Hooks{})
	policy := admission.Following(p.Policy)
	pools := pool.New(txns, pool.NewKnown(), p.Tokens, policy)
	return view.New(txns, pools,
		&admission.Runner{Config: cfg, Policy: policy, Mover: p.Moves, Pools: pools, Paused: p.Paused})
}

// New makes a broker.
func New(cfg config.Config, p Ports) *Broker {
	p = p.complete()
	relay := outbox.Relay{Store: p.Store, Bus: p.Bus, Log: p.Log}
	known := pool.NewKnown()
	hooks := txn.Hooks{Done: p.commitHook(known), Conflicted: known.Conflicted}
	if p.Bus != nil {
		hooks.Publish = relay.Publish
	}
	txns := txn.NewTransactor(p.Store, p.Now, cfg, hooks)
	if p.Decoded != nil {
		txns.Share(p.Decoded)
	}
	policy := admission.Following(p.Policy)
	pools := pool.New(txns, known, p.Tokens, policy)
	sessions := &admission.Runner{Config: cfg, Policy: policy, Mover: p.Moves, Pools: pools, Paused: p.Paused}
	p.Clouds[apitypes.PoolCloud] = pools.Driver()
	uploads := Uploads{Txns: txns, Data: p.Data, AtOnce: p.AtOnce, Log: p.Log}
	users := &Users{ports: p, cfg: cfg, txns: txns, pools: pools, log: p.Log}
	agents := &Agents{ports: p, cfg: cfg, txns: txns, pools: pools, uploads: uploads, log: p.Log}
	return &Broker{
		Functions: &Functions{
			ports: p, cfg: cfg, txns: txns, pools: pools, sessions: sessions, uploads: uploads, relay: relay,
			users: users, log: p.Log,
		},
		Agents:   agents,
		Users:    users,
		Services: &Services{ports: p, cfg: cfg, txns: txns, agents: agents, log: p.Log},
		Views:    view.New(txns, pools, sessions),
	}
}
