package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/tradewind-broker/tradewind/internal/agent/wire"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/grant"
)

// Data moves the data of agents. A *broker.Agents is one.
type Data interface {
	Grant(ctx context.Context, c wire.Claims, wants ...grant.Want) ([]grant.Grant, error)
	List(ctx context.Context, c wire.Claims, prefix, after string) (grant.Page, error)
	BeginUpload(ctx context.Context, c wire.Claims, uri string) (upload string, err error)
	EndUpload(ctx context.Context, c wire.Claims, uri, upload string, parts []grant.Uploaded) error
	Prune(ctx context.Context, c wire.Claims) error
	Lend(ctx context.Context, c wire.Claims, loans ...grant.Loan) ([]grant.Credentials, error)
}

// MounterFunc returns the URL of the mount program for an architecture, or nil if it is unknown.
type MounterFunc func(ctx context.Context, arch string) (*wire.Program, error)

// maxDataBody is larger than the largest valid request, which has MaxWants wants or grant.MaxParts parts.
const maxDataBody = 4 << 20

func (a *API) dataRoutes() {
	refusals := "404: the bucket does not exist; 409: no such upload; 422: the attempt is not allowed to, or " +
		"the broker cannot. " +
		"Repeating the request then does not help."
	agentRoute(a, huma.Operation{
		OperationID: "agent-grants", Method: http.MethodPost, Path: wire.PathGrants,
		Summary: "Sign what an attempt reads and writes", Description: refusals, MaxBodyBytes: maxDataBody,
	}, a.grants)
	agentRoute(a, huma.Operation{
		OperationID: "agent-list", Method: http.MethodPost, Path: wire.PathList,
		Summary: "List what an attempt may read below a prefix, page by page", Description: refusals,
	}, a.list)
	agentRoute(a, huma.Operation{
		OperationID: "agent-uploads", Method: http.MethodPost, Path: wire.PathUploads,
		Summary: "Begin, complete or abort a multipart upload", Description: refusals, MaxBodyBytes: maxDataBody,
	}, a.uploads)
	agentRoute(a, huma.Operation{
		OperationID: "agent-prune", Method: http.MethodPost, Path: wire.PathPrune,
		Summary: "Remove the checkpoints of a task that newer ones have replaced",
	}, a.prune)
	agentRoute(a, huma.Operation{
		OperationID: "agent-mounts", Method: http.MethodPost, Path: wire.PathMounts,
		Summary: "Lend credentials for an attempt's mounts, each for one prefix", Description: refusals,
	}, a.mounts)
}

// data returns the broker's data port and the claims of a request. It first checks the attempt of the request. An
// attempt that is not the caller's may be a member of its chunk, which the broker checks.
func (a *API) data(ctx context.Context, attempt string) (Data, wire.Claims, error) {
	claims := claimed(ctx)
	if a.cfg.Broker.Data == nil {
		return nil, claims, problem(http.StatusNotImplemented, "this broker does not grant access to data")
	}
	err := ownAttempt(claims, attempt)
	if errors.Is(err, record.ErrGone) {
		claims.Member, err = attempt, nil
	}
	return a.cfg.Broker.Data, claims, err
}

type grantsInput struct{ Body wire.Wants }

func (a *API) grants(ctx context.Context, in *grantsInput) (*body[wire.Granted], error) {
	data, claims, err := a.data(ctx, in.Body.Attempt)
	if err != nil {
		return nil, err
	}
	if n := len(in.Body.Wants); n > wire.MaxWants {
		return nil, problem(http.StatusUnprocessableEntity,
			fmt.Sprintf("%d wants; the maximum per request is %d", n, wire.MaxWants))
	}
	grants, err := data.Grant(ctx, claims, in.Body.Wants...)
	return &body[wire.Granted]{wire.Granted{Grants: grants}}, refused(err)
}

type listingInput struct{ Body wire.Listing }

func (a *API) list(ctx context.Context, in *listingInput) (*body[grant.Page], error) {
	data, claims, err := a.data(ctx, in.Body.Attempt)
	if err != nil {
		return nil, err
	}
	page, err := data.List(ctx, claims, in.Body.Prefix, in.Body.After)
	return &body[grant.Page]{page}, refused(err)
}

type uploadInput struct{ Body wire.Upload }

func (a *API) uploads(ctx context.Context, in *uploadInput) (*body[wire.UploadID], error) {
	data, claims, err := a.data(ctx, in.Body.Attempt)
	if err != nil {
		return nil, err
	}
	up := in.Body
	switch up.Step {
	case wire.UploadBegin:
		up.Upload, err = data.BeginUpload(ctx, claims, up.URI)
	case wire.UploadComplete:
		if len(up.Parts) == 0 {
			return nil, problem(http.StatusUnprocessableEntity, "an upload needs at least one part")
		}
		err = data.EndUpload(ctx, claims, up.URI, up.Upload, up.Parts)
	case wire.UploadAbort:
		err = data.EndUpload(ctx, claims, up.URI, up.Upload, nil)
	default:
		return nil, problem(http.StatusUnprocessableEntity, "unknown step of an upload: use begin, complete or abort")
	}
	return &body[wire.UploadID]{wire.UploadID{Upload: up.Upload}}, refused(err)
}

type pruneInput struct{ Body wire.Pruning }

func (a *API) prune(ctx context.Context, in *pruneInput) (*struct{}, error) {
	data, claims, err := a.data(ctx, in.Body.Attempt)
	if err != nil {
		return nil, err
	}
	return nil, refused(data.Prune(ctx, claims))
}

type mountingInput struct{ Body wire.Mounting }

func (a *API) mounts(ctx context.Context, in *mountingInput) (*body[wire.Mounted], error) {
	data, claims, err := a.data(ctx, in.Body.Attempt)
	if err != nil {
		return nil, err
	}
	if n := len(in.Body.Loans); n > wire.MaxLoans {
		return nil, problem(http.StatusUnprocessableEntity,
			fmt.Sprintf("%d loans; the maximum per request is %d", n, wire.MaxLoans))
	}
	loans := make([]grant.Loan, len(in.Body.Loans))
	for i, l := range in.Body.Loans {
		loans[i] = grant.Loan{Prefix: l.Prefix, Write: l.Write}
	}
	out := wire.Mounted{}
	if out.Credentials, err = data.Lend(ctx, claims, loans...); err != nil {
		return nil, refused(err)
	}
	if in.Body.Program != "" && a.cfg.Mounter != nil {
		out.Program, err = a.cfg.Mounter(ctx, in.Body.Program)
	}
	return &body[wire.Mounted]{out}, err
}

// refused converts errors of package grant to responses. They are written for users and contain no secrets.
func refused(err error) error {
	switch {
	case errors.Is(err, grant.ErrNoBucket):
		return problem(http.StatusNotFound, err.Error())
	case errors.Is(err, grant.ErrUpload):
		return problem(http.StatusConflict, err.Error())
	case errors.Is(err, grant.ErrOutside), errors.Is(err, grant.ErrURI), errors.Is(err, grant.ErrWant),
		errors.Is(err, grant.ErrStore), errors.Is(err, grant.ErrCredentials), errors.Is(err, errors.ErrUnsupported):
		return problem(http.StatusUnprocessableEntity, err.Error())
	}
	return err
}
