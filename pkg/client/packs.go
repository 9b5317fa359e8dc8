package client

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/tradewind-broker/tradewind/internal/pack"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
)

// Missing returns which of the pieces must be uploaded. It makes a Client a [localfiles.Asker].
func (c *Client) Missing(ctx context.Context, pieces []pack.Piece) ([]apitypes.Lack, error) {
	body, err := json.Marshal(map[string]any{"pieces": pieces})
	if err != nil {
		return nil, err
	}
	var out apitypes.Missing
	err = c.call(ctx, request{
		method: http.MethodPost, path: apitypes.MissingPath, body: body, contentType: "application/json",
	}, &out)
	return out.Missing, err
}
