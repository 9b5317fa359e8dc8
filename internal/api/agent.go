package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/tradewind-broker/tradewind/internal/agent/wire"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
)

// Agents serves the agents of bought machines. A *broker.Agents is one.
type Agents interface {
	Hello(ctx context.Context, c wire.Claims, h wire.Hello) (wire.Work, error)
	Work(ctx context.Context, c wire.Claims, seen int) (wire.Work, error)
	Report(ctx context.Context, c wire.Claims, r wire.Report) error
	// Runs fails unless each of the attempts is a member of the chunk of the caller's attempt.
	Runs(ctx context.Context, c wire.Claims, attempts ...string) error
}

func (a *API) agentRoutes() {
	agentRoute(a, huma.Operation{
		OperationID: "agent-hello", Method: http.MethodPost, Path: wire.PathHello, Summary: "Register a node",
		Description: "The response is the first command, as for " + wire.PathWork +
			" with seen=0, if there already is one. Otherwise it is empty, except for a new token, and the node then " +
			"asks for work. A boot token is valid for one agent's hello. If the machine's cloud proves the machine's " +
			"identity, the response is 403 for a machine other than the one launched, and 503 until the launch " +
			"is recorded.",
		DefaultStatus: http.StatusOK,
		Responses:     map[string]*huma.Response{"204": {Description: "Registered; there is no work yet"}},
	}, a.hello)
	agentRoute(a, huma.Operation{
		OperationID: "agent-work", Method: http.MethodGet, Path: wire.PathWork,
		Summary: "The newest command for a node, as soon as there is one newer than it has seen",
	}, a.work)
	agentRoute(a, huma.Operation{
		OperationID: "agent-report",
		Method:      http.MethodPost,
		Path:        wire.PathReport,
		Summary:     "Report what happened to an attempt on a node",
		Description: "The last report may carry the end of the " +
			"node's log, which is stored first. If earlier parts of the log are missing, the response is 409 " +
			"with the " +
			wire.HeaderOffset + " from which to send it.",
	}, a.report)
	agentRoute(a, huma.Operation{
		OperationID: "agent-logs", Method: http.MethodPost, Path: wire.PathLogs, Summary: "Append to a node's log",
		Description: "If a piece does not begin where the log ends, the response is 409 with the " +
			wire.HeaderOffset + " from which to continue.",
		// The limit is one more than allowed, because a body of exactly this size counts as too large.
		MaxBodyBytes: wire.MaxLogChunk + 1,
	}, a.appendLog)
}

type helloInput struct{ Body wire.Hello }

type helloOutput struct {
	Status     int
	RetryAfter string `header:"Retry-After" doc:"Seconds after which there may be work, from a broker without long polls"`
	Body       *wire.Work
}

// hello registers a node. Only the last node of a cluster gets its work at once. The other nodes, and nodes of gangs,
// get their work after the hello of the last node, so they must poll again.
func (a *API) hello(ctx context.Context, in *helloInput) (*helloOutput, error) {
	claims := claimed(ctx)
	var err error
	if claims.Machine, err = a.cfg.Identity.Machine(ctx, in.Body); err != nil {
		return nil, err
	}
	w, err := a.cfg.Broker.Agents.Hello(ctx, claims, in.Body)
	if err == nil {
		err = a.addWorkerToken(&w)
	}
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
	// Visits is the number of visits that the agent knows. The call ends when there are more.
	Visits int `query:"visits" default:"-1" doc:"Number of visits that the agent knows; -1 if it does not serve visits"`
}

// work answers at once if there is a newer command. Otherwise it answers when one arrives or the wait ends.
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
		// The end of the wait does not cut off the lookup itself.
		w, err := a.cfg.Broker.Agents.Work(context.WithoutCancel(ctx), claims, in.Seen)
		if err != nil || w.Command != wire.None || ctx.Err() != nil || in.Visits >= 0 && w.Visits > in.Visits {
			done()
			if err == nil {
				err = a.addWorkerToken(&w)
			}
			if err != nil {
				return nil, err
			}
			return &body[wire.Work]{Body: w}, nil
		}
		select {
		case <-rung:
		case <-ctx.Done(): // check once more: another process may have made the change
		}
		done()
	}
}

// addWorkerToken adds the token with which a worker syncs to its assignment.
func (a *API) addWorkerToken(w *wire.Work) (err error) {
	if w.Assignment == nil || w.Assignment.Worker == nil {
		return nil
	}
	if a.cfg.Machines == nil {
		return problem(http.StatusNotImplemented, "this host does not support workers")
	}
	to := w.Assignment.Worker
	to.Token, err = a.mint(wire.PoolClaims{Pool: to.Pool, Machine: to.Machine, Joined: a.cfg.Now()},
		a.cfg.Machines.MachineFor)
	return err
}

// unheldFirst is the pause of an agent that has no work yet. Its work comes within seconds of the last node's hello.
const unheldFirst = 2 * time.Second

