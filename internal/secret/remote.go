package secret

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// Call sends a message and returns the answer.
type Call func(ctx context.Context, message []byte) ([]byte, error)

type call struct {
	Secret string        `json:"secret"` // scheme
	Name   string        `json:"name"`
	Within time.Duration `json:"within,omitempty"` // nanoseconds
}

type answer struct {
	Value string `json:"value,omitempty"`
	Error string `json:"error,omitempty"`
	Lasts bool   `json:"lasts,omitempty"` // the error is an ErrUnavailable
}

// IsCall reports whether a message is a call of this package. Functions that handle other messages too use it to
// dispatch.
func IsCall(message []byte) bool {
	var probe call
	return json.Unmarshal(message, &probe) == nil && probe.Secret != ""
}

type client struct {
	scheme string
	call   Call
}

// Remote returns the source of a scheme's secrets that another process fetches, to which it sends one message for each
// secret: a cloud's function, which alone has the permission to read secrets there. Server is the other end.
func Remote(scheme string, c Call) Source { return client{scheme, c} }

// Fetch implements secret.Source. Its errors never contain the answer, which may be the secret.
func (c client) Fetch(ctx context.Context, name string) (string, error) {
	what := call{Secret: c.scheme, Name: name}
	if until, ok := ctx.Deadline(); ok {
		what.Within = time.Until(until)
	}
	message, err := json.Marshal(what) //nolint:gosec // its field secret is a scheme
	if err != nil {
		return "", err
	}
	back, err := c.call(ctx, message)
	if err != nil {
		return "", fmt.Errorf("no answer: %w", err)
	}
	var a answer
	switch {
	case json.Unmarshal(back, &a) != nil:
		return "", errors.New("the answer is not valid")
	case a.Error != "" && a.Lasts:
		return "", fmt.Errorf("%w: %s", ErrUnavailable, a.Error)
	case a.Error != "":
		return "", errors.New(a.Error)
	}
	return a.Value, nil
}

// Server answers clients' calls with sources, which are keyed by scheme.
type Server struct{ Sources map[string]Source }

// Serve answers one call. It returns an error only if the message is not valid. If a secret is not available, that is
// part of the answer.
func (s Server) Serve(ctx context.Context, message []byte) ([]byte, error) {
	var in call
	if err := json.Unmarshal(message, &in); err != nil {
		return nil, fmt.Errorf("secret: call: %w", err)
	}
	if in.Within > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, in.Within)
		defer cancel()
	}
	source := s.Sources[in.Secret]
	if source == nil {
		return json.Marshal(answer{Error: "this cloud's function does not read " + in.Secret, Lasts: true})
	}
	value, err := source.Fetch(ctx, in.Name)
	if err != nil {
		return json.Marshal(answer{Error: Message(err), Lasts: errors.Is(err, ErrUnavailable)})
	}
	return json.Marshal(answer{Value: value})
}
