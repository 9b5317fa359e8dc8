package cli

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/internal/cli/text"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
)

// Table returns a table of queues: their quotas, shares and usage, including child queues.
func Table(queues ...apitypes.Queue) *text.Table {
	t := &text.Table{Columns: []text.Column{
		{Name: "QUEUE", Flexible: true}, {Name: "RUNNING", Right: true}, {Name: "MAX RUNNING", Right: true},
		{Name: "VCPUS", Right: true}, {Name: "MAX VCPUS", Right: true}, {Name: "PARENT", Flexible: true, Optional: 2},
		{Name: "WEIGHT", Right: true, Optional: 2}, {Name: "DESERVED", Right: true, Optional: 2},
		{Name: "GUARANTEED", Right: true, Optional: 2}, {Name: "DESCRIPTION", Flexible: true, Optional: 1},
	}}
	for _, q := range withChildUsage(queues) {
		t.Row(
			q.Name,
			fmt.Sprint(q.Running),
			formatLimit(float64(q.MaxRunning)),
			text.Number(q.VCPU),
			formatLimit(q.MaxVCPU),
			q.Parent,
			formatLimit(float64(q.Weight)),
			formatLimit(q.DeservedVCPU),
			formatLimit(q.GuaranteedVCPU),
			text.Clean(describeQueue(q)),
		)
	}
	return t
}

// withChildUsage adds to each queue the use of its child queues, which counts against its limits, too.
func withChildUsage(queues []apitypes.Queue) []apitypes.Queue {
	all, tree := slices.Clone(queues), record.Pointers(queues)
	for i, q := range tree {
		all[i].Running, all[i].Use = record.UseOf(tree, q)
		all[i].VCPU = all[i].Use[apitypes.VCPUs]
	}
	return all
}

// describeQueue returns a queue's description and anything unusual about it.
func describeQueue(q apitypes.Queue) string {
	var words []string
	if q.Description != "" {
		words = append(words, q.Description)
	}
	switch at := q.Suspended.Since; {
	case q.Closed && !at.IsZero() && q.Suspended.By != "":
		words = append(words, fmt.Sprintf("suspended by %s since %s", q.Suspended.By, at.Format(time.DateTime)))
	case q.Closed && !at.IsZero():
		words = append(words, "suspended since "+at.Format(time.DateTime))
	case q.Closed:
		words = append(words, "closed")
	}
	if q.Preempt {
		words = append(words, "preempts")
	}
	if q.Keep != "" {
		words = append(words, "keeps jobs "+q.Keep)
	}
	if more := Describe(&q); more != "" {
		words = append(words, more)
	}
	return strings.Join(words, ", ")
}

// formatLimit formats a limit; 0 means none.
func formatLimit(v float64) string {
	if v == 0 {
		return "-"
	}
	return text.Number(v)
}
