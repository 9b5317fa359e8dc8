package view

import (
	"context"
	"fmt"

	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/internal/readable"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
)

// visits adds the visits to the machines of a part's tasks.
func (b *Views) visits(ctx context.Context, s *story, d *Look, from int) error {
	if len(d.TaskList) == 0 {
		return nil
	}
	all, err := between[record.Visit](ctx, b.txns.Store, d.ID, "visit#", from, from+len(d.TaskList))
	if err != nil {
		return err
	}
	ends := map[[2]int]apitypes.Attempt{}
	for _, a := range d.Attempts {
		ends[[2]int{a.Task, a.Number}] = a
	}
	for _, v := range all {
		s.visit(v, ends[[2]int{v.Task, v.Attempt}], d.TaskList[v.Task-from].Name)
	}
	return nil
}

// visit adds one visit: what was opened, on which machine, and how it ended. Its content is not recorded.
func (s *story) visit(v record.Visit, of apitypes.Attempt, task string) {
	text := v.Kind
	switch {
	case v.Port > 0:
		text += fmt.Sprintf(" of port %d", v.Port)
	case v.What != "":
		text += fmt.Sprintf(" of `%s`", v.What)
	}
	text += fmt.Sprintf(" on attempt %d", v.Attempt)
	if of.Nodes > 1 {
		text += fmt.Sprintf(", rank %d", v.Rank)
	}
	ended, how := v.Ended, v.Reason
	if v.Exit != nil {
		how = fmt.Sprintf("exit code %d", *v.Exit)
	}
	if ended.IsZero() && !of.Ended.IsZero() {
		ended, how = of.Ended, "the attempt ended"
	}
	if ended.IsZero() {
		text += "; it is open"
	} else {
		text += fmt.Sprintf("; ended after %s: %s", readable.Rounded(ended.Sub(v.Opened)), how)
	}
	s.add(v.Opened, "visited", task, text)
}
