package host

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
	"time"

	"github.com/tradewind-broker/tradewind/internal/base/clock"
)

// ErrStateRemoved means that the state folder, or the records in it, were removed or replaced while the broker ran.
var ErrStateRemoved = errors.New("the state folder was removed while the broker used it")

// lookAtState is the interval at which the broker checks that its state folder exists, in wall time.
const lookAtState = time.Second

// stateGuard identifies the state folder and the records that a broker has opened.
type stateGuard struct {
	mu    sync.Mutex
	paths []string
	were  []fs.FileInfo
}

// newStateGuard records the identity of files and folders as they are now.
func newStateGuard(paths ...string) (*stateGuard, error) {
	g := &stateGuard{paths: paths}
	for _, path := range paths {
		was, err := os.Stat(path)
		if err != nil {
			return nil, fmt.Errorf("state folder: %w", err)
		}
		g.were = append(g.were, was)
	}
	return g, nil
}

// look returns ErrStateRemoved if one of the paths is missing or has been replaced. If a path cannot be read for
// another reason, look returns nil.
func (g *stateGuard) look() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	for i, path := range g.paths {
		is, err := os.Stat(path)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return fmt.Errorf("%w: %s is missing", ErrStateRemoved, path)
		case err == nil && !os.SameFile(is, g.were[i]):
			return fmt.Errorf("%w: %s was replaced", ErrStateRemoved, path)
		}
	}
	return nil
}

// replacing calls a function that may replace the files, and then records their new identity.
func (g *stateGuard) replacing(f func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	f()
	for i, path := range g.paths {
		if is, err := os.Stat(path); err == nil {
			g.were[i] = is
		}
	}
}

// watch returns when the state was removed, with ErrStateRemoved, or when ctx ends, with nil.
func (g *stateGuard) watch(ctx context.Context) error {
	for clock.Pause(ctx, lookAtState) == nil {
		if err := g.look(); err != nil {
			return err
		}
	}
	return nil
}
