package view

import (
	"context"

	"github.com/tradewind-broker/tradewind/internal/broker/history"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
)

// Learned returns the run times that earlier jobs with a name have taught about their tasks. It is empty for an unknown
// name.
func (b *Views) Learned(ctx context.Context, job string) (apitypes.History, error) {
	h, err := history.Known(b.txns.NewUnit(ctx, "api"), job)
	if h.Tasks == nil {
		h.Job, h.Tasks = job, map[string]map[string]apitypes.RunTimes{}
	}
	return h, err
}
