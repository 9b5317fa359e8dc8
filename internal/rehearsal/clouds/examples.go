package clouds

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/tradewind-broker/tradewind/internal/skytest"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/client"
)

// others checks that files written for another broker and one cloud run unchanged on that cloud.
func (s *Story) others(ctx context.Context) (said string, err error) {
	for _, cloud := range []string{"gcp", "azure"} {
		for _, e := range skytest.ExamplesOf(cloud) {
			id, err := s.submit(ctx, e.Name, e.Body)
			if err != nil {
				return said, err
			}
			s.theirs = append(s.theirs, id)
			if err := until(ctx, func() error { return s.ran(ctx, id, cloud, e) }); err != nil {
				return said, fmt.Errorf("%s: %w", e.Name, err)
			}
			said += fmt.Sprintf("%s.yaml: %d machines of %s say %q\n", e.Name, e.Ranks, cloud, e.WantLog)
		}
	}
	return said, nil
}

// ran returns what is still missing for a job of one task on one cloud.
func (s *Story) ran(ctx context.Context, id, cloud string, e skytest.Example) error {
	d, err := s.client.Job(ctx, id)
	if err != nil {
		return err
	}
	if d.State != apitypes.JobSucceeded {
		return fmt.Errorf("the job is %s: %s", d.State, d.Reason)
	}
	a := d.Attempts[len(d.Attempts)-1]
	if a.Offer.Cloud != cloud || a.Nodes != e.Ranks {
		return fmt.Errorf("it ran on %d machines of %s", a.Nodes, a.Offer.Cloud)
	}
	for rank := range e.Ranks {
		log, err := s.client.Log(ctx, id, d.TaskList[0].Name, client.LogOptions{Rank: rank})
		if err != nil {
			return err
		}
		var text strings.Builder
		_, err = io.Copy(&text, log)
		_ = log.Close() // only read
		if err != nil {
			return err
		}
		if err := e.Check(text.String()); err != nil {
			return err
		}
	}
	return nil
}
