package record

import (
	"slices"
	"time"

	"github.com/tradewind-broker/tradewind/internal/readable"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
)

// maxWas is the number of previous specs that are kept, because replicas may still run them when updates follow each
// other fast.
const maxWas = 8

// SpecAt returns a version of the spec, or the current spec if that version is not kept any more.
func (j *Job) SpecAt(version int) Blob {
	for _, was := range j.Was {
		if was.Version == version && version > 0 {
			return was
		}
	}
	return j.Spec
}

// SpecFor returns the spec for an attempt that was admitted under a plan.
func (j *Job) SpecFor(plan int) Blob {
	if j.Update.Spec == j.Spec.Version && plan < j.Update.Plan {
		return j.SpecAt(j.Update.Before) // its machines were chosen for that spec
	}
	return j.Spec
}

// Updated starts an update of the job to another spec.
func (j *Job) Updated(spec Blob, now time.Time) {
	j.Update = apitypes.Update{Spec: spec.Version, Before: j.Spec.Version, Plan: j.Plan.Version + 1, Since: now}
	j.setSpec(spec)
}

// setSpec sets the job's spec and keeps the previous one in Was.
func (j *Job) setSpec(spec Blob) {
	was := slices.DeleteFunc(slices.Clone(j.Was), func(b Blob) bool { return b.Version == spec.Version })
	was = append(was, j.Spec)
	j.Was, j.Spec = was[max(len(was)-maxWas, 0):], spec
}

// NextSpec is the version of the next spec.
func (j *Job) NextSpec() int {
	last := j.Spec.Version
	for _, was := range j.Was {
		last = max(last, was.Version)
	}
	return last + 1
}

// StopUpdate returns the job to the spec before its last update.
func (j *Job) StopUpdate(why string) {
	j.setSpec(j.SpecAt(j.Update.Before))
	j.Update.Failed = readable.ClipMessage(why)
}
