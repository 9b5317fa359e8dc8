package api

import (
	"context"
	"errors"
	"net/http"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/tradewind-broker/tradewind/pkg/agent/wire"
	"github.com/tradewind-broker/tradewind/pkg/api/signin"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/broker/record"
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

// poolClaimsKey is where machines leaves the claims of a verified token.
type poolClaimsKey struct{}

// machines lets through whose token is good for the pool, and not for another machine of it, that the path names;
// whether for the machine itself or to join as it, the operation looks at.
func (a *API) machines(ctx huma.Context, next func(huma.Context)) {
	r, w := humago.Unwrap(ctx)
	if a.cfg.Machines == nil {
		writeProblem(w, problem(http.StatusNotImplemented, "this host lets no machines of its own join"))
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
		writeProblem(w, problem(http.StatusForbidden, "the token is of another pool"))
		return
	}
	if claims.Machine != "" && claims.Machine != ctx.Param("machine") {
		writeProblem(w, problem(http.StatusForbidden, "the token is of another machine"))
		return
	}
	next(huma.WithValue(ctx, poolClaimsKey{}, claims))
}

// poolClaimed returns what the token of a machine's request proves.
func poolClaimed(ctx context.Context) wire.PoolClaims {
	c, _ := ctx.Value(poolClaimsKey{}).(wire.PoolClaims)
	return c
}

// stateLost is that of a machine that nobody expects to be heard of again.
const stateLost = "lost"

// joinPool gives whoever may join a token of the machine's own. A name that a machine has which is still there is not
// given away: its tasks would be too. Nothing is written until the machine syncs, so that the call can be repeated when
// its answer is lost.
func (a *API) joinPool(ctx context.Context, in *machineInput) (*body[apitypes.PoolToken], error) {
	if poolClaimed(ctx).Machine != "" {
		return nil, problem(http.StatusForbidden, "a machine's own token is not one to join with")
	}
	p, err := a.pool(ctx, in.Pool)
	if err != nil {
		return nil, err
	}
	if poolClaimed(ctx).Joined.Before(p.Created.Truncate(wire.PoolTokenTick)) {
		return nil, problem(http.StatusGone, "the token is of a pool of that name which is gone")
	}
	for i := range p.Machines {
		if m := &p.Machines[i]; m.ID == in.Machine && m.State != stateLost {
			return nil, problem(http.StatusConflict, "pool "+in.Pool+" has a machine "+in.Machine+" already ("+m.State+
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
	Pool    string `path:"pool" pattern:"^[a-z0-9][a-z0-9-]*$" maxLength:"63" doc:"Name of the pool"`
	Machine string `path:"machine" pattern:"^[A-Za-z0-9][A-Za-z0-9._-]*$" maxLength:"63" doc:"Name of the machine"`
	Body    wire.PoolReport
}

func (a *API) syncMachine(ctx context.Context, in *syncInput) (*body[wire.PoolOrders], error) {
	claims := poolClaimed(ctx)
	if claims.Machine == "" {
		return nil, problem(http.StatusForbidden, "a token to join with is not a machine's own")
	}
	out, err := a.cfg.Broker.PoolMachines.SyncMachine(ctx, claims, in.Body)
	if errors.Is(err, record.ErrGone) || errors.Is(err, record.ErrNotFound) {
		return nil, problem(http.StatusGone, "pool "+in.Pool+" is gone, or machine "+in.Machine+" was removed from it")
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
