package dag

import "github.com/tradewind-broker/tradewind/internal/fault"

// Within is how close to each other the machines of a gang have to be. Across regions they reach each other by public
// addresses or not at all, and pay for what they say.
type Within string

// How close machines may be.
const (
	WithinZone     Within = "zone"
	WithinRegion   Within = "region"
	WithinAnywhere Within = "anywhere"
)

var withins = []Within{WithinZone, WithinRegion, WithinAnywhere}

// Check says what is wrong with a word that is none of them.
func (w Within) Check() error { return fault.CheckWord("distance", w, withins...) }

// Together returns the tasks of each gang with those that join it, as indexes, where their machines have to be close
// to each other, and how close that is.
func (j *Job) Together() map[string][]int {
	gangs := j.Gangs()
	for name, members := range gangs {
		members = append(members, j.Joining(name)...)
		if gangs[name] = members; len(members) < 2 || j.Tasks[members[0]].Within == WithinAnywhere {
			delete(gangs, name) // the machines of one task are in one place anyway
		}
	}
	return gangs
}
