package gcp

import (
	"encoding/json"
	"fmt"
)

// DecodePush reads the body of a request with which Pub/Sub pushes a notice (Pub/Sub documentation, "Receive push
// messages"). Whoever serves the endpoint has checked the request's token before. It fails as DecodeNotice does.
func DecodePush(body []byte) (n Notice, relevant bool, err error) {
	var in struct {
		Message struct {
			Data []byte `json:"data"` // base64
		} `json:"message"`
	}
	if err := json.Unmarshal(body, &in); err != nil {
		return n, false, fmt.Errorf("%w: %w", ErrNotice, err)
	}
	return DecodeNotice(in.Message.Data)
}
