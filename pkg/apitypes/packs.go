package apitypes

import (
	"github.com/tradewind-broker/tradewind/pkg/grant"
	"github.com/tradewind-broker/tradewind/pkg/pack"
)

// MissingPath is where a client asks which pieces of a pack to upload.
const MissingPath = "/v1/packs/missing"

// Missing are pieces that are not there.
type Missing struct {
	Missing []Lack `json:"missing" nullable:"false" doc:"The pieces to upload, each with the right to"`
}

// MaxAsk is how many pieces may be asked for at a time.
const MaxAsk = 1000

// Lack is a piece that is not there, and the right to write it.
type Lack struct {
	Digest pack.Digest `json:"digest"`
	Grant  grant.Grant `json:"grant"`
}
