package record

import (
	"slices"
	"time"

	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/dag"
)

// Past has the data that remain of a finished job. Only the Job record, with Past, stays after the job has expired or
// was removed: the ID is never given to another job, and usage counts the job as before.
type Past struct {
	// Summed means that Held is complete.
	Summed bool `json:"summed,omitempty"`
	// Held lists what the job's attempts held, in the order of their records.
	Held []Holding `json:"held,omitempty"`
	// Expires is when the job expires; zero means never.
	Expires time.Time `json:"expires,omitzero"`
	// Gone is when it expired or was removed.
	Gone time.Time `json:"gone,omitzero"`
	// ReadBy lists the jobs that read outputs of this one: reruns of its failed tasks. Its outputs stay as long as
	// theirs.
	ReadBy []string `json:"readBy,omitempty"`
}

// String returns a text about when the job expired or was removed.
func (p Past) String() string {
	if !p.Expires.IsZero() && !p.Gone.Before(p.Expires) {
		return "expired at " + p.Expires.Format(time.RFC3339)
	}
	return "was removed at " + p.Gone.Format(time.RFC3339)
}

// Holding is capacity that a finished job held for some time.
type Holding struct {
	From  time.Time `json:"from"`
	To    time.Time `json:"to"`
	Tasks float64   `json:"tasks"`
	VCPU  float64   `json:"vcpu,omitempty"`
}

// maxHoldings is the maximum number of Holdings of a job, so that its record stays small.
const maxHoldings = 240

// HoldingOf returns what an attempt of a job has held until now.
func HoldingOf(job Job, a *apitypes.Attempt, now time.Time) Holding {
	end := now
	switch {
	case !a.Ended.IsZero():
		end = a.Ended
	case job.State.Finished():
		end = job.Finished
	}
	if end.Before(a.Admitted) { // by the clock of another host
		end = a.Admitted
	}
	return Holding{From: a.Admitted, To: end, Tasks: 1, VCPU: a.VCPU}
}

// Sum returns what a job held. If there are too many Holdings, it returns averages over equal parts of the job's
// time.
func Sum(all []Holding) []Holding {
	if len(all) <= maxHoldings {
		return all
	}
	from, to := all[0].From, all[0].To
	for _, h := range all {
		if h.From.Before(from) {
			from = h.From
		}
		if h.To.After(to) {
			to = h.To
		}
	}
	part := max(to.Sub(from)/maxHoldings+1, 1)
	sum := make([]Holding, maxHoldings)
	for i := range sum {
		sum[i].From = from.Add(time.Duration(i) * part)
		sum[i].To = sum[i].From.Add(part)
	}
	for _, h := range all {
		for i := int(h.From.Sub(from) / part); i < maxHoldings && sum[i].From.Before(h.To); i++ {
			share := h.Within(sum[i].From, sum[i].To).Seconds() / part.Seconds()
			sum[i].Tasks += share * h.Tasks
			sum[i].VCPU += share * h.VCPU
		}
	}
	return slices.DeleteFunc(sum, func(h Holding) bool { return h.Tasks == 0 })
}

// Within returns the part of a Holding's time that is between two times.
func (h Holding) Within(from, to time.Time) time.Duration {
	if h.From.After(from) {
		from = h.From
	}
	if h.To.Before(to) {
		to = h.To
	}
	return max(to.Sub(from), 0)
}

// Expiry is the next step in removing a finished job.
type Expiry struct {
	Job string `json:"job"`
	// Expires is the time at which the job's records expire. The Expiry is due at once until all records have that
	// expiry, and then at that time.
	Expires time.Time `json:"expires,omitzero"`
	// Marked means that all records have it.
	Marked bool `json:"marked,omitempty"`
}

// keepsRecords is the time for which the records of an expired job may stay in the store. They are needed until the
// job's logs have been removed, because they name the logs.
const keepsRecords = 2 * 24 * time.Hour

// RecordsExpire returns the time at which the store removes the records of a job that expires.
func (e Expiry) RecordsExpire() time.Time { return e.Expires.Add(keepsRecords) }

// Expire makes a job that has just finished expire after a time. KeepForever means never. The caller writes the job.
func (d *Decision) Expire(job *Job, keep time.Duration) {
	if keep <= 0 {
		return
	}
	job.Past.Expires = job.Finished.Add(keep)
	d.Put(ExpiryKey(job.ID, job.Finished), Expiry{Job: job.ID, Expires: job.Past.Expires})
}

// Remove removes a finished job from all lists. Its Job record stays, and an Expiry removes everything else.
func (d *Decision) Remove(job Job, now time.Time) {
	job.Past.Gone = now
	d.PutJob(job)
	d.Del(IndexKey(job))
	d.Put(PastKey(job), JobIndex{ID: job.ID, Submitted: job.Submitted})
	d.Put(ExpiryKey(job.ID, now), Expiry{Job: job.ID, Marked: true})
}

// KeepOf returns how long a finished job is kept. Its file decides, or else its queue, the nearest queue above, or
// the broker. It is KeepForever if none of them states a time. tree has the job's queue and those above it.
func KeepOf(ofJob time.Duration, queue string, tree map[string]*apitypes.Queue, otherwise time.Duration) time.Duration {
	if ofJob != 0 {
		return ofJob
	}
	for range MaxTree {
		q := tree[queue]
		if q == nil {
			break
		}
		if keep, err := dag.ParseKeep(q.Keep); err == nil && keep != 0 {
			return keep
		}
		queue = q.Parent
	}
	if otherwise != 0 {
		return otherwise
	}
	return dag.KeepForever
}
