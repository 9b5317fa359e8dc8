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
	"github.com/tradewind-broker/tradewind/pkg/agent/wire"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/broker/admission"
	"github.com/tradewind-broker/tradewind/pkg/broker/book"
	"github.com/tradewind-broker/tradewind/pkg/broker/buckets"
	"github.com/tradewind-broker/tradewind/pkg/broker/inputs"
	"github.com/tradewind-broker/tradewind/pkg/broker/outbox"
	"github.com/tradewind-broker/tradewind/pkg/broker/pool"
	"github.com/tradewind-broker/tradewind/pkg/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/broker/unit"
	"github.com/tradewind-broker/tradewind/pkg/broker/view"
	"github.com/tradewind-broker/tradewind/pkg/bus"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
	"github.com/tradewind-broker/tradewind/pkg/dag"
	"github.com/tradewind-broker/tradewind/pkg/grant"
	"github.com/tradewind-broker/tradewind/pkg/scheduler"
	"github.com/tradewind-broker/tradewind/pkg/store"
)

// Planner makes plans. It must be a function of its input alone.
type Planner interface {
	Plan(ctx context.Context, in record.PlanInput) (*record.Plan, error)
	// Reserves says whether plans may be on capacity of which an account has some only: they have to be told who runs
	// there, which is not looked up otherwise.
	Reserves(ctx context.Context) bool
}

// Objects reads DAG files that appeared in a bucket or folder.
type Objects interface {
	// Open reads an object. It fails with fs.ErrNotExist when it is gone, or where its version is not the one that was
	// told of, and with a *dag.Error for what is no job whatever is in it. tag is that of what is read, where it may
	// have been written again since it was told of: the same content is one job. Empty is the one that was told.
	Open(ctx context.Context, o events.ObjectCreated) (body io.ReadCloser, tag string, err error)
	// Settle makes good anywhere what a job says in relation to where its file lies, such as relative paths. It fails
	// with a *dag.Error for what cannot be.
	Settle(ctx context.Context, bucket, key string, spec *dag.Job) error
}

// Packs is where the packs lie that jobs name: code and files that were brought along (pkg/pack/depot).
type Packs interface {
	// Check fails with pack.ErrIncomplete, ErrURI or ErrCorrupt unless all of the packs is there, for long.
	Check(ctx context.Context, uris ...string) error
	// Stay keeps the packs, some weeks at least.
	Stay(ctx context.Context, uris ...string) error
}

// Prices reads spot prices for tick. It may return none.
type Prices interface {
	SpotPrices(ctx context.Context) ([]events.PriceTick, error)
}

// Hook is told of events that are news for people.
type Hook interface {
	Notify(ctx context.Context, e events.Event) error
}

// Ports are what a host hands to the broker.
type Ports struct {
	Store store.Store
	// Decoded is what several brokers of one process keep of this store, as a simulator has; nil is each its own.
	Decoded *book.Decoded
	Bus     bus.Bus                // for the relay, and for events that no record goes with
	Clouds  map[string]cloud.Cloud // by catalogue name
	// NoOthers says that the host has made certain that no machines are left on clouds which are not in Clouds.
	NoOthers bool
	Planner  Planner
	Moves    record.Mover // of those who run sessions, or tell what they would decide
	Tokens   func(wire.Claims) (string, error)
	Data     grant.Store // what tasks read and write: grants it to agents, ends the uploads that they leave behind
	// AtOnce is how many calls of Data are made at once for one event or request; 0 is 16. A simulator, which says what
	// runs when, has one.
	AtOnce  int
	Now     func() time.Time
	Objects Objects                         // may be nil: no DAG bucket
	Packs   Packs                           // may be nil: jobs that name packs are refused
	Here    inputs.Machine                  // may be nil: tasks run on machines that are bought
	Secrets Secrets                         // may be nil: jobs that have secrets are refused
	Prices  Prices                          // may be nil
	Hook    Hook                            // may be nil
	Refresh func(ctx context.Context) error // reloads the catalogue; may be nil
	// Policy tells how sessions decide now, one that CheckPolicy has nothing against. It may be nil, or return nil:
	// OwnPolicy.
	Policy func(ctx context.Context) *scheduler.Policy
	Log    *slog.Logger
	// Changed is told of each cluster whose command may have changed, so that a host with
	// waiting agents can answer them at once. May be nil.
	Changed func(cluster string)
	// Committed is told after each commit of the events that it put in the outbox. May be nil.
	Committed func(ctx context.Context, emitted []store.Event)
	// Accepted is told of each object of Objects that has become a job, each time that the object is told of: a remark
	// about it can go. May be nil.
	Accepted func(context.Context, events.ObjectCreated)
}

