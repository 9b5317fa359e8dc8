package api

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tradewind-broker/tradewind/internal/agent/wire"
	"github.com/tradewind-broker/tradewind/internal/broker"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/bus"
	"github.com/tradewind-broker/tradewind/pkg/dag"
)

// Ports is the part of a broker that the API uses. Each interface is declared next to the routes that use it.
type Ports struct {
	Submitter    Submitter
	JobViews     JobViews
	Suspender    Suspender
	QueueSetter  QueueSetter
	QueueViews   QueueViews
	PoolKeeper   PoolKeeper
	PoolViews    PoolViews
	PoolMachines PoolMachines
	MarketViews  MarketViews
	Agents       Agents
	VisitOpener  VisitOpener
	AgentVisits  AgentVisits
	Data         Data // nil answers 501
}

// PortsOf returns the ports of a broker.
func PortsOf(b *broker.Broker) Ports {
	return Ports{
		Submitter: b.Users, JobViews: b.Views, Suspender: b.Users, QueueSetter: b.Users, QueueViews: b.Views,
		PoolKeeper: b.Users,
		PoolViews:  b.Views, PoolMachines: b.Agents, MarketViews: b.Views, Agents: b.Agents, VisitOpener: b.Users,
		AgentVisits: b.Agents, Data: b.Agents,
	}
}

// complete reports whether all required ports are set.
func (p Ports) complete() bool {
	return p.Submitter != nil && p.JobViews != nil && p.Suspender != nil && p.QueueSetter != nil &&
		p.QueueViews != nil &&
		p.PoolKeeper != nil && p.PoolViews != nil && p.PoolMachines != nil && p.MarketViews != nil && p.Agents != nil &&
		p.VisitOpener != nil && p.AgentVisits != nil
}

// DeadLetters is the part of a [bus.Bus] that the API uses.
type DeadLetters interface {
	DeadLetters(ctx context.Context, queue string, limit int) ([]bus.DeadLetter, error)
	Redrive(ctx context.Context, queue string, ids ...string) (int, error)
}

// PlanFunc plans a job that is not submitted, with the current prices and blocks. If no plan is possible, it returns
// no error, but a plan with the status [broker.PlanInfeasible].
type PlanFunc func(ctx context.Context, spec *dag.Job) (*record.Plan, error)

// Log names the output of one node of one attempt.
type Log struct {
	Job     string
	Attempt string // cluster ID
	Rank    int
}

// Errors of a [Logs].
var (
	// ErrNoLog means that nothing was written under this name, or the name is invalid.
	ErrNoLog = errors.New("api: no such log")
	// ErrLogOffset means that a piece does not begin where the log ends. See [OffsetError].
	ErrLogOffset = errors.New("api: log offset")
)

// OffsetError contains the offset at which a log ends, and from which the sender must continue. It matches
// ErrLogOffset.
type OffsetError struct{ Want int64 }

func (e *OffsetError) Error() string {
	return fmt.Sprintf("%v: the log continues at %d", ErrLogOffset, e.Want)
}

// Is makes an OffsetError match ErrLogOffset.
func (e *OffsetError) Is(target error) bool { return target == ErrLogOffset }

// Logs stores the output of tasks. All methods are safe for concurrent use.
type Logs interface {
	// Append adds data at an offset in bytes. It returns an *OffsetError if the log ends at another offset. Data that
	// was appended before an error stays. An implementation may limit a log's size: it then accepts and drops the
	// rest. marks are the times at which the data was written; they may be missing.
	Append(ctx context.Context, log Log, offset int64, data []byte, marks ...wire.LogMark) error
	// Marks returns the last known mark at or before an offset and some of the marks after it, in order. It returns
	// none for a log whose times are unknown.
	Marks(ctx context.Context, log Log, offset int64) ([]wire.LogMark, error)
	// Size returns the number of bytes that can be read, or ErrNoLog.
	Size(ctx context.Context, log Log) (int64, error)
	// Read reads into p from an offset on, and returns the number of bytes read: 0 and io.EOF if there are none yet.
	// It returns ErrNoLog for an unknown log.
	Read(ctx context.Context, log Log, offset int64, p []byte) (int, error)
	// Wait returns nil when the log may have more than offset bytes, or ctx's error. The log need not exist yet.
	Wait(ctx context.Context, log Log, offset int64) error
}

// Limits of the API. Times are wall time.
const (
	heartbeat    = 15 * time.Second // silence on a stream after which a sign of life is sent
	uploadWithin = 2 * time.Minute  // for a job file to arrive
	bodyWithin   = 30 * time.Second // for any other body, and the response to it
	maxWorkWait  = time.Minute      // of an agent's long poll
	maxFileBytes = dag.MaxFileBytes
	maxHeavy     = 4 // job files read and planned at once: each may take a hundred MiB
)
