package api

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/tradewind-broker/tradewind/internal/agent/wire"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
)

// MachineTokens makes and checks the tokens of pools' machines: internal/agent/token with the deployment's key and
// clock.
type MachineTokens struct {
	Mint   func(wire.PoolClaims) (string, error)
	Verify func(token string) (wire.PoolClaims, error)
	// JoinFor is the lifetime of a join token; 0 means DefaultJoinFor. MachineFor is the lifetime of a machine's own
	// token, which is renewed after half of that time; 0 means DefaultMachineFor.
	JoinFor, MachineFor time.Duration
}

// How long tokens of pools are valid, on the broker's clock.
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
	DrainMachine(ctx context.Context, pool, machine string, how apitypes.Drain) error
	RemoveMachine(ctx context.Context, pool, machine string) error
}

// PoolViews shows pools. A *view.Views is one.
type PoolViews interface {
	Pools(ctx context.Context) ([]apitypes.PoolView, error)
	PoolView(ctx context.Context, name string) (apitypes.PoolView, error)
}

func (a *API) poolRoutes() {
	tags := []string{"pools"}
	userRoute(a, huma.Operation{
		OperationID: "list-pools", Method: http.MethodGet, Path: "/v1/pools", Tags: tags,
		Summary: "List pools with their machines, their capacity, and what runs there",
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
		Summary: "Drain a pool, or undo that", DefaultStatus: http.StatusOK,
	}, a.drainPool)
	userRoute(a, huma.Operation{
		OperationID: "drain-machine", Method: http.MethodPost, Path: "/v1/pools/{pool}/machines/{machine}/drain",
		Tags: tags, Summary: "Drain a machine, or undo that", DefaultStatus: http.StatusOK,
	}, a.drainMachine)
	userRoute(a, huma.Operation{
		OperationID: "remove-machine", Method: http.MethodDelete, Path: "/v1/pools/{pool}/machines/{machine}",
		Tags: tags, Summary: "Remove a machine on which nothing runs",
	}, a.removeMachine)
	machineRoute(a, huma.Operation{
		OperationID: "pool-join", Method: http.MethodPost, Path: wire.PathPool + "{pool}/machines/{machine}/join",
		Summary: "Exchange the pool's join token for the machine's own", DefaultStatus: http.StatusOK,
		Description: "The response is 409 while another machine has the name.",
	}, a.joinPool)
	machineRoute(a, huma.Operation{
		OperationID:   "pool-sync",
		Method:        http.MethodPost,
		Path:          wire.PathPool + "{pool}/machines/{machine}/sync",
		Summary:       "Report a machine's capacity and running work, and get what should run there",
		DefaultStatus: http.StatusOK,
		Description: "Both sides send their full state, not changes, so a call may be lost or repeated. The " +
			"response is 410 " +
			"if the pool or the machine was removed.",
	}, a.syncMachine)
}

func (a *API) listPools(ctx context.Context, _ *struct{}) (*body[apitypes.PoolList], error) {
	pools, err := a.cfg.Broker.PoolViews.Pools(ctx)
	if err != nil {
		return nil, err
	}
	return &body[apitypes.PoolList]{Body: apitypes.PoolList{Now: a.cfg.Now().UTC(), Pools: orEmpty(pools)}}, nil
}

type setPoolInput struct {
	Pool string `path:"pool" pattern:"^[a-z0-9][a-z0-9-]*$" maxLength:"63" doc:"Name of the pool"`
	Body apitypes.PoolSettings
}

func (a *API) setPool(ctx context.Context, in *setPoolInput) (*body[apitypes.PoolView], error) {
	s := record.PoolSettings{Place: in.Body.Place, USDPerHour: in.Body.USDPerHour, Partitions: in.Body.Partitions,
		Description: in.Body.Description}
	if err := a.cfg.Broker.PoolKeeper.SetPool(ctx, in.Pool, s); err != nil {
		return nil, err
	}
	return a.onePool(ctx, in.Pool)
}

// pool returns a pool, or a 404 problem.
func (a *API) pool(ctx context.Context, name string) (*apitypes.PoolView, error) {
	p, err := a.cfg.Broker.PoolViews.PoolView(ctx, name)
	if errors.Is(err, record.ErrNotFound) {
		return nil, problem(http.StatusNotFound, "there is no pool "+name)
	}
	return &p, err
}

func (a *API) onePool(ctx context.Context, name string) (*body[apitypes.PoolView], error) {
	p, err := a.pool(ctx, name)
	if err != nil {
		return nil, err
	}
	return &body[apitypes.PoolView]{Body: *p}, nil
}

type poolInput struct {
	Pool string `path:"pool" pattern:"^[a-z0-9][a-z0-9-]*$" maxLength:"63" doc:"Name of the pool"`
}

func (a *API) removePool(ctx context.Context, in *poolInput) (*struct{}, error) {
	return nil, a.cfg.Broker.PoolKeeper.RemovePool(ctx, in.Pool)
}

// invite makes a token with which machines can join an existing pool.
func (a *API) invite(ctx context.Context, in *poolInput) (*body[apitypes.PoolToken], error) {
	if a.cfg.Machines == nil {
		return nil, errNoMachines()
	}
	if _, err := a.pool(ctx, in.Pool); err != nil {
		return nil, err
	}
	token, err := a.mint(wire.PoolClaims{Pool: in.Pool, Joined: a.cfg.Now()}, a.cfg.Machines.JoinFor)
	return &body[apitypes.PoolToken]{Body: token}, err
}

// mint signs a token that is valid for the given time from now.
func (a *API) mint(c wire.PoolClaims, lasts time.Duration) (apitypes.PoolToken, error) {
	c.Expires = a.cfg.Now().Add(lasts).UTC().Truncate(time.Second)
	text, err := a.cfg.Machines.Mint(c)
	return apitypes.PoolToken{Token: text, Expires: c.Expires}, err
}

func errNoMachines() error {
	return problem(http.StatusNotImplemented, "this host does not support pools")
}

type drainPoolInput struct {
	Pool string `path:"pool" pattern:"^[a-z0-9][a-z0-9-]*$" maxLength:"63" doc:"Name of the pool"`
	Body apitypes.Draining
}

func (a *API) drainPool(ctx context.Context, in *drainPoolInput) (*body[apitypes.PoolView], error) {
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
	Body    apitypes.Draining
}

func (a *API) drainMachine(ctx context.Context, in *drainMachineInput) (*body[apitypes.PoolView], error) {
	if err := a.cfg.Broker.PoolKeeper.DrainMachine(ctx, in.Pool, in.Machine, in.Body.How); err != nil {
		return nil, err
	}
	return a.onePool(ctx, in.Pool)
}

func (a *API) removeMachine(ctx context.Context, in *machineInput) (*struct{}, error) {
	return nil, a.cfg.Broker.PoolKeeper.RemoveMachine(ctx, in.Pool, in.Machine)
}
