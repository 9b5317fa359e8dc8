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

// Planner makes plans. A plan must depend only on its input.
type Planner interface {
	Plan(ctx context.Context, in planinput.Input) (*record.Plan, error)
	// Reserves reports whether plans may use capacity that is limited for an account. If so, the input must contain
	// the tasks that run there. Otherwise the broker does not load them.
	Reserves(ctx context.Context) bool
}

// Objects reads DAG files that appeared in a bucket or folder.
type Objects interface {
	// Open reads an object. It fails with fs.ErrNotExist if the object is gone or its version is not the announced
	// one, and with a *dag.Error if the object cannot be a job, whatever its content. tag identifies the content that
	// was read: the object may have been overwritten since it was announced, and equal content is the same job. An
	// empty tag means the announced one.
	Open(ctx context.Context, o events.ObjectCreated) (body io.ReadCloser, tag string, err error)
	// Settle resolves the parts of a job that are relative to its file, such as relative paths, so that the job can
	// run anywhere. It fails with a *dag.Error if something cannot be resolved.
	Settle(ctx context.Context, bucket, key string, spec *dag.Job) error
}

// Packs stores the packs of jobs: uploaded code and files (internal/pack/depot).
type Packs interface {
	// Check fails with pack.ErrIncomplete, ErrURI or ErrCorrupt, unless the packs are complete and will be kept for a
	// long time.
	Check(ctx context.Context, uris ...string) error
	// Stay keeps the packs for at least some more weeks.
	Stay(ctx context.Context, uris ...string) error
}

// Prices reads spot prices for tick. It may return none.
type Prices interface {
	SpotPrices(ctx context.Context) ([]events.PriceTick, error)
}

// Hook is notified of events that users want to know.
type Hook interface {
	Notify(ctx context.Context, e events.Event) error
}

// Ports are the host's implementations that the broker uses.
type Ports struct {
	Store store.Store
	// Decoded is a cache of this store's decoded records. Several brokers in one process, as in the simulator, may
	// share it. If nil, each broker has its own.
	Decoded *recordcache.Decoded
	Bus     bus.Bus                // used by the relay, and for events without a record
	Clouds  map[string]cloud.Cloud // by catalogue name
	// Services are the managed services that run Spark applications, by their name in the catalogue.
	Services map[string]service.Service
	// Placed is called after a place on a service was recorded, so that the host watches the place at once. May be
	// nil.
	Placed func()
	// Unpack writes the content of a pack (pack://…) below a prefix of a store. It returns the URI of the file, or of
	// the folder with a slash at its end. May be nil: tasks on services that have packed files then fail.
	Unpack func(ctx context.Context, pack, prefix string) (at string, err error)
	// AppendLog completes the log of an attempt: all is the whole output of the attempt, of which the log may already
	// have the beginning. May be nil: the output of applications is then only in the log of their service.
	AppendLog func(ctx context.Context, job, attempt string, all []byte) error
	// NoOthers means that the host guarantees that no machines remain in clouds that are not in Clouds.
	NoOthers bool
	Planner  Planner
	Moves    config.Mover // needed to run or preview scheduling sessions
	Tokens   func(wire.Claims) (string, error)
	Data     grant.Store // stores the data of tasks: grants access to agents, ends unfinished uploads
	// AtOnce is the maximum number of concurrent calls of Data for one event or request; 0 means 16. The simulator
	// uses 1, because it controls the order of all calls.
	AtOnce  int
	Now     func() time.Time
	Objects Objects        // may be nil: no DAG bucket
	Packs   Packs          // may be nil: jobs that name packs are refused
	Logs    Logs           // may be nil: the logs of expired jobs stay
	Here    inputs.Machine // may be nil: tasks run on bought machines
	Secrets Secrets        // may be nil: jobs with secrets are refused
	Prices  Prices         // may be nil
	Hook    Hook           // may be nil
	// Announces states that Hook publishes on topics that jobs name. Without it, jobs that name a topic are refused.
	Announces bool
	// Notifier notifies the recipients that jobs name. May be nil: jobs that name recipients are then refused.
	Notifier Notifier
	Refresh  func(ctx context.Context) error // reloads the catalogue; may be nil
	// Policy returns the current scheduling policy, which CheckPolicy must accept. If Policy is nil or returns nil,
	// OwnPolicy is used.
	Policy func(ctx context.Context) *scheduler.Policy
	// Paused returns the reason why no task is admitted at present, or "". May be nil. When admission resumes, the
	// host emits CapacityFreed for each queue.
	Paused func() string
	Log    *slog.Logger
	// Changed is called for each cluster whose command may have changed, so that a host can answer waiting agents at
	// once. May be nil.
	Changed func(cluster string)
	// Committed is called after each commit, with the events that the commit put into the outbox. May be nil.
	Committed func(ctx context.Context, emitted []store.Event)
	// Accepted is called for each object of Objects that has become a job, whenever the object is announced. The host
	// then removes the error file of an earlier version. May be nil.
	Accepted func(context.Context, events.ObjectCreated)
}

// FnAPI is the name of the source in changes that requests of users and agents cause. It is not a function that
// reacts to events.
const FnAPI = record.FnAPI

// Check returns an error that names the missing ports that the given functions need. Hosts call it before they make a
// broker. Otherwise, the first event that needs a missing port would fail.
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

// complete returns the ports with defaults for the optional ones, and a copy of the map of clouds.
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

// commitHook returns the hook that notifies the host of a unit's changes.
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

// Broker handles jobs, with one part for each kind of caller. Its only state is a cache of immutable records, so any
// number of brokers may use the same store.
type Broker struct {
	// Functions react to events.
	Functions *Functions
	// Agents serves the agents on bought machines and machines of pools.
	Agents *Agents
	// Users handles the requests of users.
	Users *Users
	// Services watches the attempts on managed services.
	Services *Services
	// Views return records in the form of the API. They change nothing.
	Views *view.Views
}

// Functions has the functions that react to events, and those that hosts call periodically.
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

// Agents is the API for agents on machines. The claims in its calls come from verified tokens.
type Agents struct {
	ports   Ports
	cfg     config.Config
	txns    *txn.Transactor
	pools   *pool.Keeper
	uploads Uploads
	log     *slog.Logger
}

// Users is the API for users. The HTTP API and the host's own commands call it.
type Users struct {
	ports Ports
	cfg   config.Config
	txns  *txn.Transactor
	pools *pool.Keeper
	log   *slog.Logger
}

// NewViews returns views of a store without a broker, for adapters that are ports of a broker.
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
