package api

import (
	"context"
	"errors"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/tradewind-broker/tradewind/internal/pack"
	"github.com/tradewind-broker/tradewind/internal/pack/depot"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
)

// Packs finds the missing pieces of uploaded packs: a [depot.Depot].
type Packs interface {
	Missing(ctx context.Context, pieces []pack.Piece) ([]apitypes.Lack, error)
}

func (a *API) packRoutes() {
	userRoute(a, huma.Operation{
		OperationID: "missing-pieces",
		Method:      http.MethodPost,
		Path:        apitypes.MissingPath,
		Tags:        []string{"jobs"},
		Summary:     "Return which pieces of a pack must be uploaded",
		Description: "A pack is a folder or a file, split into pieces that are named by their content, and a " +
			"list of them " +
			"that is named in the same way. A job refers to it by pack://DIGEST-OF-THE-LIST/NAME, once the list " +
			"and all " +
			"pieces are stored. Each grant is an HTTP request to send with the piece as its body.",
	}, a.missingPieces)
	if a.cfg.Objects != nil {
		a.mux.Handle(ObjectsPath+"/", a.cfg.Objects)
	}
}

// ObjectsPath is the path below which Config.Objects serves.
const ObjectsPath = "/v1/objects"

type missingInput struct {
	Body struct {
		Pieces []pack.Piece `json:"pieces" minItems:"1" maxItems:"1000" doc:"The pieces of the pack"`
	}
}

func (a *API) missingPieces(ctx context.Context, in *missingInput) (*body[apitypes.Missing], error) {
	if a.cfg.Packs == nil {
		return nil, problem(http.StatusNotImplemented, "this broker does not store packs")
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
