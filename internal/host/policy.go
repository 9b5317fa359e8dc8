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

// policyFile is the watched file with the policy of the broker's sessions.
type policyFile struct {
	path   string
	holder scheduler.Holder
	log    *slog.Logger
	last   string // content read last, valid or not
}

// openPolicy reads the file. It returns a *scheduler.PolicyError if it is invalid.
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

// reload applies the policy in the file from the next session on, unless the file has not changed. Of an invalid
// policy it applies nothing.
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

// watch reloads the file whenever it changes. It watches the folder, because editors replace the file by another one.
func (p *policyFile) watch(ctx context.Context) error {
	return watchDir(ctx, p.log, filepath.Dir(p.path), nil, func() bool {
		p.logReload(p.reload())
		return false
	})
}

// logReload logs the result of a reload.
func (p *policyFile) logReload(changed bool, err error) {
	switch {
	case err != nil:
		p.log.Error("the new policy is invalid; the previous one stays in force", "err", err)
	case changed:
		p.log.Info("the new policy is in force for the next sessions", "file", p.path)
	}
}
