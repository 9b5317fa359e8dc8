package host

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/tradewind-broker/tradewind/internal/localfiles"
)

// tokenEvery is the interval at which a broker checks its state folder for a new user token.
const tokenEvery = time.Second

// RotateToken replaces the user token of a state folder and returns the new one. Within a few seconds, a broker that
// runs there accepts only the new token, and the sessions of its dashboard end. The tokens of agents and machines
// stay valid.
func RotateToken(dir string) (string, error) {
	s := state(dir)
	if _, err := os.Stat(s.path(localfiles.TokenFile)); err != nil {
		return "", fmt.Errorf("no broker has run in %s: %w", dir, err)
	}
	text, err := newSecret()
	if err != nil {
		return "", err
	}
	return string(text), s.write(localfiles.TokenFile, append(text, '\n'))
}

// watchToken makes the API use the token in the state folder, whenever it changes.
func (h *Host) watchToken(ctx context.Context) {
	tick := time.NewTicker(tokenEvery)
	defer tick.Stop()
	last := h.token
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		body, err := os.ReadFile(h.state.path(localfiles.TokenFile))
		if err != nil {
			continue // the guard of the state folder reports that it was removed
		}
		token := strings.TrimSpace(string(body))
		if token == last {
			continue
		}
		if err := h.api.SetToken(token); err != nil {
			h.log.Error("the new user token in the state folder is not valid; the broker still accepts the old one",
				"err", err)
		} else {
			h.log.Info("the broker now accepts only the new user token")
		}
		last = token
	}
}
