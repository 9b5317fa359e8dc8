package agent

import (
	"context"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/tradewind-broker/tradewind/internal/agent/attest"
	"github.com/tradewind-broker/tradewind/internal/agent/token"
	"github.com/tradewind-broker/tradewind/internal/mailbox"
)

// Times of an agent whose calls go through a mailbox. Each call costs requests of a bucket there.
const (
	slowPollWait = 50 * time.Second // the broker holds polls for at most a minute
	slowLogPause = 2 * time.Second
	bookWithin   = 10 * time.Minute // for the book of the mailbox to be readable
)

// openMailbox connects to the mailbox whose address is in a file. Without a file, it does nothing.
func (c *Config) openMailbox(ctx context.Context, file string) error {
	if file == "" {
		return nil
	}
	text, err := readToken(file, nil)
	if err != nil {
		return err
	}
	address, err := mailbox.ParseAddress(text)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrConfig, err)
	}
	claims, err := token.Read(c.Token)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrConfig, err)
	}
	rank := claims.Rank
	if claims.Ranks > 0 {
		rank = c.Rank
	}
	ctx, cancel := context.WithTimeout(ctx, bookWithin)
	defer cancel()
	if c.Mailbox, err = mailbox.Connect(ctx, address, rank, mailbox.Options{Log: c.Logger}); err != nil {
		return err
	}
	c.HTTPClient = &http.Client{Transport: c.Mailbox}
	c.callSlowly(c.Mailbox.Book().Away)
	return nil
}

// callSlowly sets the times of an agent whose calls go through a mailbox.
func (c *Config) callSlowly(away time.Duration) {
	c.Patience, c.PollWait, c.LogPause = away, min(slowPollWait, away/2), slowLogPause
}

// ownVariables concern only the agent of a bought machine. The agents of a worker's tasks have tokens of a pool,
// which need no proof, read their addresses from the worker, and share the machine.
var ownVariables = []string{EnvMailbox, EnvBoot, attest.EnvCloud, EnvRank, EnvSole}

// relay returns the environment of the agents of a worker's tasks. If the broker has no address, it also serves the
// mailbox to them, and returns the URL at which they call.
func (t *attempt) relay(ctx context.Context) (endpoint string, environ []string, end func(), err error) {
	environ = slices.DeleteFunc(slices.Clone(t.cfg.Environ), func(entry string) bool {
		name, _, _ := strings.Cut(entry, "=")
		return slices.Contains(ownVariables, name)
	})
	environ = append(environ, EnvOnce+"=1", EnvSetups+"="+filepath.Join(t.dirs.top, "setups"))
	if mayIsolate(environ) {
		environ = append(environ, EnvIsolate+"=1")
	}
	if t.cfg.Mailbox == nil {
		return "", environ, func() {}, nil
	}
	endpoint, end, err = mailbox.Relay(ctx, t.cfg.Mailbox)
	return endpoint, append(environ, EnvAway+"="+t.cfg.Patience.String()), end, err
}
