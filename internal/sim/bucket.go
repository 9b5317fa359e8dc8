package sim

import (
	"slices"
	"strconv"
)

// bucket is where agents keep checkpoints. A checkpoint is the share of the work it holds.
type bucket struct {
	checkpoints map[string][]saved // by the task's prefix
	accepted    map[string]float64 // by the task's prefix: the most progress that the broker has taken note of
}

type saved struct {
	uri      string // where it lies
	seq      int
	progress float64
}

func newBucket() *bucket {
	return &bucket{checkpoints: map[string][]saved{}, accepted: map[string]float64{}}
}

func (b *bucket) save(task string, s saved) { b.checkpoints[task] = append(b.checkpoints[task], s) }

// load finds a checkpoint of a task by where it lies.
func (b *bucket) load(task, uri string) (saved, bool) {
	list := b.checkpoints[task]
	if i := slices.IndexFunc(list, func(s saved) bool { return s.uri == uri }); i >= 0 {
		return list[i], true
	}
	return saved{}, false
}

// keepCheckpoints is how many an agent keeps: the last and the one before it.
const keepCheckpoints = 2

// accept notes that the broker has taken note of a checkpoint, upon which an agent removes older ones, whoever saved
// them, but for the one that nodes of its own attempt may still have to read.
func (b *bucket) accept(task string, s saved, keep int, begun string) {
	b.accepted[task] = max(b.accepted[task], s.progress)
	b.checkpoints[task] = slices.DeleteFunc(b.checkpoints[task], func(old saved) bool {
		return old.seq <= s.seq-keep && old.uri != begun
	})
}

func reportID(attempt string, rank, n int) string {
	return attempt + "/" + strconv.Itoa(rank) + "/" + strconv.Itoa(n)
}
