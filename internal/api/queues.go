package api

import (
	"context"
	"maps"
	"net/http"
	"sync"

	"github.com/danielgtaylor/huma/v2"
	"golang.org/x/sync/errgroup"

	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
)

// QueueSetter changes queues. A *broker.Users is one.
type QueueSetter interface {
	SetQueue(ctx context.Context, name string, s record.QueueSettings) error
}

// QueueViews shows queues, and why tasks wait. A *view.Views is one.
type QueueViews interface {
	Queues(ctx context.Context) ([]apitypes.Queue, error)
	WhyWaiting(ctx context.Context, id string) (*apitypes.Why, error)
	Waiting(ctx context.Context, queue string, limit int) ([]apitypes.Waiting, error)
	Blocks(ctx context.Context) ([]apitypes.Block, error)
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
	a.boundAmounts()
	userRoute(a, huma.Operation{
		OperationID: "list-waiting", Method: http.MethodGet, Path: "/v1/queues/{name}/waiting",
		Tags:    []string{"capacity"},
		Summary: "List the tasks that wait in a queue, in the order in which they will be admitted",
	}, a.listWaiting)
	userRoute(a, huma.Operation{
		OperationID: "why-waiting", Method: http.MethodGet, Path: "/v1/jobs/{id}/waiting", Tags: []string{"capacity"},
		Summary: "Return why a job's tasks wait in their queue",
	}, a.whyWaiting)
	userRoute(a, huma.Operation{
		OperationID: "list-blocks", Method: http.MethodGet, Path: "/v1/blocks", Tags: []string{"capacity"},
		Summary: "List the places that the broker does not try now, and why",
	}, a.listBlocks)
}

type queueListInput struct {
	Waiting bool `query:"waiting" doc:"Also count the waiting tasks"`
}

// maxCountedWaiting is the maximum to which waiting tasks are counted. countsAtOnce is the number of queues that are
// counted at once.
const maxCountedWaiting, countsAtOnce = 1000, 16

func (a *API) listQueues(ctx context.Context, in *queueListInput) (*body[apitypes.QueueList], error) {
	queues, err := a.cfg.Broker.QueueViews.Queues(ctx)
	if err != nil || !in.Waiting {
		return &body[apitypes.QueueList]{Body: apitypes.QueueList{Queues: orEmpty(queues),
			Simulated: a.cfg.Simulated}}, err
	}
	out := apitypes.QueueList{Queues: orEmpty(queues), Waiting: map[string]int{}, Simulated: a.cfg.Simulated}
	var mu sync.Mutex
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(countsAtOnce)
	for i := range queues {
		g.Go(func() error {
			waiting, err := a.cfg.Broker.QueueViews.Waiting(ctx, queues[i].Name, maxCountedWaiting)
			if len(waiting) > 0 {
				mu.Lock()
				defer mu.Unlock()
				out.Waiting[queues[i].Name] = len(waiting)
			}
			return err
		})
	}
	return &body[apitypes.QueueList]{Body: out}, g.Wait()
}

// boundAmounts sets the limits of amounts in the schema of QueueQuota. For other fields, struct tags set them.
func (a *API) boundAmounts() {
	quota := a.huma.OpenAPI().Components.Schemas.SchemaFromRef(a.schema(apitypes.QueueQuota{}).Ref)
	for _, name := range []string{"max", "deserved", "guaranteed"} {
		amount, ok := quota.Properties[name].AdditionalProperties.(*huma.Schema)
		if !ok {
			panic("api: " + name + " of a queue is not a map of amounts")
		}
		least, most := 0.0, record.MaxAmount
		amount.Minimum, amount.Maximum = &least, &most
		amount.PrecomputeMessages()
	}
}

func settings(q apitypes.QueueQuota) record.QueueSettings {
	// vCPUs have separate fields.
	vcpus := func(a *apitypes.Amounts, field float64) float64 {
		v, said := (*a)[apitypes.VCPUs]
		if !said {
			return field
		}
		*a = maps.Clone(*a)
		delete(*a, apitypes.VCPUs)
		return v
	}
	most, deserved, guaranteed := q.Max, q.Deserved, q.Guaranteed
	q.MaxVCPU = vcpus(&most, q.MaxVCPU)
	q.DeservedVCPU, q.GuaranteedVCPU = vcpus(&deserved, q.DeservedVCPU), vcpus(&guaranteed, q.GuaranteedVCPU)
	return record.QueueSettings{
		Max: most, Deserved: deserved, Guaranteed: guaranteed,
		MaxRunning: q.MaxRunning, MaxVCPU: q.MaxVCPU, Description: q.Description, Parent: q.Parent, Weight: q.Weight,
		DeservedVCPU: q.DeservedVCPU, GuaranteedVCPU: q.GuaranteedVCPU, Preempt: q.Preempt, Closed: q.Closed,
		Keep: q.Keep,
	}
}

type setQueueInput struct {
	Name string `path:"name" pattern:"^[A-Za-z0-9][A-Za-z0-9._-]*$" maxLength:"128" doc:"Name of the queue"`
	Body apitypes.QueueQuota
}

func (a *API) setQueue(ctx context.Context, in *setQueueInput) (*body[apitypes.Queue], error) {
	if err := a.cfg.Broker.QueueSetter.SetQueue(ctx, in.Name, settings(in.Body)); err != nil {
		return nil, err
	}
	return a.queueNamed(ctx, in.Name)
}

// queueNamed responds with a queue.
func (a *API) queueNamed(ctx context.Context, name string) (*body[apitypes.Queue], error) {
	queues, err := a.cfg.Broker.QueueViews.Queues(ctx)
	if err != nil {
		return nil, err
	}
	for _, q := range queues {
		if q.Name == name {
			return &body[apitypes.Queue]{Body: q}, nil
		}
	}
	return nil, huma.Error404NotFound("the queue was removed")
}

type waitingInput struct {
	Name  string `path:"name" maxLength:"128" doc:"Name of the queue"`
	Limit int    `                            doc:"Maximum number of tasks" query:"limit" minimum:"1" maximum:"1000" default:"100"`
}

func (a *API) listWaiting(ctx context.Context, in *waitingInput) (*body[apitypes.WaitingList], error) {
	waiting, err := a.cfg.Broker.QueueViews.Waiting(ctx, in.Name, in.Limit)
	if err != nil {
		return nil, err
	}
	return &body[apitypes.WaitingList]{Body: apitypes.WaitingList{Waiting: orEmpty(waiting)}}, nil
}

type whyInput struct {
	ID string `path:"id" doc:"Job ID" maxLength:"256"`
}

func (a *API) whyWaiting(ctx context.Context, in *whyInput) (*body[apitypes.Why], error) {
	why, err := a.cfg.Broker.QueueViews.WhyWaiting(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	return &body[apitypes.Why]{Body: *why}, nil
}

func (a *API) listBlocks(ctx context.Context, _ *struct{}) (*body[apitypes.BlockList], error) {
	blocks, err := a.cfg.Broker.QueueViews.Blocks(ctx)
	if err != nil {
		return nil, err
	}
	return &body[apitypes.BlockList]{Body: apitypes.BlockList{Now: a.cfg.Now().UTC(), Blocks: orEmpty(blocks)}}, nil
}
