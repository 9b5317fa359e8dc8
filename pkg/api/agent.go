package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/tradewind-broker/tradewind/pkg/agent/wire"
	"github.com/tradewind-broker/tradewind/pkg/broker/record"
)

// Agents serves the agents of bought machines. A *broker.Agents is one.
type Agents interface {
	Hello(ctx context.Context, c wire.Claims, h wire.Hello) (wire.Work, error)
	Work(ctx context.Context, c wire.Claims, seen int) (wire.Work, error)
	Report(ctx context.Context, c wire.Claims, r wire.Report) error
}

func (a *API) agentRoutes() {
	agentRoute(a, huma.Operation{
		OperationID: "agent-hello", Method: http.MethodPost, Path: wire.PathHello, Summary: "Register a node",
		Description: "The answer is its first command, as of " + wire.PathWork +
			" with seen=0, where there is one already; else it is empty, but for a new token, and the node asks for " +
			"work. What a machine boots with is good for one agent's hello. Where the machine's cloud proves which " +
			"one it is, the answer to another than was launched is 403, and 503 until the launch is recorded.",
		DefaultStatus: http.StatusOK,
		Responses:     map[string]*huma.Response{"204": {Description: "Registered; there is no work yet"}},
	}, a.hello)
	agentRoute(a, huma.Operation{
		OperationID: "agent-work", Method: http.MethodGet, Path: wire.PathWork,
		Summary: "The newest command for a node, as soon as there is one newer than it has seen",
	}, a.work)
	agentRoute(a, huma.Operation{
		OperationID: "agent-report", Method: http.MethodPost, Path: wire.PathReport,
		Summary: "Tell what happened to an attempt on a node", Description: "The last one may carry the end of the " +
			"node's log, which is kept first. Where what lies before it is missing, the answer is 409 and the " +
			wire.HeaderOffset + " from which to send it.",
	}, a.report)
	agentRoute(a, huma.Operation{
		OperationID: "agent-logs", Method: http.MethodPost, Path: wire.PathLogs, Summary: "Append to a node's log",
		Description: "A piece that does not begin where the log ends is answered with 409 and the " +
			wire.HeaderOffset + " from which to go on.",
		// One more than allowed, because a body of just this size counts as too large.
		MaxBodyBytes: wire.MaxLogChunk + 1,
	}, a.appendLog)
}

type helloInput struct{ Body wire.Hello }

type helloOutput struct {
	Status     int
	RetryAfter string `header:"Retry-After" doc:"Seconds after which there may be work, of a broker that does not hold calls"`
	Body       *wire.Work
}

// hello registers a node. The last one of a cluster is answered with its work; the others', and that of gangs, follows
// from what it sets off, so that asking at once would be in vain.
func (a *API) hello(ctx context.Context, in *helloInput) (*helloOutput, error) {
	claims := claimed(ctx)
	var err error
	if claims.Machine, err = a.cfg.Identity.Machine(ctx, in.Body); err != nil {
		return nil, err
	}
	w, err := a.cfg.Broker.Agents.Hello(ctx, claims, in.Body)
	if err != nil {
		return nil, err
	}
	if w.Command != wire.None {
		w.Pause = a.cfg.Unheld
		return &helloOutput{Status: http.StatusOK, Body: &w}, nil
	}
	out := &helloOutput{Status: http.StatusNoContent}
	if w.Token != "" {
		out.Status, out.Body = http.StatusOK, &w
	}
	if a.cfg.Unheld > 0 {
		out.RetryAfter = strconv.Itoa(int(min(unheldFirst, a.cfg.Unheld).Seconds()))
	}
	return out, nil
}

type workInput struct {
	Seen int    `query:"seen" minimum:"0" doc:"Seq of the last command seen"`
	Wait string `query:"wait" doc:"How long to wait for a newer one: 20s. At most a minute"`
	// Visits, of agents that attend to them, has the call end when there are more.
	Visits int `query:"visits" default:"-1" doc:"How many visits the agent has heard of, of one that attends to them"`
}

