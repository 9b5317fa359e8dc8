package story

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/tradewind-broker/tradewind/pkg/apitypes"
)

// wide is a job of six machines with two vCPUs each, of which a new account may run four, and of four tasks that share
// one.
const wide = `apiVersion: tradewind/v1
name: wide
tasks:
  part:
    array: 6
    share: false
    run: until test -e %s; do sleep 0.2; done
    resources: {cpus: 2+, cloud: aws, region: us-east-1, market: on-demand}
    time: 5m
  shared:
    array: 4
    run: echo member $TRADEWIND_ARRAY_INDEX
    resources: {cpus: 1, memory: 1, cloud: aws, region: us-east-1, market: spot}
    time: 1m
`

// overQuota runs a job whose machines exceed the account's quota if they run at the same time. Its tasks run until a
// launch was refused. Otherwise, on a busy computer, the first ones would end before the last are launched.
func (s *Story) overQuota(ctx context.Context) (string, error) {
	before := s.World.Proxy.OverQuota()
	dir, err := os.MkdirTemp("", "quota")
	if err != nil {
		return "", err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	refused := filepath.Join(dir, "refused")
	var id string
	if err := until(ctx, func() error {
		out, err := s.cli(ctx, fmt.Sprintf(wide, refused), "submit", "-", "--yes", "--key", "wide")
		id = strings.TrimSpace(string(out))
		return err
	}); err != nil {
		return "", err
	}
	var said string
	err = until(ctx, func() error {
		if s.World.Proxy.OverQuota() > before {
			if err := os.WriteFile(refused, nil, 0o600); err != nil {
				return err
			}
		}
		var d apitypes.JobDetail
		if err := s.cliJSON(ctx, &d, "status", id); err != nil {
			return err
		}
		if d.State == apitypes.JobFailed || d.State == apitypes.JobCancelled {
			return &finalError{fmt.Errorf("the job is %s: %s", d.State, d.Reason)}
		}
		if d.State != apitypes.JobSucceeded {
			return fmt.Errorf("the job is %s", d.State)
		}
		said = fmt.Sprintf("%s: %d attempts, %d launches refused for the quota", id, len(d.Attempts),
			s.World.Proxy.OverQuota()-before)
		return nil
	})
	if err == nil && s.World.Proxy.OverQuota() == before {
		err = errors.New("no launch was refused")
	}
	return said, err
}
