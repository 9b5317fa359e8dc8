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

// Standings are attempts with where their machines stand, as far as rules of placement know them: of one job, those of
// tasks that are spread or packed; of all jobs, those that have labels or keep apart from some. Whoever admits a task
// adds it in the same transaction, on the condition that the record is as it was read, so that no two are admitted
// against a rule. Nobody takes itself out: an attempt stands there until its record says how it ended and its cluster
// is released, and is forgotten when another one comes.
type Standings struct {
	At map[string]Stand `json:"at"` // by cluster
}

// Stand is where the machines of one attempt stand, and what rules know of it.
type Stand struct {
	Since  time.Time         `json:"since"`
	Spots  []Spot            `json:"spots"`
	Labels map[string]string `json:"labels,omitempty"`
	Apart  []dag.Placement   `json:"apart,omitempty"`
}

// Spot is where machines stand. What is not known is empty: in which racks those of clouds are. A machine that is
// bought is none that anything else runs on, and has no name here.
type Spot struct {
	Region  string `json:"region"` // aws:us-east-1
	Zone    string `json:"zone,omitempty"`
	Rack    string `json:"rack,omitempty"`
	Machine string `json:"machine,omitempty"` // pool/lab/m1
	Count   int    `json:"count"`             // machines
}

// PartStands has the Standings of all jobs, in standShards records.
const PartStands = "stands"

// standShards is into how many records the labels of all jobs are divided, so that sessions that admit tasks with other
// labels do not disturb each other. All of them, beside those of a gang of dag.MaxGang tasks, fit into a transaction.
const standShards = 4

// MaxStandsBytes bounds a record of standings. Nothing is added beyond.
const MaxStandsBytes = 300 << 10

// StandsKey is the key of a job's own Standings.
func StandsKey(job string) store.Key { return store.Key{Partition: JobPart(job), Sort: "stands"} }

// LabelStandsKey is the key of the Standings that know a label.
func LabelStandsKey(name, value string) store.Key {
	h := fnv.New32a()
	_, _ = h.Write([]byte(name + "=" + value))
	return store.Key{Partition: PartStands, Sort: strconv.Itoa(int(h.Sum32() % standShards))}
}

// LabelStandsKeys are the keys of the Standings that a task with these labels, and with these rules, has to do with.
func LabelStandsKeys(t *dag.Task) (keys []store.Key) {
	add := func(labels map[string]string) {
		for k, v := range labels {
			if key := LabelStandsKey(k, v); !slices.Contains(keys, key) {
				keys = append(keys, key)
			}
		}
	}
	add(t.Labels)
	for _, p := range t.Aparts() {
		add(p.Apart)
	}
	slices.SortFunc(keys, func(a, b store.Key) int { return cmp.Compare(a.Sort, b.Sort) })
	return keys
}

// SpotOf is where bought machines stand.
func SpotOf(o apitypes.Offer, machines int) Spot {
	return Spot{Region: Place(o), Zone: o.Zone, Count: machines}
}

// at is the place of a spot on a level, and whether it is known: of zones and racks with what they are in.
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

// Shares says whether two spots are in one place of a level, as far as that is known.
func (s Spot) Shares(other Spot, level dag.Level) bool {
	at, known := s.at(level)
	there, knownToo := other.at(level)
	return known && knownToo && at == there
}

// away says whether two spots are known to be in two places of a level: a rack's machines are in one zone.
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

// Placed is a stand with the task that it is of.
type Placed struct {
	Job  string
	Task int
	Stand
}

// PlacedAt are standings as a list, by cluster.
func (s Standings) PlacedAt() (out []Placed, clusters []string) {
	for _, id := range slices.Sorted(maps.Keys(s.At)) {
		task, _, ok := ClusterAttempt(id)
		if !ok {
			continue
		}
		out, clusters = append(out, Placed{Job: ClusterJob(id), Task: task, Stand: s.At[id]}), append(clusters, id)
	}
	return out, clusters
}

