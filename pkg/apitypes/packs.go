package apitypes

import (
	"github.com/tradewind-broker/tradewind/internal/pack"
	"github.com/tradewind-broker/tradewind/pkg/grant"
)

// MissingPath is where a client asks which pieces of a pack to upload.
const MissingPath = "/v1/packs/missing"

// Missing are pieces that are not there.
type Missing struct {
	Missing []Lack `json:"missing" nullable:"false" doc:"The pieces to upload, each with the right to"`
}

// MaxAsk is the maximum number of pieces in one request.
const MaxAsk = 1000

// Lack is a missing piece, and the grant to write it.
type Lack struct {
	Digest pack.Digest `json:"digest"`
	Grant  grant.Grant `json:"grant"`
}