// FnAPI stands for what users and agents ask, which is no function that reacts to events.
const FnAPI = "api"

// Check names the ports that functions cannot do without and that are not there. Hosts ask before they make a broker:
// what is missing would else be found out by the first event that needs it.
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

// complete returns the ports with defaults for what a host may leave out, and with a map of clouds of its own.
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

// told returns the hook that tells the host what a unit changed.
func (p Ports) told(known *pool.Known) func(*unit.Unit) {
	return func(u *unit.Unit) {
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

// Broker handles what happens to jobs, with a handle for each of its users. It keeps no state but a cache of what never
// changes, so any number of brokers may work on the same store.
type Broker struct {
	// Functions react to events.
	Functions *Functions
	// Agents serves the agents of machines, bought or of pools.
	Agents *Agents
	// Users does what people ask for.
	Users *Users
	// Views show records, and change none.
	Views *view.Views
}

// Functions are the functions that react to events, and what hosts call by the clock.
type Functions struct {
	ports    Ports
	cfg      record.Config
	txns     *unit.Transactor
	pools    *pool.Keeper
	sessions *admission.Runner
	uploads  buckets.Uploads
	relay    outbox.Relay
	users    *Users // a DAG file is submitted as a user submits it
	log      *slog.Logger
}

// Agents is what agents of machines call. Claims come from verified tokens.
type Agents struct {
	ports   Ports
	cfg     record.Config
	txns    *unit.Transactor
	pools   *pool.Keeper
	uploads buckets.Uploads
	log     *slog.Logger
}

// Users is what people call, by the API or a host's own commands.
type Users struct {
	ports Ports
	cfg   record.Config
	txns  *unit.Transactor
	pools *pool.Keeper
	log   *slog.Logger
}

// NewViews makes views of a store without a broker, for adapters that are handed to a broker.
func NewViews(cfg record.Config, p Ports) *view.Views {
	txns := unit.NewTransactor(p.Store, p.Now, cfg, unit.Hooks{})
	policy := admission.Following(p.Policy)
	pools := pool.New(txns, pool.NewKnown(), p.Tokens, policy)
	return view.New(txns, pools, &admission.Runner{Config: cfg, Policy: policy, Mover: p.Moves, Pools: pools})
}

// New makes a broker.
func New(cfg record.Config, p Ports) *Broker {
	p = p.complete()
	relay := outbox.Relay{Store: p.Store, Bus: p.Bus, Log: p.Log}
	known := pool.NewKnown()
	hooks := unit.Hooks{Done: p.told(known), Conflicted: known.Conflicted}
	if p.Bus != nil {
		hooks.Publish = relay.Publish
	}
	txns := unit.NewTransactor(p.Store, p.Now, cfg, hooks)
	if p.Decoded != nil {
		txns.Share(p.Decoded)
	}
	policy := admission.Following(p.Policy)
	pools := pool.New(txns, known, p.Tokens, policy)
	sessions := &admission.Runner{Config: cfg, Policy: policy, Mover: p.Moves, Pools: pools}
	p.Clouds[apitypes.PoolCloud] = pools.Driver()
	uploads := buckets.Uploads{Txns: txns, Data: p.Data, AtOnce: p.AtOnce, Log: p.Log}
	users := &Users{ports: p, cfg: cfg, txns: txns, pools: pools, log: p.Log}
	return &Broker{
		Functions: &Functions{
			ports: p, cfg: cfg, txns: txns, pools: pools, sessions: sessions, uploads: uploads, relay: relay,
			users: users, log: p.Log,
		},
		Agents: &Agents{ports: p, cfg: cfg, txns: txns, pools: pools, uploads: uploads, log: p.Log},
		Users:  users,
		Views:  view.New(txns, pools, sessions),
	}
}
