package api

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/tradewind-broker/tradewind/pkg/agent/wire"
	"github.com/tradewind-broker/tradewind/pkg/broker/pool"
	"github.com/tradewind-broker/tradewind/pkg/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/broker/view"
)

// MachineTokens makes and checks the tokens of pools' machines: pkg/agent/token with the deployment's key and clock.
type MachineTokens struct {
	Mint   func(wire.PoolClaims) (string, error)
	Verify func(token string) (wire.PoolClaims, error)
	// JoinFor is how long a token to join with is good, MachineFor how long a machine's own, which is renewed when half
	// of that is over. 0 is DefaultJoinFor and DefaultMachineFor.
	JoinFor, MachineFor time.Duration
}

// How long tokens of pools are good, on the broker's clock.
const (
	DefaultJoinFor    = 24 * time.Hour
	DefaultMachineFor = 24 * time.Hour
)

func (t *MachineTokens) complete() *MachineTokens {
	if t == nil {
		return nil
	}
	full := *t
	if full.JoinFor <= 0 {
		full.JoinFor = DefaultJoinFor
	}
	if full.MachineFor <= 0 {
		full.MachineFor = DefaultMachineFor
	}
	return &full
}

// PoolKeeper changes pools. A *broker.Users is one.
type PoolKeeper interface {
	SetPool(ctx context.Context, name string, s record.PoolSettings) error
	RemovePool(ctx context.Context, name string) error
	DrainMachine(ctx context.Context, pool, machine string, how pool.Drain) error
	RemoveMachine(ctx context.Context, pool, machine string) error
}

// PoolViews shows pools. A *view.Views is one.
type PoolViews interface {
	Pools(ctx context.Context) ([]view.PoolView, error)
	PoolView(ctx context.Context, name string) (view.PoolView, error)
}

func (a *API) poolRoutes() {
	tags := []string{"pools"}
	userRoute(a, huma.Operation{
		OperationID: "list-pools", Method: http.MethodGet, Path: "/v1/pools", Tags: tags,
		Summary: "List pools with their machines, what these have, and what runs there",
	}, a.listPools)
	userRoute(a, huma.Operation{
		OperationID: "set-pool", Method: http.MethodPut, Path: "/v1/pools/{pool}", Tags: tags,
		Summary: "Create a pool or change its settings", DefaultStatus: http.StatusOK,
	}, a.setPool)
	userRoute(a, huma.Operation{
		OperationID: "remove-pool", Method: http.MethodDelete, Path: "/v1/pools/{pool}", Tags: tags,
		Summary: "Remove a pool that has no machines",
	}, a.removePool)
	userRoute(a, huma.Operation{
		OperationID: "invite-machines", Method: http.MethodPost, Path: "/v1/pools/{pool}/token", Tags: tags,
		Summary: "Make a token with which machines can join a pool", DefaultStatus: http.StatusOK,
	}, a.invite)
	userRoute(a, huma.Operation{
		OperationID: "drain-pool", Method: http.MethodPost, Path: "/v1/pools/{pool}/drain", Tags: tags,
		Summary: "Empty a pool, or put it back", DefaultStatus: http.StatusOK,
	}, a.drainPool)
	userRoute(a, huma.Operation{
		OperationID: "drain-machine", Method: http.MethodPost, Path: "/v1/pools/{pool}/machines/{machine}/drain",
		Tags: tags, Summary: "Empty a machine, or put it back", DefaultStatus: http.StatusOK,
	}, a.drainMachine)
	userRoute(a, huma.Operation{
		OperationID: "remove-machine", Method: http.MethodDelete, Path: "/v1/pools/{pool}/machines/{machine}",
		Tags: tags, Summary: "Remove a machine on which nothing runs",
	}, a.removeMachine)
	machineRoute(a, huma.Operation{
		OperationID: "pool-join", Method: http.MethodPost, Path: wire.PathPool + "{pool}/machines/{machine}/join",
		Summary: "Trade the pool's join token for the machine's own", DefaultStatus: http.StatusOK,
		Description: "Answers 409 while another machine has the name.",
	}, a.joinPool)
	machineRoute(a, huma.Operation{
		OperationID: "pool-sync", Method: http.MethodPost, Path: wire.PathPool + "{pool}/machines/{machine}/sync",
		Summary: "Tell what a machine has and what runs there, and learn what should", DefaultStatus: http.StatusOK,
		Description: "Both sides say what is, not what changed, so a call may be lost or repeated. Answers 410 when " +
			"the pool is gone or the machine was removed from it.",
	}, a.syncMachine)
}

// PoolList is a list of pools.
type PoolList struct {
	Now   time.Time       `json:"now" doc:"The broker's clock"`
	Pools []view.PoolView `json:"pools" nullable:"false" doc:"Pools by name, with their machines"`
}

func (a *API) listPools(ctx context.Context, _ *struct{}) (*body[PoolList], error) {
	pools, err := a.cfg.Broker.PoolViews.Pools(ctx)
	if err != nil {
		return nil, err
	}
	return &body[PoolList]{Body: PoolList{Now: a.cfg.Now().UTC(), Pools: orEmpty(pools)}}, nil
}

