package record

import "time"

// Update is the last update of a job's services: another spec, by which one replica after the other is replaced. Where
// the first of them does not become ready the job goes on by the spec of before, as what Failed says why.
type Update struct {
	Spec   int       `json:"spec" doc:"Version of what the services are, 1 before the first update"`
	Plan   int       `json:"plan" doc:"The first plan that is made for it"`
	Since  time.Time `json:"since" doc:"When somebody asked for it"`
	Done   time.Time `json:"done,omitzero" doc:"When all replicas were replaced"`
	Failed string    `json:"failed,omitempty" doc:"Why it was stopped: the services go on as they were before"`
}

// Open says that there may be replicas that are still to be replaced.
func (u *Update) Open() bool { return u.Spec > 0 && u.Done.IsZero() }

// SpecFor is the spec that an attempt is made by that was admitted under a plan.
func (j *Job) SpecFor(plan int) Blob {
	if j.Update.Spec == j.Spec.Version && plan < j.Update.Plan && !j.Was.IsZero() {
		return j.Was // its machines were chosen for that
	}
	return j.Spec
}

// Updated has a job go by another spec from now on.
func (j *Job) Updated(spec Blob, now time.Time) {
	j.Was, j.Spec = j.Spec, spec
	j.Update = Update{Spec: spec.Version, Plan: j.Plan.Version + 1, Since: now}
}

// NextSpec is the version of the next spec.
func (j *Job) NextSpec() int { return max(j.Spec.Version, j.Was.Version) + 1 }

// StopUpdate has a job go by the spec of before its last update.
func (j *Job) StopUpdate(why string) {
	j.Was, j.Spec = j.Spec, j.Was
	j.Update.Failed = Clip(why)
}
