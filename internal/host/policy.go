package host

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/tradewind-broker/tradewind/internal/broker/session"
	"github.com/tradewind-broker/tradewind/pkg/scheduler"
)

// policyFile is the policy of the broker's sessions, in a file that is watched.
type policyFile struct {
	path   string
	holder scheduler.Holder
	log    *slog.Logger
	last   string // what was read last, good or bad
}

// openPolicy reads the file. It fails with a *scheduler.PolicyError where it can not be followed.
func openPolicy(path string, log *slog.Logger) (*policyFile, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("policy: %w", err)
	}
	p := &policyFile{path: path, holder: scheduler.Holder{Check: session.CheckPolicy}, log: log}
	_, err = p.reload()
	return p, err
}

// Policy implements broker.Ports.Policy.
func (p *policyFile) Policy(context.Context) *scheduler.Policy { return p.holder.Policy() }

// reload puts what is in the file in force for the next session, unless nothing has changed. Of what can not be
// followed nothing is taken.
func (p *policyFile) reload() (changed bool, err error) {
	body, err := os.ReadFile(p.path)
	if err != nil {
		return false, fmt.Errorf("policy: %w", err)
	}
	if p.last == string(body) && p.last != "" {
		return false, nil
	}
	p.last = string(body)
	return true, p.holder.Reload(p.path, body)
}

// watch reloads the file whenever it changes: also where an editor puts another file in its place, so its folder is
// watched.
func (p *policyFile) watch(ctx context.Context) error {
	return watchDir(ctx, p.log, filepath.Dir(p.path), nil, func() bool {
		p.tell(p.reload())
		return false
	})
}

// tell logs what became of a reload.
func (p *policyFile) tell(changed bool, err error) {
	switch {
	case err != nil:
		p.log.Error("the policy was not taken: the one before stays in force", "err", err)
	case changed:
		p.log.Info("the policy was taken: sessions follow it from now on", "file", p.path)
	}
}
