package api

import (
	"context"
	"maps"
	"net/http"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"golang.org/x/sync/errgroup"

	"github.com/tradewind-broker/tradewind/pkg/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/broker/session"
)

// QueueSetter changes queues. A *broker.Users is one.
type QueueSetter interface {
	SetQueue(ctx context.Context, name string, s record.QueueSettings) error
}

// QueueViews shows queues, and why tasks wait. A *view.Views is one.
type QueueViews interface {
	Queues(ctx context.Context) ([]record.Queue, error)
	WhyWaiting(ctx context.Context, id string) (*session.Why, error)
	Waiting(ctx context.Context, queue string, limit int) ([]record.Waiting, error)
	Blocks(ctx context.Context) ([]record.Block, error)
}

func (a *API) queueRoutes() {
	userRoute(a, huma.Operation{
		OperationID: "list-queues", Method: http.MethodGet, Path: "/v1/queues", Tags: []string{"capacity"},
		Summary: "List queues with their quotas and what is in use",
	}, a.listQueues)
	userRoute(a, huma.Operation{
		OperationID: "set-queue", Method: http.MethodPut, Path: "/v1/queues/{name}", Tags: []string{"capacity"},
		Summary: "Create a queue or change its quota", DefaultStatus: http.StatusOK,
	}, a.setQueue)
	userRoute(a, huma.Operation{
		OperationID: "list-waiting", Method: http.MethodGet, Path: "/v1/queues/{name}/waiting",
		Tags:    []string{"capacity"},
		Summary: "List the tasks that wait in a queue, in the order in which they will be admitted",
	}, a.listWaiting)
	userRoute(a, huma.Operation{
		OperationID: "why-waiting", Method: http.MethodGet, Path: "/v1/jobs/{id}/waiting", Tags: []string{"capacity"},
		Summary: "Tell why a job's tasks wait in their queue",
	}, a.whyWaiting)
	userRoute(a, huma.Operation{
		OperationID: "list-blocks", Method: http.MethodGet, Path: "/v1/blocks", Tags: []string{"capacity"},
		Summary: "List the places that are not tried now, and why",
	}, a.listBlocks)
}

// QueueList is a list of queues.
type QueueList struct {
	Queues  []record.Queue `json:"queues" nullable:"false" doc:"Queues that were configured or used"`
	Waiting map[string]int `json:"waiting,omitempty" doc:"Where it was asked for: how many tasks wait in each queue, counted to 1000; queues without any are left out"`
}

type queueListInput struct {
	Waiting bool `query:"waiting" doc:"Count the tasks that wait, too"`
}

// counted is as far as waiting tasks are counted, countsAtOnce how many queues are asked together.
const counted, countsAtOnce = 1000, 16

func (a *API) listQueues(ctx context.Context, in *queueListInput) (*body[QueueList], error) {
	queues, err := a.cfg.Broker.QueueViews.Queues(ctx)
	if err != nil || !in.Waiting {
		return &body[QueueList]{Body: QueueList{Queues: orEmpty(queues)}}, err
	}
	out := QueueList{Queues: orEmpty(queues), Waiting: map[string]int{}}
	var mu sync.Mutex
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(countsAtOnce)
	for i := range queues {
		g.Go(func() error {
			waiting, err := a.cfg.Broker.QueueViews.Waiting(ctx, queues[i].Name, counted)
			if len(waiting) > 0 {
				mu.Lock()
				defer mu.Unlock()
				out.Waiting[queues[i].Name] = len(waiting)
			}
			return err
		})
	}
	return &body[QueueList]{Body: out}, g.Wait()
}

// QueueQuota is what can be set of a queue.
type QueueQuota struct {
	_           struct{} `additionalProperties:"false"`
	MaxRunning  int      `json:"maxRunning,omitempty" minimum:"0" maximum:"1000000" doc:"Tasks that may hold capacity at once; 0 is no limit"`
	MaxVCPU     float64  `json:"maxVCPU,omitempty" minimum:"0" maximum:"1000000000" doc:"vCPUs they may hold; 0 is no limit"`
	Description string   `json:"description,omitempty" maxLength:"1024" doc:"For people"`

	Parent         string  `json:"parent,omitempty" pattern:"^([A-Za-z0-9][A-Za-z0-9._-]*)?$" maxLength:"128" doc:"Queue whose quota it shares with its siblings; empty is none"`
	Weight         int     `json:"weight,omitempty" minimum:"0" maximum:"1000000" doc:"Its part among its siblings; 0 is 1"`
	DeservedVCPU   float64 `json:"deservedVCPU,omitempty" minimum:"0" maximum:"1000000000" doc:"vCPUs it may take back from its siblings; 0 is what its weight gives it"`
	GuaranteedVCPU float64 `json:"guaranteedVCPU,omitempty" minimum:"0" maximum:"1000000000" doc:"vCPUs kept for it even while it has no use for them"`

	Max        record.Amounts `json:"max,omitempty" doc:"The most that it may hold, by resource: memoryGiB, usdPerHour, the name of a kind of accelerator, or vcpus, which is maxVCPU; and usdPerMonth, what its jobs may cost in a calendar month (UTC); 0 is no limit"`
	Deserved   record.Amounts `json:"deserved,omitempty" doc:"What it may take back from its siblings, by resource"`
	Guaranteed record.Amounts `json:"guaranteed,omitempty" doc:"What is kept for it even while it has no use for it, by resource"`

	Preempt bool `json:"preempt,omitempty" doc:"Whether its jobs of higher priority take the machines of those of lower, whose work is saved first"`
	Closed  bool `json:"closed,omitempty" doc:"Whether it admits nothing"`
}

