package client

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/tradewind-broker/tradewind/internal/localfiles"
	"github.com/tradewind-broker/tradewind/pkg/api"
	"github.com/tradewind-broker/tradewind/pkg/pack"
	"github.com/tradewind-broker/tradewind/pkg/pack/depot"
)

// Missing says which pieces of a pack are to be uploaded. It makes a Client a [localfiles.Asker].
func (c *Client) Missing(ctx context.Context, pieces []pack.Piece) ([]depot.Lack, error) {
	body, err := json.Marshal(map[string]any{"pieces": pieces})
	if err != nil {
		return nil, err
	}
	var out api.Missing
	err = c.call(ctx, request{
		method: http.MethodPost, path: api.MissingPath, body: body, contentType: "application/json",
	}, &out)
	return out.Missing, err
}
