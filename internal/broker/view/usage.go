package view

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/internal/broker/recordcache"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/store"
)

// Limits of the data that Usage reads.
const (
	usageSteps    = 120
	usageJobs     = 500
	usageAttempts = 20_000
)

// Usage returns the use of the queues in the last hours. It is calculated from the attempts of the newest jobs, and
// for finished jobs from what their records keep, so it costs no writes. It is the same before and after a finished
// job is removed.
func (b *Views) Usage(ctx context.Context, last time.Duration) (apitypes.Usage, error) {
	u := b.txns.NewUnit(ctx, "api")
	from := u.Now.Add(-last)
	sum := newHeld(from, u.Now)
	lines, more, err := b.newest(ctx, usageJobs)
	if err != nil {
		return apitypes.Usage{}, err
	}
	left, bought := usageAttempts, false
	for some := range slices.Chunk(lines, record.MaxItems) {
		keys := make([]store.Key, len(some))
		for i, line := range some {
			_, id, _ := strings.Cut(line, "#")
			keys[i] = record.JobKey(id)
		}
		if err := u.Preload(keys...); err != nil {
			return apitypes.Usage{}, err
		}
		for _, key := range keys {
			job, found, err := recordcache.Get[record.Job](u, key)
			if err != nil {
				return apitypes.Usage{}, err
			}
			if !found || job.State.Finished() && job.Finished.Before(from) {
				continue
			}
			held := job.Past.Held
			if !job.Past.Summed {
				if left <= 0 {
					more = true
					break
				}
				attempts, err := recordcache.List[apitypes.Attempt](u, record.JobPart(job.ID), "attempt#", left)
				if err != nil {
					return apitypes.Usage{}, err
				}
				left -= len(attempts)
				for i := range attempts {
					held = append(held, record.HoldingOf(job, &attempts[i], u.Now))
				}
			}
			bought = bought || len(held) > 0 && !b.simulated(job)
			for _, h := range held {
				sum.add(job.Queue, h)
			}
		}
	}
	out := sum.usage()
	out.Partial = more || left <= 0
	out.Simulated = len(out.Queues) > 0 && !bought
	return out, nil
}

// newest returns the sort keys of the newest jobs, the newest first. It includes jobs that are gone.
func (b *Views) newest(ctx context.Context, limit int) (keys []string, more bool, err error) {
	for _, part := range []string{record.PartJobs, record.PartPast} {
		lines, others, err := b.txns.Store.Query(ctx, part, "", store.Page{Limit: limit})
		if err != nil {
			return nil, false, err
		}
		more = more || others
		for _, line := range lines {
			keys = append(keys, line.Key.Sort)
		}
	}
	slices.Sort(keys)
	keys = slices.Compact(keys) // a job that was removed between both reads
	if len(keys) > limit {
		keys, more = keys[:limit], true
	}
	return keys, more, nil
}

// usageSum sums up the use of queues.
type usageSum struct {
	from, to time.Time
	step     time.Duration
	queues   map[string]*apitypes.QueueUsage
}

func newHeld(from, to time.Time) *usageSum {
	return &usageSum{
		from:   from,
		to:     to,
		step:   max(to.Sub(from)/usageSteps, time.Second),
		queues: map[string]*apitypes.QueueUsage{},
	}
}

// add counts the use of a queue's job in each step, by the part of the step in which the job held it.
func (h *usageSum) add(queue string, held record.Holding) {
	begin, end := later(held.From, h.from), earlier(held.To, h.to)
	if !end.After(begin) {
		return
	}
	q := h.queues[queue]
	if q == nil {
		q = &apitypes.QueueUsage{
			Name:    queue,
			Running: make([]float64, usageSteps),
			VCPUs:   make([]float64, usageSteps),
		}
		h.queues[queue] = q
	}
	for i := int(begin.Sub(h.from) / h.step); i < usageSteps; i++ {
		at := h.from.Add(time.Duration(i) * h.step)
		if !at.Before(end) {
			break
		}
		share := float64(held.Within(at, at.Add(h.step))) / float64(h.step)
		q.Running[i] += share * held.Tasks
		q.VCPUs[i] += share * held.VCPU
	}
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

func later(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}

func (h *usageSum) usage() apitypes.Usage {
	out := apitypes.Usage{From: h.from, StepHours: h.step.Hours(), Queues: []apitypes.QueueUsage{}}
	for _, q := range h.queues {
		out.Queues = append(out.Queues, *q)
	}
	slices.SortFunc(out.Queues, func(a, b apitypes.QueueUsage) int { return strings.Compare(a.Name, b.Name) })
	return out
}
