package dag

import "github.com/tradewind-broker/tradewind/internal/base/fault"

// Within is the maximum distance between the machines of a gang. In different regions, machines reach each other only
// by public addresses, if at all, and their traffic costs money.
type Within string

// The distances.
const (
	WithinZone     Within = "zone"
	WithinRegion   Within = "region"
	WithinAnywhere Within = "anywhere"
)

var withins = []Within{WithinZone, WithinRegion, WithinAnywhere}

// Check returns an error if w is not one of the distances.
func (w Within) Check() error { return fault.CheckWord("distance", w, withins...) }

// Together returns the gangs whose machines must be close to each other: the tasks of each gang and those that join
// it, as indexes.
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
