package api

import (
	"context"
	"errors"
	"net/http"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/tradewind-broker/tradewind/pkg/agent/wire"
	"github.com/tradewind-broker/tradewind/pkg/broker/pool"
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
	token := bearer(r.Header.Get("Authorization"))
	if token == "" {
		unauthorized(w, "the machine's token is missing")
		return
	}
	claims, err := a.cfg.Machines.Verify(token)
	if err != nil {
		a.log.Debug("api: a machine's token was refused", "err", err)
		unauthorized(w, "the machine's token is not, or no longer, good")
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

type joinOutput struct{ Body wire.PoolToken }

// stateLost is that of a machine that nobody expects to be heard of again.
const stateLost = "lost"

// joinPool gives whoever may join a token of the machine's own. A name that a machine has which is still there is not
// given away: its tasks would be too. Nothing is written until the machine syncs, so that the call can be repeated when
// its answer is lost.
func (a *API) joinPool(ctx context.Context, in *machineInput) (*joinOutput, error) {
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
	return &joinOutput{Body: token}, err
}

type syncInput struct {
	Pool    string `path:"pool" pattern:"^[a-z0-9][a-z0-9-]{0,62}$" doc:"Name of the pool"`
	Machine string `path:"machine" pattern:"^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$" doc:"Name of the machine"`
	Body    wire.PoolReport
}

type syncOutput struct{ Body wire.PoolOrders }

func (a *API) syncMachine(ctx context.Context, in *syncInput) (*syncOutput, error) {
	claims := poolClaimed(ctx)
	if claims.Machine == "" {
		return nil, problem(http.StatusForbidden, "a token to join with is not a machine's own")
	}
	o, err := a.cfg.Broker.SyncMachine(ctx, in.Pool, in.Machine, reported(&in.Body, claims))
	if errors.Is(err, record.ErrGone) || errors.Is(err, record.ErrNotFound) {
		return nil, problem(http.StatusGone, "pool "+in.Pool+" is gone, or machine "+in.Machine+" was removed from it")
	}
	if err != nil {
		return nil, err
	}
	out := ordered(o)
	if left := claims.Expires.Sub(a.cfg.Now()); left < a.cfg.Machines.MachineFor/2 {
		token, err := a.mint(claims, a.cfg.Machines.MachineFor)
		if err != nil {
			return nil, err
		}
		out.Token = &token
	}
	return &syncOutput{Body: out}, nil
}

// reported is what a machine says in the broker's terms.
func reported(r *wire.PoolReport, claims wire.PoolClaims) pool.MachineReport {
	out := pool.MachineReport{Joined: claims.Joined, Type: r.Type, Labels: r.Labels,
		Capacity: record.Capacity(r.Capacity), Leaving: r.Leaving}
	for _, x := range r.Running {
		out.Running = append(out.Running, record.AgentRef(x))
	}
	for _, x := range r.Ended {
		out.Ended = append(out.Ended, pool.AgentEnd{AgentRef: record.AgentRef(x.PoolAgent), Reason: x.Reason})
	}
	return out
}

// ordered is what the broker orders in a machine's terms.
func ordered(o pool.Orders) wire.PoolOrders {
	out := wire.PoolOrders{Agents: make([]wire.PoolOrder, 0, len(o.Clusters)), After: o.After, Draining: o.Draining}
	for i := range o.Clusters {
		x := &o.Clusters[i]
		out.Agents = append(out.Agents, wire.PoolOrder{
			PoolAgent: wire.PoolAgent(x.AgentRef), Job: x.Job, Endpoint: x.Endpoint, Token: x.Token,
			Hold: wire.PoolCapacity(x.Hold), Devices: x.Devices,
		})
	}
	return out
}
