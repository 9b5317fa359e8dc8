// Package tally counts the instances of each app on a machine.
package tally

// Counts counts the instances of each app on one machine. It is a small open hash table, because a machine holds few
// of very many apps and most lookups are for apps that it does not hold.
type Counts struct {
	app  []int32 // app + 1, or 0 for an empty slot; the length is a power of two
	n    []int32
	used int
}

const (
	firstSlots = 64
	hashing    = 0x9E3779B1
)

func (c *Counts) slot(app int32) int {
	mask := len(c.app) - 1
	i := int(uint32(app)*hashing>>16) & mask //nolint:gosec // a hash
	for c.app[i] != 0 && c.app[i] != app+1 {
		i = (i + 1) & mask
	}
	return i
}

// Get returns the count of an app.
func (c *Counts) Get(app int32) int32 {
	if len(c.app) == 0 {
		return 0
	}
	return c.n[c.slot(app)]
}

// Add changes a count. An app whose count falls to 0 keeps its slot until the table is rebuilt.
func (c *Counts) Add(app, by int32) {
	if 2*(c.used+1) > len(c.app) {
		c.rebuild()
	}
	i := c.slot(app)
	if c.app[i] == 0 {
		c.app[i] = app + 1
		c.used++
	}
	c.n[i] += by
}

// rebuild drops apps with a count of 0 and makes room.
func (c *Counts) rebuild() {
	live := 0
	for _, n := range c.n {
		if n > 0 {
			live++
		}
	}
	size := firstSlots
	for size < 4*(live+1) {
		size *= 2
	}
	old := *c
	*c = Counts{app: make([]int32, size), n: make([]int32, size)}
	for i, app := range old.app {
		if app != 0 && old.n[i] > 0 {
			j := c.slot(app - 1)
			c.app[j], c.n[j] = app, old.n[i]
			c.used++
		}
	}
}