// IsPlaced says whether anything of a job has rules of placement, or labels that rules of others may know it by.
func IsPlaced(j *dag.Job) bool {
	for i := range j.Tasks {
		if t := &j.Tasks[i]; len(t.Placement) > 0 || len(t.Labels) > 0 {
			return true
		}
	}
	return len(j.Placement) > 0
}

// StandOf is what rules know of a task's machines at some spots.
func StandOf(t *dag.Task, spots []Spot, now time.Time) Stand {
	s := Stand{Since: now, Spots: spots, Labels: t.Labels}
	for _, p := range t.Aparts() {
		s.Apart = append(s.Apart, *p)
	}
	return s
}

// Clash is a rule that machines at some place would be against.
type Clash struct {
	Rule string // as a file has it
	With []int  // of others, as indexes, those that stand in the way
	Text string // what is in the way where that is no other; see Tell
}

// Clashes are the rules by which a task's machines are not to be at some spots beside others: those of its job that
// spread or pack it, and those of either by which jobs keep apart.
func Clashes(groups []dag.PlacementGroup, job string, task int, mine Stand, others []Placed) (out []Clash) {
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
			with = crowded(g.Spread, g.Most(), mine, others, there)
		}
		if with != nil {
			out = append(out, Clash{Rule: g.String(), With: with})
		}
	}
	for i := range others {
		o := &others[i]
		if o.Job == job {
			continue // tasks of one job are spread
		}
		if rule := keepsApart(mine, o.Stand); rule != nil {
			out = append(out, Clash{Rule: rule.String(), With: []int{i}})
		} else if rule := keepsApart(o.Stand, mine); rule != nil {
			out = append(out, Clash{Rule: "job " + o.Job + " keeps " + rule.String(), With: []int{i}})
		}
	}
	return out
}

// packedAway are those of others that are elsewhere than a stand.
func packedAway(level dag.Level, mine Stand, others []Placed, there []int) (with []int) {
	for _, i := range there {
		if slices.ContainsFunc(mine.Spots, func(s Spot) bool {
			return slices.ContainsFunc(others[i].Spots, func(o Spot) bool { return s.away(o, level) })
		}) {
			with = append(with, i)
		}
	}
	return with
}

// crowded are those of others that stand in a place with a stand that has more than so many machines then.
func crowded(level dag.Level, most int, mine Stand, others []Placed, there []int) (with []int) {
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

// keepsApart is the rule by which a stand is not to be where another one is; nil where there is none.
func keepsApart(s, other Stand) *dag.Placement {
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

// Tell says to people what rule keeps a task away, and what is in the way.
func (c Clash) Tell(spec *dag.Job, job string, others []Placed) string {
	if c.Text != "" {
		return c.Rule + ": " + c.Text
	}
	o := others[c.With[0]]
	name := "job " + o.Job
	if o.Job == job {
		name = spec.Tasks[o.Task].Name
	}
	return fmt.Sprintf("%s: %s is there", c.Rule, name)
}

// Minds says whether a task of a job keeps apart from what a stand has, or that from it, wherever they are.
func Minds(j *dag.Job, other Stand) bool {
	same := []Spot{{Region: "any", Zone: "any", Rack: "any", Machine: "any", Count: 1}}
	other.Spots = same
	return slices.ContainsFunc(j.Tasks, func(t dag.Task) bool {
		mine := StandOf(&t, same, other.Since)
		return keepsApart(mine, other) != nil || keepsApart(other, mine) != nil
	})
}

// IsRuled says whether a task has rules of placement, or labels by which those of others know it.
func IsRuled(t *dag.Task, groups []dag.PlacementGroup, task int) bool {
	return len(t.Labels) > 0 || len(t.Placement) > 0 || slices.ContainsFunc(groups, func(g dag.PlacementGroup) bool {
		return g.Has(task)
	})
}
