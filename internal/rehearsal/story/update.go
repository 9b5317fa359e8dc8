package story

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/internal/rehearsal/account"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
)

// updated deploys an update by the command line while training runs. CloudFormation puts polling and schedules to
// sleep with it. Only a broker that is awake starts the remaining tasks, so the next steps show the rest.
func (s *Story) updated(ctx context.Context) (string, error) {
	w := s.World
	console, err := w.Console(ctx)
	if err != nil {
		return "", err
	}
	dir, err := w.UpdatedAssembly()
	if err != nil {
		return "", err
	}
	c := s.command(ctx, "deploy", "aws", "--assembly", dir, "--assets", w.Assets, "--region", account.Region,
		"--endpoint-url", console.URL)
	out, err := c.CombinedOutput()
	said := strings.TrimSpace(string(out))
	if err != nil {
		return "", fmt.Errorf("tradewind deploy aws: %w: %s", err, said)
	}
	if console.Updates() != 1 {
		return "", fmt.Errorf("%d updates of the stack: %s", console.Updates(), said)
	}
	if console.Invoked() == 0 {
		return "", errors.New("the command has not invoked reconcile")
	}
	err = until(ctx, func() error { return w.Awake(ctx, events.FnTick, events.FnReconcile) })
	if err != nil {
		return "", err
	}
	d, err := s.client.Job(ctx, s.job)
	if err == nil && d.State != apitypes.JobRunning {
		err = &finalError{fmt.Errorf("the job is %s: %s", d.State, d.Reason)}
	}
	return "the stack was updated, polling and schedules went off and are on again", err
}