// TransformSchema bounds each amount of a resource, as the fields of one number are.
func (*QueueQuota) TransformSchema(_ huma.Registry, s *huma.Schema) *huma.Schema {
	for _, name := range []string{"max", "deserved", "guaranteed"} {
		amount, ok := s.Properties[name].AdditionalProperties.(*huma.Schema)
		if !ok {
			panic("api: " + name + " of a queue is no map of amounts")
		}
		least, most := 0.0, record.MaxAmount
		amount.Minimum, amount.Maximum = &least, &most
		amount.PrecomputeMessages()
	}
	return s
}

func (q *QueueQuota) settings() record.QueueSettings {
	// vCPUs have fields of their own.
	vcpus := func(a *record.Amounts, field float64) float64 {
		v, said := (*a)[record.VCPUs]
		if !said {
			return field
		}
		*a = maps.Clone(*a)
		delete(*a, record.VCPUs)
		return v
	}
	most, deserved, guaranteed := q.Max, q.Deserved, q.Guaranteed
	q.MaxVCPU = vcpus(&most, q.MaxVCPU)
	q.DeservedVCPU, q.GuaranteedVCPU = vcpus(&deserved, q.DeservedVCPU), vcpus(&guaranteed, q.GuaranteedVCPU)
	return record.QueueSettings{
		Max: most, Deserved: deserved, Guaranteed: guaranteed,
		MaxRunning: q.MaxRunning, MaxVCPU: q.MaxVCPU, Description: q.Description, Parent: q.Parent, Weight: q.Weight,
		DeservedVCPU: q.DeservedVCPU, GuaranteedVCPU: q.GuaranteedVCPU, Preempt: q.Preempt, Closed: q.Closed,
	}
}

type setQueueInput struct {
	Name string `path:"name" pattern:"^[A-Za-z0-9][A-Za-z0-9._-]*$" maxLength:"128" doc:"Name of the queue"`
	Body QueueQuota
}

func (a *API) setQueue(ctx context.Context, in *setQueueInput) (*body[record.Queue], error) {
	if err := a.cfg.Broker.QueueSetter.SetQueue(ctx, in.Name, in.Body.settings()); err != nil {
		return nil, err
	}
	return a.queueNamed(ctx, in.Name)
}

// queueNamed answers with a queue.
func (a *API) queueNamed(ctx context.Context, name string) (*body[record.Queue], error) {
	queues, err := a.cfg.Broker.QueueViews.Queues(ctx)
	if err != nil {
		return nil, err
	}
	for _, q := range queues {
		if q.Name == name {
			return &body[record.Queue]{Body: q}, nil
		}
	}
	return nil, huma.Error404NotFound("the queue is gone")
}

type waitingInput struct {
	Name  string `path:"name" maxLength:"128" doc:"Name of the queue"`
	Limit int    `query:"limit" minimum:"1" maximum:"1000" default:"100" doc:"The most tasks to list"`
}

// WaitingList is a list of waiting tasks.
type WaitingList struct {
	Waiting []record.Waiting `json:"waiting" nullable:"false" doc:"The tasks, the next one first"`
}

func (a *API) listWaiting(ctx context.Context, in *waitingInput) (*body[WaitingList], error) {
	waiting, err := a.cfg.Broker.QueueViews.Waiting(ctx, in.Name, in.Limit)
	if err != nil {
		return nil, err
	}
	return &body[WaitingList]{Body: WaitingList{Waiting: orEmpty(waiting)}}, nil
}

type whyInput struct {
	ID string `path:"id" doc:"Job ID" maxLength:"256"`
}

func (a *API) whyWaiting(ctx context.Context, in *whyInput) (*body[session.Why], error) {
	why, err := a.cfg.Broker.QueueViews.WhyWaiting(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	return &body[session.Why]{Body: *why}, nil
}

// BlockList is a list of blocked places.
type BlockList struct {
	Now    time.Time      `json:"now" doc:"The broker's clock"`
	Blocks []record.Block `json:"blocks" nullable:"false" doc:"What is not tried; an empty field is every value"`
}

func (a *API) listBlocks(ctx context.Context, _ *struct{}) (*body[BlockList], error) {
	blocks, err := a.cfg.Broker.QueueViews.Blocks(ctx)
	if err != nil {
		return nil, err
	}
	return &body[BlockList]{Body: BlockList{Now: a.cfg.Now().UTC(), Blocks: orEmpty(blocks)}}, nil
}
