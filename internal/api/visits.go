package api

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/tradewind-broker/tradewind/internal/agent/wire"
	"github.com/tradewind-broker/tradewind/internal/broker"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/internal/tunnel"
	"github.com/tradewind-broker/tradewind/internal/tunnel/relay"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
)

// Visits lets users connect to the machines of running tasks.
type Visits struct {
	// Relay passes data between users and machines.
	Relay *relay.Relay
}

// visitHold is the maximum duration of a long poll of a visit: less than the time limits of proxies. Wall time.
const visitHold = 20 * time.Second

// VisitOpener opens visits. A *broker.Users is one.
type VisitOpener interface {
	OpenVisit(ctx context.Context, v broker.VisitRequest) (cluster string, opened record.Visit, err error)
}

// AgentVisits returns and ends open visits. A *broker.Agents is one.
type AgentVisits interface {
	Visits(ctx context.Context, c wire.Claims, after int) ([]record.Visit, error)
	Visit(ctx context.Context, cluster string, number int) (record.Visit, error)
	EndVisit(ctx context.Context, cluster string, number int, how wire.VisitEnded) error
}

func (a *API) visitRoutes() {
	var piece, agentPiece huma.RequestBody
	defer notEmpty(&piece)
	defer notEmpty(&agentPiece)
	pieces := answers("Bytes; empty if none arrived", "application/octet-stream",
		&huma.Schema{Type: huma.TypeString})
	userRoute(a, huma.Operation{
		OperationID:   "open-visit",
		Method:        http.MethodPost,
		Path:          "/v1/jobs/{id}/tasks/{task}/visits",
		Tags:          []string{"jobs"},
		Summary:       "Connect to a machine on which a task runs",
		DefaultStatus: http.StatusCreated,
		Description: "Runs a command next to the task, opens a shell or connects to a port. The data goes " +
			"through the " +
			"two streams of the visit, which package tunnel describes; the machine's agent polls its own. The " +
			"command line, but not the data, is in the job's history.",
	}, a.openVisit)
	const one = "/v1/jobs/{id}/visits/{attempt}/{visit}"
	userRoute(a, huma.Operation{
		OperationID: "visit-send", Method: http.MethodPost, Path: one + "/person", Tags: []string{"jobs"},
		Summary: "Send data to the visited machine", MaxBodyBytes: tunnel.MaxPiece + 1, RequestBody: &piece,
		Description: "A piece that is sent again counts once. 429 means that the machine is behind: send it again.",
	}, a.sendVisit)
	userRoute(a, huma.Operation{
		OperationID: "visit-receive", Method: http.MethodGet, Path: one + "/machine", Tags: []string{"jobs"},
		Summary:   "What the visited machine has sent, from an offset on",
		Responses: pieces,
	}, a.receiveVisit)
	userRoute(a, huma.Operation{
		OperationID: "visit-end", Method: http.MethodPost, Path: one + "/end", Tags: []string{"jobs"},
		Summary: "End a visit",
	}, a.endVisit)

	agentRoute(a, huma.Operation{
		OperationID: "agent-visits", Method: http.MethodGet, Path: wire.PathVisits,
		Summary: "The visits that a node must serve",
	}, a.agentVisits)
	agentRoute(a, huma.Operation{
		OperationID: "agent-visit-receive", Method: http.MethodGet,
		Path:      wire.PathVisits + "/{visit}" + wire.VisitFromPerson,
		Summary:   "What a visitor has sent, from an offset on",
		Responses: pieces,
	}, a.agentReceive)
	agentRoute(a, huma.Operation{
		OperationID: "agent-visit-send", Method: http.MethodPost,
		Path: wire.PathVisits + "/{visit}" + wire.VisitFromMachine, Summary: "Send to a visitor",
		MaxBodyBytes: tunnel.MaxPiece + 1, RequestBody: &agentPiece,
	}, a.agentSend)
	agentRoute(a, huma.Operation{
		OperationID: "agent-visit-end", Method: http.MethodPost, Path: wire.PathVisits + "/{visit}" + wire.VisitEnd,
		Summary: "Report that a visit has ended, and how",
	}, a.agentEnd)
}

// notEmpty requires a body of at least one byte. It is called after the operation was registered.
func notEmpty(b *huma.RequestBody) {
	for _, content := range b.Content {
		content.Schema.MinLength = new(1)
	}
}

var errNoVisits = problem(http.StatusNotImplemented, "exec, shell, forward and ssh need a broker "+
	"that machines reach at an address: `tradewind up --public-url URL`, or a deployment (`tradewind deploy`)")