// work answers at once when there is a newer command, and otherwise when one comes or the wait is over.
func (a *API) work(ctx context.Context, in *workInput) (*body[wire.Work], error) {
	var wait time.Duration
	if in.Wait != "" {
		var err error
		if wait, err = time.ParseDuration(in.Wait); err != nil || wait < 0 {
			return nil, problem(http.StatusUnprocessableEntity, "wait is not a time such as 20s")
		}
	}
	if a.cfg.Unheld > 0 {
		return a.workNow(ctx, in.Seen)
	}
	ctx, cancel := context.WithTimeout(ctx, min(wait, maxWorkWait))
	defer cancel()
	stop := context.AfterFunc(a.closed, cancel)
	defer stop()
	claims := claimed(ctx)
	for {
		rung, done := a.cfg.Hub.listen(claims.Cluster)
		// The look itself is not cut short by the end of the wait.
		w, err := a.cfg.Broker.Agents.Work(context.WithoutCancel(ctx), claims, in.Seen)
		if err != nil || w.Command != wire.None || ctx.Err() != nil || in.Visits >= 0 && w.Visits > in.Visits {
			done()
			if err != nil {
				return nil, err
			}
			return &body[wire.Work]{Body: w}, nil
		}
		select {
		case <-rung:
		case <-ctx.Done(): // one last look: the change may have been made by another process
		}
		done()
	}
}

// unheldFirst is the pause of an agent that has no work yet: it comes within seconds of the last node's hello.
const unheldFirst = 2 * time.Second

// workNow answers a poll at once.
func (a *API) workNow(ctx context.Context, seen int) (*body[wire.Work], error) {
	w, err := a.cfg.Broker.Agents.Work(ctx, claimed(ctx), seen)
	if err != nil {
		return nil, err
	}
	if w.Pause = a.unheld(w.Visits); w.Command == wire.None && seen == 0 {
		w.Pause = min(unheldFirst, w.Pause)
	}
	return &body[wire.Work]{Body: w}, nil
}

type reportInput struct{ Body wire.Report }

func (a *API) report(ctx context.Context, in *reportInput) (*struct{}, error) {
	claims := claimed(ctx)
	if in.Body.ID == "" {
		return nil, problem(http.StatusUnprocessableEntity, "a report needs an id")
	}
	if err := ownAttempt(claims, in.Body.Attempt); err != nil {
		return nil, err
	}
	if err := a.keepLast(ctx, claims, &in.Body); err != nil {
		return nil, err
	}
	return nil, a.cfg.Broker.Agents.Report(ctx, claims, in.Body)
}

// keepLast keeps the end of the log that a report carries. A report that is repeated finds it kept.
func (a *API) keepLast(ctx context.Context, claims wire.Claims, r *wire.Report) error {
	rest := r.Log
	switch {
	case len(rest) == 0:
		return nil
	case len(rest) > wire.MaxReportLog || r.LogFrom < 0:
		return problem(http.StatusUnprocessableEntity,
			fmt.Sprintf("a report carries at most %d bytes of log, from an offset that is not below 0",
				wire.MaxReportLog))
	}
	log := Log{Job: claims.Job, Attempt: claims.Cluster, Rank: claims.Rank}
	err := a.cfg.Logs.Append(ctx, log, r.LogFrom, rest)
	var offset *OffsetError
	if errors.As(err, &offset) && offset.Want >= r.LogFrom {
		known := min(offset.Want-r.LogFrom, int64(len(rest)))
		if rest, err = rest[known:], nil; len(rest) > 0 {
			err = a.cfg.Logs.Append(ctx, log, offset.Want, rest)
		}
	}
	r.Log, r.LogFrom = nil, 0
	return appended(log, err)
}

// appended is the answer to a piece of log.
func appended(log Log, err error) error {
	var offset *OffsetError
	if errors.As(err, &offset) {
		return huma.ErrorWithHeaders(problem(http.StatusConflict, offset.Error()),
			http.Header{wire.HeaderOffset: {strconv.FormatInt(offset.Want, 10)}})
	}
	if err != nil {
		return fmt.Errorf("api: log of %s: %w", log.Attempt, err)
	}
	return nil
}

// ownAttempt refuses a node that speaks for an attempt that is not its cluster's.
func ownAttempt(c wire.Claims, attempt string) error {
	if attempt == "" || attempt == c.Cluster {
		return nil
	}
	if record.ClusterJob(attempt) == c.Job {
		return record.ErrGone // of its job, but not the one it was launched for
	}
	return problem(http.StatusForbidden, "the token does not speak for that attempt")
}

type logInput struct {
	Attempt string `query:"attempt" required:"true" maxLength:"256" doc:"The attempt, as its assignment names it"`
	Offset  int64  `query:"offset" minimum:"0" doc:"Bytes of the log before this piece"`
	RawBody []byte `contentType:"application/octet-stream"`
}

func (a *API) appendLog(ctx context.Context, in *logInput) (*struct{}, error) {
	claims := claimed(ctx)
	if in.Attempt != claims.Cluster {
		return nil, problem(http.StatusForbidden, "the token does not speak for that attempt")
	}
	log := Log{Job: claims.Job, Attempt: claims.Cluster, Rank: claims.Rank}
	return nil, appended(log, a.cfg.Logs.Append(ctx, log, in.Offset, in.RawBody))
}
