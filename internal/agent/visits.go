package agent

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tradewind-broker/tradewind/internal/agent/proc"
	"github.com/tradewind-broker/tradewind/internal/agent/visit"
	"github.com/tradewind-broker/tradewind/internal/agent/wire"
	"github.com/tradewind-broker/tradewind/internal/tunnel"
)

// visitorGate lets users visit the current attempt, once it is staged.
type visitorGate struct {
	mu     sync.Mutex
	open   *reception
	opened chan struct{} // closed when open is set
}

// reception serves the visitors of an attempt while its scripts run.
type reception struct {
	ctx   context.Context //nolint:containedctx // the attempt's
	place visit.Place
	busy  sync.WaitGroup
}

// stagedWithin is the time for which a visitor waits for a task that is still being staged.
const stagedWithin = 5 * time.Minute

// serveNewVisits starts to serve the visits after number known, and returns the highest number that is known now. If it
// cannot get the list, it returns known, so that the next poll triggers it again.
func (a *agent) serveNewVisits(ctx context.Context, known, told int) int {
	var open wire.Visits
	err := a.client.call(ctx, request{method: http.MethodGet, path: wire.PathVisits,
		query: url.Values{"after": {strconv.Itoa(known)}}, timeout: callTimeout, answer: &open})
	switch {
	case errors.Is(err, tunnel.ErrEnded): // this broker has no visits
		return told
	case err != nil:
		a.log.Warn("cannot get the list of visits", "err", err)
		return known
	}
	for _, v := range open.Visits {
		told = max(told, v.Number)
		a.wg.Go(func() { a.serveVisit(ctx, v) })
	}
	return told
}

// serveVisit serves one visit and reports how it ended.
func (a *agent) serveVisit(ctx context.Context, v wire.Visit) {
	a.log.Info("visit begins", "visit", v.Number, "kind", v.Kind)
	calls := &visitCalls{client: a.client, path: wire.PathVisits + "/" + strconv.Itoa(v.Number)}
	ended := wire.VisitEnded{Reason: "the task's files did not arrive in time"}
	if r := a.host.enter(ctx); r != nil {
		ended = visit.Serve(r.ctx, calls, v, r.place)
		r.busy.Done()
	}
	a.log.Info("visit ends", "visit", v.Number, "reason", ended.Reason)
	body, err := json.Marshal(ended)
	if err != nil {
		return
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastTimeout)
	defer cancel()
	err = a.client.call(last, request{method: http.MethodPost, path: calls.path + wire.VisitEnd, body: body,
		contentType: "application/json", timeout: lastTimeout})
	if err != nil && !errors.Is(err, tunnel.ErrEnded) {
		a.log.Debug("cannot report the end of a visit", "err", err)
	}
}

// enter waits until the attempt accepts visitors. The attempt then waits for this visitor to leave. It returns nil on
// timeout.
func (h *visitorGate) enter(ctx context.Context) *reception {
	timer := time.NewTimer(stagedWithin)
	defer timer.Stop()
	for {
		h.mu.Lock()
		if h.open != nil {
			h.open.busy.Add(1)
			defer h.mu.Unlock()
			return h.open
		}
		if h.opened == nil {
			h.opened = make(chan struct{})
		}
		came := h.opened
		h.mu.Unlock()
		select {
		case <-came:
		case <-timer.C:
			return nil
		case <-ctx.Done():
			return nil
		}
	}
}

// receive starts to accept visitors. The returned function ends their visits and waits until they have left.
func (t *attempt) receive() (end func()) {
	ctx, cancel := context.WithCancel(t.unlessOrdered)
	r := &reception{ctx: ctx, place: visit.Place{Command: t.visitor(), Grace: t.cfg.Grace, Port: t.port}}
	if s := t.work.Service; s != nil {
		r.place.Listens = s.Port
	}
	h := &t.host
	h.mu.Lock()
	h.open = r
	if h.opened != nil {
		close(h.opened)
		h.opened = nil
	}
	h.mu.Unlock()
	return func() {
		h.mu.Lock()
		h.open = nil
		h.mu.Unlock()
		cancel()
		r.busy.Wait()
	}
}

// visitor returns a function that prepares a visitor's command to run like the task's scripts.
func (t *attempt) visitor() func(command []string, terminal bool, term string) (proc.Spec, error) {
	var count atomic.Int64
	return func(command []string, terminal bool, term string) (proc.Spec, error) {
		isolation, user := t.isolation.Load(), ""
		if isolation != nil {
			user = userName()
		}
		env := t.taskEnv(user, t.own().home)
		if terminal && validName(term) {
			env = append(env, "TERM="+term)
		}
		spec := proc.Spec{Dir: t.dirs.work, Env: env, Hold: t.cfg.Hold, Linger: t.cfg.Grace, Isolation: isolation}
		if t.boxed != nil {
			var err error
			spec.Argv, spec.After, err = t.boxed.box.Visit("visit-"+strconv.FormatInt(count.Add(1), 10), command,
				terminal, t.dirs.work, env)
			spec.Env = append(t.boxed.box.Env(), proc.MachineEnv+"="+t.cfg.Machine)
			return spec, err
		}
		if spec.Argv = []string{shell(), "-i"}; len(command) > 0 {
			spec.Argv = append([]string{shell(), "-c", `exec "$@"`, shell()}, command...)
		}
		return spec, nil
	}
}

// visitCalls makes the broker calls of one visit.
type visitCalls struct {
	client *client
	path   string
}

// Send implements tunnel.Calls.
func (v *visitCalls) Send(ctx context.Context, offset int64, piece []byte) error {
	return final(v.client.call(ctx, request{
		method: http.MethodPost, path: v.path + wire.VisitFromMachine, body: piece, timeout: callTimeout,
		query: url.Values{"offset": {strconv.FormatInt(offset, 10)}}, contentType: "application/octet-stream",
	}))
}

// Receive implements tunnel.Calls.
func (v *visitCalls) Receive(ctx context.Context, offset int64, wait time.Duration) (piece []byte, err error) {
	err = v.client.call(ctx, request{
		method: http.MethodGet, path: v.path + wire.VisitFromPerson, timeout: wait + callTimeout, raw: &piece,
		query: url.Values{"offset": {strconv.FormatInt(offset, 10)}, "wait": {wait.String()}},
	})
	return piece, final(err)
}

// final adds tunnel.ErrEnded to an error that means that the visit no longer exists.
func final(err error) error {
	if errors.Is(err, ErrFinished) || errors.Is(err, ErrRefused) {
		return errors.Join(tunnel.ErrEnded, err)
	}
	return err
}
