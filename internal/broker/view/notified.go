package view

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/store"
)

// notified adds the recipients that were notified of the end of a job, and those that could not be.
func (b *Views) notified(ctx context.Context, s *story) error {
	if !s.Job.State.Finished() || s.Next > 0 {
		return nil
	}
	records, _, err := b.txns.Store.Query(ctx, record.JobPart(s.Job.ID), record.NotifiedPrefix, store.Page{})
	if err != nil {
		return err
	}
	for _, r := range records {
		var n record.Notified
		if err := json.Unmarshal(r.Body, &n); err != nil {
			return fmt.Errorf("broker: record %s: %w", r.Key, err)
		}
		text := n.Recipient
		switch {
		case n.Failure != "" && n.Tries == 1:
			text += " could not be notified: " + n.Failure
		case n.Failure != "":
			text += fmt.Sprintf(" could not be notified in %d attempts, the last: %s", n.Tries, n.Failure)
		case n.Recipient == "":
			continue
		}
		s.add(n.At, "notified", "", text)
	}
	return nil
}
