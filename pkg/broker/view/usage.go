package view

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/tradewind-broker/tradewind/pkg/broker/book"
	"github.com/tradewind-broker/tradewind/pkg/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/store"
)

// Usage is what queues held over a time, in steps of the same length.
type Usage struct {
	From      time.Time    `json:"from" doc:"When the first step begins"`
	StepHours float64      `json:"stepHours" doc:"How long a step is, hours"`
	Queues    []QueueUsage `json:"queues" nullable:"false" doc:"Queues that held something, by name"`
	Partial   bool         `json:"partial,omitempty" doc:"There were more jobs, or attempts, than were looked at: the newest are told"`
}

// QueueUsage is what one queue held, the mean of each step.
type QueueUsage struct {
	Name    string    `json:"name" doc:"Name of the queue"`
	Running []float64 `json:"running" nullable:"false" doc:"Tasks that held capacity, by step"`
	VCPUs   []float64 `json:"vcpus" nullable:"false" doc:"vCPUs that they held, by step"`
}

// How much is read to tell what queues held.
const (
	usageSteps    = 120
	usageJobs     = 500
	usageAttempts = 20_000
)

// Usage tells what the queues held in the last hours. It is summed up from the attempts of the newest jobs, so nothing
// is written for it: what was held is known for as long as the jobs are.
func (b *Views) Usage(ctx context.Context, last time.Duration) (Usage, error) {
	u := b.txns.NewUnit(ctx, "api")
	from := u.Now.Add(-last)
	sum := newHeld(from, u.Now)
	lines, more, err := b.txns.Store.Query(ctx, record.PartJobs, "", store.Page{Limit: usageJobs})
	if err != nil {
		return Usage{}, err
	}
	left := usageAttempts
	for some := range slices.Chunk(lines, record.MaxItems) {
		keys := make([]store.Key, len(some))
		for i, line := range some {
			_, id, _ := strings.Cut(line.Key.Sort, "#")
			keys[i] = record.JobKey(id)
		}
		if err := u.Preload(keys...); err != nil {
			return Usage{}, err
		}
		for _, key := range keys {
			job, found, err := book.Get[record.Job](u, key)
			if err != nil {
				return Usage{}, err
			}
			if !found || job.State.Over() && job.Finished.Before(from) {
				continue
			}
			if left <= 0 {
				more = true
				break
			}
			attempts, err := book.List[record.Attempt](u, record.JobPart(job.ID), "attempt#", left)
			if err != nil {
				return Usage{}, err
			}
			left -= len(attempts)
			for i := range attempts {
				sum.add(job, &attempts[i])
			}
		}
	}
	out := sum.told()
	out.Partial = more || left <= 0
	return out, nil
}

// held sums up what queues held.
type held struct {
	from, to time.Time
	step     time.Duration
	queues   map[string]*QueueUsage
}

func newHeld(from, to time.Time) *held {
	return &held{from: from, to: to, step: max(to.Sub(from)/usageSteps, time.Second), queues: map[string]*QueueUsage{}}
}

// add counts an attempt into each step, by how much of it it held capacity.
func (h *held) add(job record.Job, a *record.Attempt) {
	end := h.to
	switch {
	case !a.Ended.IsZero():
		end = a.Ended
	case job.State.Over():
		end = job.Finished
	}
	begin := a.Admitted
	if begin.Before(h.from) {
		begin = h.from
	}
	if end.After(h.to) {
		end = h.to
	}
	if !end.After(begin) {
		return
	}
	q := h.queues[job.Queue]
	if q == nil {
		q = &QueueUsage{Name: job.Queue, Running: make([]float64, usageSteps), VCPUs: make([]float64, usageSteps)}
		h.queues[job.Queue] = q
	}
	for i := int(begin.Sub(h.from) / h.step); i < usageSteps; i++ {
		at := h.from.Add(time.Duration(i) * h.step)
		if !at.Before(end) {
			break
		}
		share := float64(earlier(end, at.Add(h.step)).Sub(later(begin, at))) / float64(h.step)
		q.Running[i] += share
		q.VCPUs[i] += share * a.VCPU
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

func (h *held) told() Usage {
	out := Usage{From: h.from, StepHours: h.step.Hours(), Queues: []QueueUsage{}}
	for _, q := range h.queues {
		out.Queues = append(out.Queues, *q)
	}
	slices.SortFunc(out.Queues, func(a, b QueueUsage) int { return strings.Compare(a.Name, b.Name) })
	return out
}
