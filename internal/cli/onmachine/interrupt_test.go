package onmachine

import (
	"context"
	"errors"
	"testing"

	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/client"
)

// silent is a broker that does not answer.
type silent struct{ asked chan struct{} }

func (s silent) OpenVisit(ctx context.Context, _, _ string, _ client.Visiting) (*client.Visit, error) {
	close(s.asked)
	<-ctx.Done()
	return nil, ctx.Err()
}

func (silent) Job(context.Context, string) (*apitypes.JobDetail, error) {
	return nil, errors.New("not asked for")
}

// An interrupt while the broker opens a visit does not wait for the broker's answer.
func TestInterruptAbandonsUnansweredVisit(t *testing.T) {
	b, interrupted := silent{asked: make(chan struct{})}, make(chan struct{})
	go func() {
		<-b.asked
		close(interrupted)
	}()
	_, err := Exec(t.Context(), b, Target{Job: "j", Task: "t"}, []string{"true"}, Process{Interrupted: interrupted})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("it ends with %v", err)
	}
}