type openVisitInput struct {
	ID   string `path:"id" maxLength:"256" doc:"Job ID"`
	Task string `path:"task" maxLength:"256" doc:"Name of the task"`
	Body struct {
		Kind    string   `json:"kind" enum:"exec,shell,forward" doc:"A command, a terminal or a port"`
		Rank    int      `json:"rank,omitempty" minimum:"0" doc:"Rank of the machine, for a task that runs on several"`
		Command []string `json:"command,omitempty" maxItems:"10000" doc:"The command line, for the job's history"`
		Port    int      `json:"port,omitempty" minimum:"0" maximum:"65535" doc:"Port on the machine"`
	}
}

type openVisitOutput struct {
	Status int
	Body   apitypes.Visited
}

func (a *API) openVisit(ctx context.Context, in *openVisitInput) (*openVisitOutput, error) {
	if a.cfg.Visits == nil {
		return nil, errNoVisits
	}
	if in.Body.Kind == string(tunnel.Forward) && in.Body.Port == 0 {
		return nil, problem(http.StatusUnprocessableEntity, "port is missing: use 1 to 65535")
	}
	cluster, v, err := a.cfg.Broker.VisitOpener.OpenVisit(ctx, broker.VisitRequest{
		Job: in.ID, Task: in.Task, Rank: in.Body.Rank, Kind: in.Body.Kind, Command: in.Body.Command, Port: in.Body.Port,
	})
	if err != nil {
		return nil, err
	}
	out := apitypes.Visited{Job: in.ID, Attempt: strings.TrimPrefix(cluster, in.ID+"."), Visit: v.Number}
	if a.cfg.Unheld > 0 {
		out.Within = a.unheld(v.Number - 1).String()
	}
	return &openVisitOutput{Status: http.StatusCreated, Body: out}, nil
}

// visitedPause is the pause between two polls of an agent whose attempt has been visited, if the broker has no long
// polls. It is short because another visit is likely.
const visitedPause = 10 * time.Second

// unheld returns the pause between two polls of an agent for a broker without long polls, after a number of visits.
func (a *API) unheld(visits int) time.Duration {
	if visits > 0 {
		return min(visitedPause, a.cfg.Unheld)
	}
	return a.cfg.Unheld
}

// VisitPath is the path of a visit in calls of users.
type VisitPath struct {
	ID      string `path:"id" maxLength:"256" doc:"Job ID"`
	Attempt string `path:"attempt" maxLength:"64" doc:"The attempt, from the response that opened the visit"`
	Visit   int    `path:"visit" minimum:"1" doc:"Number of the visit"`
}

func (in *VisitPath) cluster() string { return in.ID + "." + in.Attempt }

// StreamOffset is a position in a stream.
type StreamOffset struct {
	Offset int64 `query:"offset" minimum:"0" doc:"Bytes of the stream before this position"`
}

// StreamWait is the maximum time for which a request waits for more data.
type StreamWait struct {
	Wait string `query:"wait" pattern:"^([0-9]{1,5}(\\.[0-9]{1,9})?(ns|us|µs|ms|s|m|h)){1,4}$" doc:"How long to wait for data: 20s"`
}

type sendVisitInput struct {
	VisitPath
	StreamOffset
	RawBody []byte `contentType:"application/octet-stream"`
}

type receiveVisitInput struct {
	VisitPath
	StreamOffset
	StreamWait
}

type bytesOutput struct {
	ContentType string `header:"Content-Type"`
	Body        []byte
}

func (a *API) sendVisit(ctx context.Context, in *sendVisitInput) (*struct{}, error) {
	return nil, a.pass(ctx, in.cluster(), in.Visit, -1, relay.FromPerson, in.Offset, in.RawBody)
}

func (a *API) receiveVisit(ctx context.Context, in *receiveVisitInput) (*bytesOutput, error) {
	return a.fetch(ctx, in.cluster(), in.Visit, -1, relay.FromMachine, in.Offset, in.Wait)
}

type endVisitInput struct {
	VisitPath
}

func (a *API) endVisit(ctx context.Context, in *endVisitInput) (*struct{}, error) {
	if err := a.visit(ctx, in.cluster(), in.Visit, -1); err != nil && !isGone(err) {
		return nil, err
	}
	return nil, a.ended(ctx, in.cluster(), in.Visit, wire.VisitEnded{Reason: "left"})
}

func isGone(err error) bool {
	var p *apitypes.Problem
	return errors.As(err, &p) && p.Status == http.StatusGone
}

// visit checks that a visit is open. rank is the rank of the node that sends the request, or -1 for a user.
func (a *API) visit(ctx context.Context, cluster string, number, rank int) error {
	if a.cfg.Visits == nil {
		return errNoVisits
	}
	v, err := a.cfg.Broker.AgentVisits.Visit(ctx, cluster, number)
	switch {
	case rank >= 0 && (errors.Is(err, record.ErrGone) || err == nil && v.Rank != rank):
		return problem(http.StatusNotFound, "there is no such visit, or it has ended")
	case errors.Is(err, record.ErrGone):
		why := "the visit has ended"
		if v.Ended.IsZero() {
			why = "the visit has ended, because its attempt has"
		} else if v.Reason != "" {
			why += ": " + v.Reason
		}
		return problem(http.StatusGone, why)
	}
	return err
}

