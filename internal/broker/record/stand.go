package record

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/dag"
	"github.com/tradewind-broker/tradewind/pkg/store"
)

// Locations has the locations of machines to which placement rules refer. The record of a job has those of its tasks
// that are spread or packed. The records for all jobs have those of tasks that have labels or keep apart from labels.
// An admission adds its task in the same transaction, on the condition that the record has not changed, so no two
// admissions together violate a rule. An entry is not removed when its attempt ends: a later admission drops it,
// because the attempt and its cluster show the end.
type Locations struct {
	At map[string]Location `json:"at"` // by cluster
}

// Location is the location of the machines of one attempt, with the labels that placement rules use.
type Location struct {
	Since  time.Time         `json:"since"`
	Spots  []Spot            `json:"spots"`
	Labels map[string]string `json:"labels,omitempty"`
	Apart  []dag.Placement   `json:"apart,omitempty"`
}

// Spot is a location of machines. Unknown parts are empty, such as the racks of cloud machines. Machine is empty for
// a bought machine, because nothing else runs on it.
type Spot struct {
	Region  string `json:"region"` // aws:us-east-1
	Zone    string `json:"zone,omitempty"`
	Rack    string `json:"rack,omitempty"`
	Machine string `json:"machine,omitempty"` // pool/lab/m1
	Count   int    `json:"count"`             // machines
}

// PartStands is the partition of the Locations of all jobs, in standShards records.
const PartStands = "stands"

// standShards is the number of records into which the labels of all jobs are divided, so that sessions that admit
// tasks with different labels rarely conflict. All of these records and a gang of dag.MaxGang tasks fit into one
// transaction.
const standShards = 4

// MaxStandsBytes is the maximum size of a Locations record. Nothing is added beyond it.
const MaxStandsBytes = 300 << 10

// StandsKey is the key of the Locations of a job.
func StandsKey(job string) store.Key { return store.Key{Partition: JobPart(job), Sort: "stands"} }

// LabelStandsKey is the key of the Locations for a label.
func LabelStandsKey(name, value string) store.Key {
	h := fnv.New32a()
	_, _ = h.Write([]byte(name + "=" + value))
	return store.Key{Partition: PartStands, Sort: strconv.Itoa(int(h.Sum32() % standShards))}
}

// LabelStandsKeys are the keys of the Locations for the labels that a task has or that its rules name.
func LabelStandsKeys(t *dag.Task) (keys []store.Key) {
	add := func(labels map[string]string) {
		for k, v := range labels {
			if key := LabelStandsKey(k, v); !slices.Contains(keys, key) {
				keys = append(keys, key)
			}
		}
	}
	add(t.Labels)
	for _, p := range t.ApartRules() {
		add(p.Apart)
	}
	slices.SortFunc(keys, func(a, b store.Key) int { return cmp.Compare(a.Sort, b.Sort) })
	return keys
}

// SpotOf returns the location of bought machines.
func SpotOf(o apitypes.Offer, machines int) Spot {
	return Spot{Region: Place(o), Zone: o.Zone, Count: machines}
}

// at returns the place of a spot at a level, including the wider levels. known is false if the spot has no place at
// that level.
func (s Spot) at(level dag.Level) (place string, known bool) {
	switch level {
	case dag.LevelRegion:
		return s.Region, true
	case dag.LevelZone:
		return s.Region + "/" + s.Zone, true
	case dag.LevelRack:
		return s.Region + "/" + s.Zone + "/" + s.Rack, s.Rack != ""
	case dag.LevelMachine:
		return s.Machine, s.Machine != ""
	}
	return "", false
}

// Shares reports whether two spots are known to be in the same place of a level.
func (s Spot) Shares(other Spot, level dag.Level) bool {
	at, known := s.at(level)
	there, knownToo := other.at(level)
	return known && knownToo && at == there
}

// away reports whether two spots are known to be in different places of a level, for example because their racks are
// in different zones.
func (s Spot) away(other Spot, level dag.Level) bool {
	for _, l := range dag.Levels() {
		at, known := s.at(l)
		there, knownToo := other.at(l)
		if known && knownToo && at != there {
			return true
		}
		if l == level {
			return false
		}
	}
	return false
}

// Placed is a task with the location of its machines.
type Placed struct {
	Job  string
	Task int
	Location
}

// PlacedAt lists the locations with their tasks, and their cluster IDs in the same order.
func (s Locations) PlacedAt() (out []Placed, clusters []string) {
	for _, id := range slices.Sorted(maps.Keys(s.At)) {
		task, _, ok := ClusterAttempt(id)
		if !ok {
			continue
		}
		out, clusters = append(out, Placed{Job: ClusterJob(id), Task: task, Location: s.At[id]}), append(clusters, id)
	}
	return out, clusters
}

// IsPlaced reports whether a job has placement rules, or labels that rules of other jobs may refer to.
func IsPlaced(j *dag.Job) bool {
	for i := range j.Tasks {
		if t := &j.Tasks[i]; len(t.Placement) > 0 || len(t.Labels) > 0 {
			return true
		}
	}
	return len(j.Placement) > 0
}

