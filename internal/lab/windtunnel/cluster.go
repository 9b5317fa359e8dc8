package windtunnel

import (
	"math"
	"math/rand/v2"
)

// cluster is the true state: which slots are free, by partition and grade, and when taken slots become free.
type cluster struct {
	grades    []grade
	free      [][]int32 // by partition·grades + grade
	place     []int32   // index of a slot in its list of free slots; -1 if taken
	cell      []int32   // partition·grades + grade of a slot
	ends      [][]int32 // ring by turn: slots that become free in the turn
	freeTotal int
	freeGrade []int // free slots by grade
	total     []int // slots by grade
}

// longest is the maximum number of turns that a task can take.
const longest = 1 << 15

// newCluster distributes slots to partitions and, at random by the shares of the grades, to grades.
func newCluster(c Config, random *rand.Rand) *cluster {
	grades, draw := gradesOf(c.ScoreVariance), quantiles(c, random)
	k := &cluster{
		grades: grades, free: make([][]int32, c.Partitions*len(grades)), place: make([]int32, c.Slots),
		cell: make([]int32, c.Slots),
		ends: make([][]int32, longest), freeGrade: make([]int, len(grades)), total: make([]int, len(grades)),
	}
	scale := 0
	for slot := range c.Slots {
		u, g := draw(scale%c.Partitions), 0
		for g < len(grades)-1 && u >= grades[g].Share {
			u -= grades[g].Share
			g++
		}
		k.cell[slot] = int32(scale%c.Partitions*len(grades) + g) //nolint:gosec // at most 10,000 · 64
		scale++
		k.total[g]++
		k.release(int32(slot)) //nolint:gosec // at most ten million
	}
	return k
}

// quantiles returns a function that draws the quantile of the score of a slot in a partition. The scores of all slots
// are spread evenly; those of a partition correlate by c.Alike (a Gaussian copula).
func quantiles(c Config, random *rand.Rand) func(partition int) float64 {
	if c.Alike == 0 {
		return func(int) float64 { return random.Float64() }
	}
	centre := make([]float64, c.Partitions)
	for i, p := range random.Perm(c.Partitions) {
		centre[p] = math.Sqrt2 * math.Erfinv(2*(float64(i)+0.5)/float64(c.Partitions)-1)
	}
	common, own := math.Sqrt(c.Alike), math.Sqrt(1-c.Alike)
	return func(p int) float64 {
		z := common*centre[p] + own*random.NormFloat64()
		return 0.5 + math.Erf(z/math.Sqrt2)/2
	}
}

// partition returns the free slots of a partition by grade.
func (k *cluster) partition(p int) [][]int32 {
	n := len(k.grades)
	return k.free[p*n : (p+1)*n]
}

// take commits a slot until the turn end. It returns false if the slot is taken.
func (k *cluster) take(slot int32, end uint64) bool {
	at := k.place[slot]
	if at < 0 {
		return false
	}
	cell := k.cell[slot]
	list := k.free[cell]
	last := len(list) - 1
	moved := list[last]
	list[at] = moved
	k.place[moved] = at
	k.free[cell] = list[:last]
	k.place[slot] = -1
	k.freeTotal--
	k.freeGrade[k.grade(slot)]--
	ring := end % longest
	k.ends[ring] = append(k.ends[ring], slot)
	return true
}

func (k *cluster) grade(slot int32) int { return int(k.cell[slot]) % len(k.grades) }

// release frees a slot.
func (k *cluster) release(slot int32) {
	cell := k.cell[slot]
	k.place[slot] = int32(len(k.free[cell])) //nolint:gosec // at most ten million
	k.free[cell] = append(k.free[cell], slot)
	k.freeTotal++
	k.freeGrade[k.grade(slot)]++
}

// turn frees the slots whose tasks end in a turn.
func (k *cluster) turn(now uint64) {
	ring := now % longest
	for _, slot := range k.ends[ring] {
		k.release(slot)
	}
	k.ends[ring] = k.ends[ring][:0]
}

// ideal returns the mean score that the taken slots would have if they were the best ones.
func (k *cluster) ideal() float64 {
	left, sum, n := len(k.place)-k.freeTotal, 0.0, 0
	for g, total := range k.total {
		take := min(left, total)
		sum += float64(take) * k.grades[g].Score
		n += take
		left -= take
	}
	if n == 0 {
		return k.grades[0].Score
	}
	return sum / float64(n)
}