// pass stores a piece for the other side.
func (a *API) pass(ctx context.Context, cluster string, number, rank int, from relay.Side, offset int64,
	piece []byte) error {
	if err := a.visit(ctx, cluster, number, rank); err != nil {
		return err
	}
	if len(piece) > tunnel.MaxPiece {
		return problem(http.StatusRequestEntityTooLarge, "a piece has at most "+strconv.Itoa(tunnel.MaxPiece)+" bytes")
	}
	err := a.cfg.Visits.Relay.Append(ctx, relay.Stream(cluster, number, from), offset, piece)
	if errors.Is(err, tunnel.ErrBusy) {
		return problem(http.StatusTooManyRequests, "the other side is behind; try again")
	}
	return err
}

// fetch waits for data from the other side.
func (a *API) fetch(ctx context.Context, cluster string, number, rank int, from relay.Side, offset int64,
	wait string) (*bytesOutput, error) {
	hold := time.Duration(0)
	if wait != "" {
		hold, _ = time.ParseDuration(wait) // valid by the pattern
	}
	out := &bytesOutput{ContentType: "application/octet-stream"}
	if err := a.visit(ctx, cluster, number, rank); err != nil {
		if rank < 0 && a.cfg.Visits != nil { // the machine's last output may still be stored
			if last, lerr := a.cfg.Visits.Relay.Take(ctx, relay.Stream(cluster, number, from), offset); lerr == nil &&
				len(last) > 0 {
				out.Body = last
				return out, nil
			}
		}
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, min(hold, visitHold))
	defer cancel()
	defer context.AfterFunc(a.closed, cancel)()
	var err error
	out.Body, err = a.cfg.Visits.Relay.Read(ctx, relay.Stream(cluster, number, from), offset)
	return out, err
}

// ended records the end of a visit, and wakes the calls that wait for data of the visit.
func (a *API) ended(ctx context.Context, cluster string, number int, how wire.VisitEnded) error {
	if err := a.cfg.Broker.AgentVisits.EndVisit(ctx, cluster, number, how); err != nil {
		return err
	}
	for _, from := range []relay.Side{relay.FromPerson, relay.FromMachine} {
		if err := a.cfg.Visits.Relay.Forget(ctx, relay.Stream(cluster, number, from)); err != nil {
			return err
		}
	}
	return nil
}

type agentVisitsInput struct {
	After int `query:"after" minimum:"0" doc:"Number of the last visit that the agent knows"`
}

func (a *API) agentVisits(ctx context.Context, in *agentVisitsInput) (*body[wire.Visits], error) {
	if a.cfg.Visits == nil {
		return nil, errNoVisits
	}
	open, err := a.cfg.Broker.AgentVisits.Visits(ctx, claimed(ctx), in.After)
	if err != nil {
		return nil, err
	}
	out := wire.Visits{Visits: []wire.Visit{}}
	for _, v := range open {
		out.Visits = append(out.Visits, wire.Visit{Number: v.Number, Kind: v.Kind, Port: v.Port})
	}
	return &body[wire.Visits]{Body: out}, nil
}

// AgentVisitPath is the path of a visit in calls of the agent.
type AgentVisitPath struct {
	Visit int `path:"visit" minimum:"1" doc:"Number of the visit"`
}

type agentSendInput struct {
	AgentVisitPath
	StreamOffset
	RawBody []byte `contentType:"application/octet-stream"`
}

func (a *API) agentSend(ctx context.Context, in *agentSendInput) (*struct{}, error) {
	c := claimed(ctx)
	return nil, a.pass(ctx, c.Cluster, in.Visit, c.Rank, relay.FromMachine, in.Offset, in.RawBody)
}

type agentReceiveInput struct {
	AgentVisitPath
	StreamOffset
	StreamWait
}

func (a *API) agentReceive(ctx context.Context, in *agentReceiveInput) (*bytesOutput, error) {
	c := claimed(ctx)
	return a.fetch(ctx, c.Cluster, in.Visit, c.Rank, relay.FromPerson, in.Offset, in.Wait)
}

type agentEndInput struct {
	AgentVisitPath
	Body wire.VisitEnded
}

func (a *API) agentEnd(ctx context.Context, in *agentEndInput) (*struct{}, error) {
	c := claimed(ctx)
	if err := a.visit(ctx, c.Cluster, in.Visit, c.Rank); err != nil {
		return nil, err
	}
	// The user may not have read the machine's last output yet. That output is removed when it has been read, or
	// after some time.
	return nil, a.cfg.Broker.AgentVisits.EndVisit(ctx, c.Cluster, in.Visit, in.Body)
}