// LocationOf makes the location of a task's machines from their spots.
func LocationOf(t *dag.Task, spots []Spot, now time.Time) Location {
	s := Location{Since: now, Spots: spots, Labels: t.Labels}
	for _, p := range t.ApartRules() {
		s.Apart = append(s.Apart, *p)
	}
	return s
}

// Clash is a rule that machines at a place would violate.
type Clash struct {
	Rule string // as in the job file
	With []int  // indexes of the conflicting tasks in others
	Text string // the conflict, if it is not with other tasks; see Tell
}

// Clashes returns the rules that a task's machines would violate at some spots, given the locations of other tasks.
// These are rules of the task's job that spread or pack it, and rules of either job that keep tasks apart.
func Clashes(groups []dag.PlacementGroup, job string, task int, mine Location, others []Placed) (out []Clash) {
	for _, g := range groups {
		if !g.Has(task) {
			continue
		}
		var there []int
		for i := range others {
			if o := &others[i]; o.Job == job && o.Task != task && g.Has(o.Task) {
				there = append(there, i)
			}
		}
		var with []int
		if g.Pack != "" {
			with = packedAway(g.Pack, mine, others, there)
		} else {
			with = crowded(g.Spread, g.MaxPerPlace(), mine, others, there)
		}
		if with != nil {
			out = append(out, Clash{Rule: g.String(), With: with})
		}
	}
	for i := range others {
		o := &others[i]
		if o.Job == job {
			continue // tasks of the same job have spread rules for this
		}
		if rule := keepsApart(mine, o.Location); rule != nil {
			out = append(out, Clash{Rule: rule.String(), With: []int{i}})
		} else if rule := keepsApart(o.Location, mine); rule != nil {
			out = append(out, Clash{Rule: "job " + o.Job + " keeps " + rule.String(), With: []int{i}})
		}
	}
	return out
}

// packedAway returns those of others that are in another place than mine.
func packedAway(level dag.Level, mine Location, others []Placed, there []int) (with []int) {
	for _, i := range there {
		if slices.ContainsFunc(mine.Spots, func(s Spot) bool {
			return slices.ContainsFunc(others[i].Spots, func(o Spot) bool { return s.away(o, level) })
		}) {
			with = append(with, i)
		}
	}
	return with
}

// crowded returns those of others that are in the same place as mine, if more than most machines would then be there.
func crowded(level dag.Level, most int, mine Location, others []Placed, there []int) (with []int) {
	for _, s := range mine.Spots {
		at, known := s.at(level)
		if !known {
			continue
		}
		count := inPlace(mine.Spots, level, at)
		var in []int
		for _, i := range there {
			if n := inPlace(others[i].Spots, level, at); n > 0 {
				count += n
				in = append(in, i)
			}
		}
		if count > most && in != nil {
			return in
		}
	}
	return nil
}

func inPlace(spots []Spot, level dag.Level, place string) (n int) {
	for _, s := range spots {
		if at, known := s.at(level); known && at == place {
			n += s.Count
		}
	}
	return n
}

// keepsApart returns the rule by which s must not be in the place of other, or nil.
func keepsApart(s, other Location) *dag.Placement {
	for i := range s.Apart {
		rule := &s.Apart[i]
		knows := false
		for k, v := range rule.Apart {
			knows = knows || other.Labels[k] == v
		}
		if knows && slices.ContainsFunc(s.Spots, func(a Spot) bool {
			return slices.ContainsFunc(other.Spots, func(b Spot) bool { return a.Shares(b, rule.Level()) })
		}) {
			return rule
		}
	}
	return nil
}

// Explain returns a text for users about the rule that keeps a task away and the conflicting task.
func (c Clash) Explain(spec *dag.Job, job string, others []Placed) string {
	if c.Text != "" {
		return c.Rule + ": " + c.Text
	}
	o := others[c.With[0]]
	name := "job " + o.Job
	if o.Job == job {
		name = spec.Tasks[o.Task].Name
	}
	return fmt.Sprintf("%s: %s runs there", c.Rule, name)
}

// KeepsApart reports whether an apart rule of a job's task forbids it to share a place with the task at other, or the
// reverse. It does not depend on where the two tasks are.
func KeepsApart(j *dag.Job, other Location) bool {
	same := []Spot{{Region: "any", Zone: "any", Rack: "any", Machine: "any", Count: 1}}
	other.Spots = same
	return slices.ContainsFunc(j.Tasks, func(t dag.Task) bool {
		mine := LocationOf(&t, same, other.Since)
		return keepsApart(mine, other) != nil || keepsApart(other, mine) != nil
	})
}

// IsRuled reports whether a task has placement rules, or labels to which rules of other tasks may refer.
func IsRuled(t *dag.Task, groups []dag.PlacementGroup, task int) bool {
	return len(t.Labels) > 0 || len(t.Placement) > 0 || slices.ContainsFunc(groups, func(g dag.PlacementGroup) bool {
		return g.Has(task)
	})
}
