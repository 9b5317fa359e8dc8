package sim

import (
	"context"
	"time"

	"github.com/tradewind-broker/tradewind/internal/agent/wire"
	"github.com/tradewind-broker/tradewind/internal/broker"
	"github.com/tradewind-broker/tradewind/internal/sim/breaks"
	"github.com/tradewind-broker/tradewind/internal/sim/drawn"
)

// shareServing is the fraction of worlds that have services.
const shareServing = 0.25

// drawServices makes users run services. Users end them before the faults stop, or some time after that.
func (u *users) drawServices() {
	r, broken := u.w.rand.service, u.w.opt.Break.Serves()
	if u.w.opt.steady || u.w.opt.Break != "" && !broken || !r.Chance(shareServing) && !broken {
		return
	}
	for n := range 1 + r.IntN(2) {
		j := u.plan(drawn.Service(r, n))
		begins := r.Between(0, 90*time.Minute)
		ends := begins + r.Between(2*time.Hour, storm+4*time.Hour)
		if broken { // it is detected in the calm
			ends += storm
		}
		if u.w.opt.Break == breaks.Abandoned { // one replica fails forever next to others
			j.toFail[0] = 1000
		}
		u.w.After(begins, func() { u.submit(j) })
		u.w.After(ends, func() { u.cancel(j, "no longer needed") })
		for n := 0; n < 2 && r.Chance(0.5) || u.w.opt.Break == breaks.Versionless && n == 0; n++ {
			u.w.After(begins+r.Between(0, ends-begins), func() { u.update(j) })
		}
	}
}

// update replaces a service by another version.
func (u *users) update(j *userJob) {
	id, spec := u.w.check.IDOf(j.Spec.Name), drawn.Updated(u.w.rand.service, j.Spec)
	if id == "" {
		return
	}
	u.repeatRequest("update "+id, func(ctx context.Context, b *broker.Broker, key string) error {
		_, err := b.Users.Submit(ctx, broker.Submission{Spec: spec, Token: key, Updates: id})
		return err
	}, func() { u.w.Count("service updated") })
}

// port is where replicas listen.
const port = 8080

// serve is a replica of a service until it is ended. It becomes ready, and is sometimes not ready for a while.
func (r *run) serve() {
	w := r.a.w
	if bad := r.work.Env[drawn.Bad] != ""; bad || w.users.fails(r.work) {
		if w.Count("replica ends"); bad {
			r.later(time.Minute, r.fail)
			return
		}
		r.later(w.rand.service.Spread(10*time.Second, 2*time.Hour), r.fail)
	}
	if r.a.m.Rank != 0 {
		return
	}
	comesUp := w.rand.service.Spread(5*time.Second, 5*time.Minute)
	if w.opt.Break == breaks.Boastful {
		r.report(wire.Report{Event: wire.Ready, Port: port}, nil)
		comesUp += 20 * time.Minute
	}
	r.later(comesUp, r.ready)
}

func (r *run) ready() {
	w := r.a.w
	if r.saving {
		return
	}
	w.Count("replica is ready")
	w.Say(r.a.m.Cluster, "replica is ready", r.a.m.ID)
	r.a.m.Ready, r.a.m.Served = true, true
	r.report(wire.Report{Event: wire.Ready, Port: port}, nil)
	if w.rand.service.Chance(3 * w.faults.TaskFails) {
		r.later(w.rand.service.Span(time.Hour), r.unready)
	}
}

// unready makes a replica unusable. It becomes ready again after a while, or its agent ends it.
func (r *run) unready() {
	if r.saving {
		return
	}
	w := r.a.w
	w.Count("replica is no longer ready")
	w.Say(r.a.m.Cluster, "replica is no longer ready", r.a.m.ID)
	r.a.m.Ready = false
	r.report(wire.Report{Event: wire.Unready, Message: "GET /health: 503 Service Unavailable"}, nil)
	if lasts := w.rand.service.Spread(time.Minute, time.Hour); lasts < r.work.Service.Patience {
		r.later(lasts, r.ready)
	} else {
		r.later(r.work.Service.Patience, func() {
			if !r.saving {
				r.fail()
			}
		})
	}
}
