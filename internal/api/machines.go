package api

import (
	"context"
	"errors"
	"net/http"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/tradewind-broker/tradewind/internal/agent/wire"
	"github.com/tradewind-broker/tradewind/internal/api/signin"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
)

// machineScheme is the name of the security scheme of pools' machines in the document.
const machineScheme = "machine"

// machineRoute registers an operation for machines of pools.
func machineRoute[I, O any](a *API, op huma.Operation, handle func(context.Context, *I) (*O, error)) {
	op.Security = []map[string][]string{{machineScheme: {}}}
	op.Middlewares = huma.Middlewares{a.machines}
	op.Tags = []string{"agent"}
	register(a, op, handle)
}

// poolClaimsKey is the context key for the claims of a verified token.
type poolClaimsKey struct{}

// machines admits requests whose token is for the pool of the path, and is not for another machine of the pool. The
// operation checks whether the token is the machine's own or a join token.
func (a *API) machines(ctx huma.Context, next func(huma.Context)) {
	r, w := humago.Unwrap(ctx)
	if a.cfg.Machines == nil {
		writeProblem(w, problem(http.StatusNotImplemented, "this host does not support pools"))
		return
	}
	text := signin.Bearer(r)
	if text == "" {
		unauthorized(w, "the machine's token is missing")
		return
	}
	claims, err := a.cfg.Machines.Verify(text)
	if err != nil {
		a.refuse(w, err)
		return
	}
	if claims.Pool != ctx.Param("pool") {
		writeProblem(w, problem(http.StatusForbidden, "the token is for another pool"))
		return
	}
	if claims.Machine != "" && claims.Machine != ctx.Param("machine") {
		writeProblem(w, problem(http.StatusForbidden, "the token is for another machine"))
		return
	}
	next(huma.WithValue(ctx, poolClaimsKey{}, claims))
}

// poolClaimed returns the claims of the token of a machine's request.
func poolClaimed(ctx context.Context) wire.PoolClaims {
	c, _ := ctx.Value(poolClaimsKey{}).(wire.PoolClaims)
	return c
}

// stateLost is the state of a machine that is not expected to report again.
const stateLost = "lost"

// joinPool exchanges a join token for a machine's own token. If a machine of that name is still in the pool, it
// refuses to join, because the new machine would also get the tasks of the other one. Nothing is written until the
// machine syncs, so the call can be repeated if its response is lost.
func (a *API) joinPool(ctx context.Context, in *machineInput) (*body[apitypes.PoolToken], error) {
	if poolClaimed(ctx).Machine != "" {
		return nil, problem(http.StatusForbidden, "a machine's own token cannot be used to join")
	}
	p, err := a.pool(ctx, in.Pool)
	if err != nil {
		return nil, err
	}
	if poolClaimed(ctx).Joined.Before(p.Created.Truncate(wire.PoolTokenTick)) {
		return nil, problem(http.StatusGone, "the token is for a removed pool of the same name")
	}
	for i := range p.Machines {
		if m := &p.Machines[i]; m.ID == in.Machine && m.State != stateLost {
			return nil, problem(http.StatusConflict, "pool "+in.Pool+" already has a machine "+in.Machine+" ("+m.State+
				"); join under another name, or remove it first")
		}
	}
	token, err := a.mint(wire.PoolClaims{Pool: in.Pool, Machine: in.Machine, Joined: a.cfg.Now()},
		a.cfg.Machines.MachineFor)
	return &body[apitypes.PoolToken]{Body: token}, err
}

// PoolMachines serves the machines of pools. A *broker.Agents is one.
type PoolMachines interface {
	SyncMachine(ctx context.Context, m wire.PoolClaims, r wire.PoolReport) (wire.PoolOrders, error)
}

type syncInput struct {
	Pool    string `path:"pool" pattern:"^[a-z0-9][a-z0-9.-]*$" maxLength:"128" doc:"Name of the pool, or job. and the ID of a worker's job"`
	Machine string `path:"machine" pattern:"^[A-Za-z0-9][A-Za-z0-9._-]*$" maxLength:"63" doc:"Name of the machine"`
	Body    wire.PoolReport
}

func (a *API) syncMachine(ctx context.Context, in *syncInput) (*body[wire.PoolOrders], error) {
	claims := poolClaimed(ctx)
	if claims.Machine == "" {
		return nil, problem(http.StatusForbidden, "a join token cannot be used in place of a machine's own")
	}
	out, err := a.cfg.Broker.PoolMachines.SyncMachine(ctx, claims, in.Body)
	if errors.Is(err, record.ErrGone) || errors.Is(err, record.ErrNotFound) {
		return nil, problem(http.StatusGone, "pool "+in.Pool+" or its machine "+in.Machine+" was removed")
	}
	if err != nil {
		return nil, err
	}
	if left := claims.Expires.Sub(a.cfg.Now()); left < a.cfg.Machines.MachineFor/2 {
		token, err := a.mint(claims, a.cfg.Machines.MachineFor)
		if err != nil {
			return nil, err
		}
		out.Token = &token
	}
	return &body[wire.PoolOrders]{Body: out}, nil
}
