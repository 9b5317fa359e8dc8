package api

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tradewind-broker/tradewind/pkg/agent/wire"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/broker"
	"github.com/tradewind-broker/tradewind/pkg/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/broker/view"
	"github.com/tradewind-broker/tradewind/pkg/bus"
	"github.com/tradewind-broker/tradewind/pkg/dag"
)

// Broker is what the API needs of [broker.Broker].
type Broker interface {
	Submit(ctx context.Context, s broker.Submission) (record.Job, error)
	Rerun(ctx context.Context, id, token string) (record.Job, error)
	Cancel(ctx context.Context, id, reason string) error
	Suspend(ctx context.Context, id string, s apitypes.Suspension, key string) error
	Resume(ctx context.Context, id, by, key string) error
	Jobs(ctx context.Context, after string, limit int) (views []apitypes.JobView, next string, err error)
	JobView(ctx context.Context, id string) (apitypes.JobView, error)
	JobPart(ctx context.Context, id string, p view.Part) (*apitypes.JobDetail, error)
	Document(ctx context.Context, id string) (string, error)
	JobSince(ctx context.Context, id string, was *view.Look) (*view.Look, error)
	ExplainPart(ctx context.Context, id string, p view.Part) (*apitypes.Story, error)
	Queues(ctx context.Context) ([]apitypes.Queue, error)
	SetQueue(ctx context.Context, name string, s record.QueueSettings) error
	SuspendQueue(ctx context.Context, name string, s apitypes.Suspension, key string) error
	ResumeQueue(ctx context.Context, name, by, key string) error
	WhyWaiting(ctx context.Context, id string) (*apitypes.Why, error)
	Waiting(ctx context.Context, queue string, limit int) ([]apitypes.Waiting, error)
	Blocks(ctx context.Context) ([]apitypes.Block, error)
	Learned(ctx context.Context, job string) (apitypes.History, error)
	Markets(ctx context.Context, after string, limit int) (markets []apitypes.MarketView, next string, err error)
	PastPrices(ctx context.Context, offers []string) ([]record.PastPrices, error)
	Usage(ctx context.Context, last time.Duration) (apitypes.Usage, error)

	Pools(ctx context.Context) ([]apitypes.PoolView, error)
	PoolView(ctx context.Context, name string) (apitypes.PoolView, error)
	SetPool(ctx context.Context, name string, s record.PoolSettings) error
	RemovePool(ctx context.Context, name string) error
	DrainMachine(ctx context.Context, pool, machine string, how apitypes.Drain) error
	RemoveMachine(ctx context.Context, pool, machine string) error
	SyncMachine(ctx context.Context, m wire.PoolClaims, r wire.PoolReport) (wire.PoolOrders, error)

	Hello(ctx context.Context, c wire.Claims, h wire.Hello) (wire.Work, error)
	Work(ctx context.Context, c wire.Claims, seen int) (wire.Work, error)
	Report(ctx context.Context, c wire.Claims, r wire.Report) error

	OpenVisit(ctx context.Context, v broker.Visiting) (cluster string, opened record.Visit, err error)
	Visits(ctx context.Context, c wire.Claims, after int) ([]record.Visit, error)
	Visit(ctx context.Context, cluster string, number int) (record.Visit, error)
	EndVisit(ctx context.Context, cluster string, number int, how wire.VisitEnded) error
}

// DeadLetters is what the API needs of a [bus.Bus].
type DeadLetters interface {
	DeadLetters(ctx context.Context, queue string, limit int) ([]bus.DeadLetter, error)
	Redrive(ctx context.Context, queue string, ids ...string) (int, error)
}

// PlanFunc plans a job that is not submitted, with the prices and blocks of now. A job for which there is
// no plan is not an error but a plan whose status is [broker.PlanInfeasible].
type PlanFunc func(ctx context.Context, spec *dag.Job) (*record.Plan, error)

// Log names the output of one node of one attempt.
type Log struct {
	Job     string
	Attempt string // cluster ID
	Rank    int
}

// Errors of a [Logs].
var (
	// ErrNoLog: nothing was written under this name, or the name cannot be one.
	ErrNoLog = errors.New("api: no such log")
	// ErrLogOffset: a piece does not begin where the log ends. See [OffsetError].
	ErrLogOffset = errors.New("api: log offset")
)

// OffsetError says where a log goes on. errors.Is(err, ErrLogOffset) holds of it.
type OffsetError struct{ Want int64 }

func (e *OffsetError) Error() string {
	return fmt.Sprintf("%v: the log goes on at %d", ErrLogOffset, e.Want)
}

// Is makes an OffsetError match ErrLogOffset.
func (e *OffsetError) Is(target error) bool { return target == ErrLogOffset }

// Logs keeps what tasks print. All methods are safe for concurrent use.
type Logs interface {
	// Append adds data at an offset in bytes. It fails with an *OffsetError when the log ends elsewhere; what was
	// appended before an error is kept. An implementation may bound a log: it then accepts and drops what is beyond.
	Append(ctx context.Context, log Log, offset int64, data []byte) error
	// Size is how many bytes can be read. It fails with ErrNoLog.
	Size(ctx context.Context, log Log) (int64, error)
	// Read fills p from an offset on, and returns how many bytes it read: 0 and io.EOF when there are none yet.
	// It fails with ErrNoLog.
	Read(ctx context.Context, log Log, offset int64, p []byte) (int, error)
	// Wait returns nil when the log may have more than offset bytes, or ctx's error. The log need not exist yet.
	Wait(ctx context.Context, log Log, offset int64) error
}

// Times and sizes of the API's own. They are wall time.
const (
	heartbeat    = 15 * time.Second // silence on a stream after which it says that it is alive
	uploadWithin = 2 * time.Minute  // for a job file to arrive
	bodyWithin   = 30 * time.Second // for any other body, and the answer to it
	maxWorkWait  = time.Minute      // of an agent's long poll
	maxFileBytes = dag.MaxFileBytes
	maxHeavy     = 4 // job files read and planned at once: each may take a hundred MiB
)