// workNow answers a poll at once, without waiting.
func (a *API) workNow(ctx context.Context, seen int) (*body[wire.Work], error) {
	w, err := a.cfg.Broker.Agents.Work(ctx, claimed(ctx), seen)
	if err == nil {
		err = a.addWorkerToken(&w)
	}
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

// keepLast stores the log ends that a report contains: of its own attempt, and of other members of its chunk. If the
// report is a repetition, they are stored already, and keepLast stores nothing.
func (a *API) keepLast(ctx context.Context, claims wire.Claims, r *wire.Report) error {
	log := Log{Job: claims.Job, Attempt: claims.Cluster, Rank: claims.Rank}
	size, members := len(r.Log), make([]string, len(r.Chunk))
	for i := range r.Chunk {
		size, members[i] = size+len(r.Chunk[i].Log), r.Chunk[i].Attempt
	}
	if size == 0 {
		return nil
	}
	if size > wire.MaxReportLog {
		return problem(http.StatusUnprocessableEntity,
			fmt.Sprintf("a report carries at most %d bytes of log", wire.MaxReportLog))
	}
	if len(members) > 0 {
		if err := a.cfg.Broker.Agents.Runs(ctx, claims, members...); err != nil {
			return err
		}
	}
	for i := range r.Chunk {
		m := &r.Chunk[i]
		err := a.keepEnd(ctx, Log{Job: claims.Job, Attempt: m.Attempt, Rank: claims.Rank}, m.LogFrom, m.Log, m.LogTimes)
		var offset *OffsetError
		if err != nil && !errors.As(err, &offset) { // a log with a gap does not hold up the other members
			return err
		}
		m.Log, m.LogFrom, m.LogTimes = nil, 0, ""
	}
	err := a.keepEnd(ctx, log, r.LogFrom, r.Log, r.LogTimes)
	r.Log, r.LogFrom, r.LogTimes = nil, 0, ""
	return appended(log, err)
}

// keepEnd appends the part of the end of a log that is not stored yet.
func (a *API) keepEnd(ctx context.Context, log Log, from int64, rest []byte, times string) error {
	if len(rest) == 0 {
		return nil
	}
	if from < 0 {
		return problem(http.StatusUnprocessableEntity, "a log cannot begin before its start")
	}
	marks, err := wire.ParseMarks(from, int64(len(rest)), times)
	if err != nil {
		return problem(http.StatusUnprocessableEntity, "logTimes: "+err.Error())
	}
	err = a.cfg.Logs.Append(ctx, log, from, rest, marks...)
	var offset *OffsetError
	if errors.As(err, &offset) && offset.Want >= from {
		known := min(offset.Want-from, int64(len(rest)))
		if rest, err = rest[known:], nil; len(rest) > 0 {
			err = a.cfg.Logs.Append(ctx, log, offset.Want, rest, wire.MarksFrom(marks, offset.Want)...)
		}
	}
	return err
}

// appended returns the response to a piece of log.
func appended(log Log, err error) error {
	var offset *OffsetError
	var refused huma.StatusError
	switch {
	case errors.As(err, &refused):
		return err
	case errors.As(err, &offset):
		return huma.ErrorWithHeaders(problem(http.StatusConflict, offset.Error()),
			http.Header{wire.HeaderOffset: {strconv.FormatInt(offset.Want, 10)}})
	case err != nil:
		return fmt.Errorf("api: log of %s: %w", log.Attempt, err)
	}
	return nil
}

// ownAttempt returns an error if a node reports about an attempt other than that of its cluster.
func ownAttempt(c wire.Claims, attempt string) error {
	if attempt == "" || attempt == c.Cluster {
		return nil
	}
	if record.ClusterJob(attempt) == c.Job {
		return record.ErrGone // another attempt of the same job
	}
	return problem(http.StatusForbidden, "the token is for another attempt")
}

type logInput struct {
	Attempt string `query:"attempt" required:"true" maxLength:"256" doc:"ID of the attempt, from its assignment"`
	Offset  int64  `query:"offset" minimum:"0" doc:"Bytes of the log before this piece"`
	Times   string `query:"times" maxLength:"8192" doc:"When the piece was written: OFFSET:MILLISECONDS, comma-separated. The first offset counts from the piece's and the first time from 1970, the others from the previous ones"`
	RawBody []byte `contentType:"application/octet-stream"`
}

func (a *API) appendLog(ctx context.Context, in *logInput) (*struct{}, error) {
	claims := claimed(ctx)
	if in.Attempt != claims.Cluster {
		err := record.ErrGone
		if record.ClusterJob(in.Attempt) == claims.Job {
			err = a.cfg.Broker.Agents.Runs(ctx, claims, in.Attempt)
		}
		if errors.Is(err, record.ErrGone) {
			return nil, problem(http.StatusForbidden, "the token is for another attempt")
		}
		if err != nil {
			return nil, err
		}
	}
	log := Log{Job: claims.Job, Attempt: in.Attempt, Rank: claims.Rank}
	marks, err := wire.ParseMarks(in.Offset, int64(len(in.RawBody)), in.Times)
	if err != nil {
		return nil, problem(http.StatusUnprocessableEntity, "times: "+err.Error())
	}
	return nil, appended(log, a.cfg.Logs.Append(ctx, log, in.Offset, in.RawBody, marks...))
}
