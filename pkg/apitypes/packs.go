package apitypes

import (
	"github.com/tradewind-broker/tradewind/internal/pack"
	"github.com/tradewind-broker/tradewind/pkg/grant"
)

// MissingPath is the path of the call that returns which pieces of a pack must be uploaded.
const MissingPath = "/v1/packs/missing"

// Missing are pieces that are not stored yet.
type Missing struct {
	Missing []Lack `json:"missing" nullable:"false" doc:"The pieces to upload, each with a grant to write it"`
}

// MaxAsk is the maximum number of pieces per call.
const MaxAsk = 1000

// Lack is a piece that is not stored yet, and the grant to write it.
type Lack struct {
	Digest pack.Digest `json:"digest"`
	Grant  grant.Grant `json:"grant"`
}