// PoolSettings is what can be set of a pool.
type PoolSettings struct {
	_           struct{} `additionalProperties:"false"`
	Place       string   `json:"place,omitempty" maxLength:"128" pattern:"^([^:]+:.+)?$" doc:"Where its machines are, cloud:region: for the cost of moving data; empty is nowhere in particular"`
	USDPerHour  float64  `json:"usdPerHour,omitempty" minimum:"0" maximum:"100000" doc:"What an hour of a whole machine counts as, USD; 0 is paid already"`
	Partitions  int      `json:"partitions,omitempty" minimum:"0" maximum:"256" doc:"Into how many records its machines are divided; 0 is 8. It can change only while the pool has no machines"`
	Description string   `json:"description,omitempty" maxLength:"1024" doc:"For people"`
}

type setPoolInput struct {
	Pool string `path:"pool" pattern:"^[a-z0-9][a-z0-9-]*$" maxLength:"63" doc:"Name of the pool"`
	Body PoolSettings
}

func (a *API) setPool(ctx context.Context, in *setPoolInput) (*body[view.PoolView], error) {
	s := record.PoolSettings{Place: in.Body.Place, USDPerHour: in.Body.USDPerHour, Partitions: in.Body.Partitions,
		Description: in.Body.Description}
	if err := a.cfg.Broker.PoolKeeper.SetPool(ctx, in.Pool, s); err != nil {
		return nil, err
	}
	return a.onePool(ctx, in.Pool)
}

// pool finds a pool.
func (a *API) pool(ctx context.Context, name string) (*view.PoolView, error) {
	p, err := a.cfg.Broker.PoolViews.PoolView(ctx, name)
	if errors.Is(err, record.ErrNotFound) {
		return nil, problem(http.StatusNotFound, "there is no pool "+name)
	}
	return &p, err
}

func (a *API) onePool(ctx context.Context, name string) (*body[view.PoolView], error) {
	p, err := a.pool(ctx, name)
	if err != nil {
		return nil, err
	}
	return &body[view.PoolView]{Body: *p}, nil
}

type poolInput struct {
	Pool string `path:"pool" pattern:"^[a-z0-9][a-z0-9-]*$" maxLength:"63" doc:"Name of the pool"`
}

func (a *API) removePool(ctx context.Context, in *poolInput) (*struct{}, error) {
	return nil, a.cfg.Broker.PoolKeeper.RemovePool(ctx, in.Pool)
}

// invite makes a token with which machines can join a pool that there is.
func (a *API) invite(ctx context.Context, in *poolInput) (*body[wire.PoolToken], error) {
	if a.cfg.Machines == nil {
		return nil, errNoMachines()
	}
	if _, err := a.pool(ctx, in.Pool); err != nil {
		return nil, err
	}
	token, err := a.mint(wire.PoolClaims{Pool: in.Pool, Joined: a.cfg.Now()}, a.cfg.Machines.JoinFor)
	return &body[wire.PoolToken]{Body: token}, err
}

// mint signs a token that is good for some time from now.
func (a *API) mint(c wire.PoolClaims, lasts time.Duration) (wire.PoolToken, error) {
	c.Expires = a.cfg.Now().Add(lasts).UTC().Truncate(time.Second)
	text, err := a.cfg.Machines.Mint(c)
	return wire.PoolToken{Token: text, Expires: c.Expires}, err
}

func errNoMachines() error {
	return problem(http.StatusNotImplemented, "this host lets no machines of its own join")
}

// Draining is how to drain.
type Draining struct {
	_   struct{}   `additionalProperties:"false"`
	How pool.Drain `json:"how,omitempty" enum:"drain,now,undo" default:"drain" doc:"drain: nothing new, what runs ends; now: what runs saves its work and goes on elsewhere; undo: back to work"`
}

type drainPoolInput struct {
	Pool string `path:"pool" pattern:"^[a-z0-9][a-z0-9-]*$" maxLength:"63" doc:"Name of the pool"`
	Body Draining
}

func (a *API) drainPool(ctx context.Context, in *drainPoolInput) (*body[view.PoolView], error) {
	if err := a.cfg.Broker.PoolKeeper.DrainMachine(ctx, in.Pool, "", in.Body.How); err != nil {
		return nil, err
	}
	return a.onePool(ctx, in.Pool)
}

type machineInput struct {
	Pool    string `path:"pool" pattern:"^[a-z0-9][a-z0-9-]*$" maxLength:"63" doc:"Name of the pool"`
	Machine string `path:"machine" pattern:"^[A-Za-z0-9][A-Za-z0-9._-]*$" maxLength:"63" doc:"Name of the machine"`
}

type drainMachineInput struct {
	Pool    string `path:"pool" pattern:"^[a-z0-9][a-z0-9-]*$" maxLength:"63" doc:"Name of the pool"`
	Machine string `path:"machine" pattern:"^[A-Za-z0-9][A-Za-z0-9._-]*$" maxLength:"63" doc:"Name of the machine"`
	Body    Draining
}

func (a *API) drainMachine(ctx context.Context, in *drainMachineInput) (*body[view.PoolView], error) {
	if err := a.cfg.Broker.PoolKeeper.DrainMachine(ctx, in.Pool, in.Machine, in.Body.How); err != nil {
		return nil, err
	}
	return a.onePool(ctx, in.Pool)
}

func (a *API) removeMachine(ctx context.Context, in *machineInput) (*struct{}, error) {
	return nil, a.cfg.Broker.PoolKeeper.RemoveMachine(ctx, in.Pool, in.Machine)
}
