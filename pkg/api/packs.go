package api

import (
	"context"
	"errors"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/pack"
	"github.com/tradewind-broker/tradewind/pkg/pack/depot"
)

// Packs takes in what jobs bring along: a [depot.Depot].
type Packs interface {
	Missing(ctx context.Context, pieces []pack.Piece) ([]apitypes.Lack, error)
}

func (a *API) packRoutes() {
	userRoute(a, huma.Operation{
		OperationID: "missing-pieces", Method: http.MethodPost, Path: apitypes.MissingPath, Tags: []string{"jobs"},
		Summary: "Which pieces of a pack are to be uploaded",
		Description: "A pack is a folder or a file in pieces that are named by their content, and a list of them " +
			"that is named the same way. A job refers to it by pack://DIGEST-OF-THE-LIST/NAME, once the list and all " +
			"pieces are there. Each grant is an HTTP request to send with the piece as its body.",
	}, a.missingPieces)
	if a.cfg.Objects != nil {
		a.mux.Handle(ObjectsPath+"/", a.cfg.Objects)
	}
}

// ObjectsPath is where Config.Objects serves below.
const ObjectsPath = "/v1/objects"

type missingInput struct {
	Body struct {
		Pieces []pack.Piece `json:"pieces" minItems:"1" maxItems:"1000" doc:"The pieces that there are"`
	}
}

func (a *API) missingPieces(ctx context.Context, in *missingInput) (*body[apitypes.Missing], error) {
	if a.cfg.Packs == nil {
		return nil, problem(http.StatusNotImplemented, "this broker keeps no packs")
	}
	found, err := a.cfg.Packs.Missing(ctx, in.Body.Pieces)
	if errors.Is(err, depot.ErrAsk) {
		return nil, problem(http.StatusUnprocessableEntity, err.Error())
	}
	if err != nil {
		return nil, err
	}
	return &body[apitypes.Missing]{Body: apitypes.Missing{Missing: orEmpty(found)}}, nil
}
