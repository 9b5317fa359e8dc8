package sim

import (
	"path"
	"slices"
	"strconv"
	"strings"
)

// bucket is where agents keep checkpoints. A checkpoint is the share of the work it holds.
type bucket struct {
	checkpoints map[string][]saved // by the task's prefix
	accepted    map[string]float64 // by the task's prefix: the most progress that the broker has taken note of
}

type saved struct {
	prefix   string
	seq      int
	progress float64
}

func newBucket() *bucket {
	return &bucket{checkpoints: map[string][]saved{}, accepted: map[string]float64{}}
}

func (b *bucket) save(task string, s saved) { b.checkpoints[task] = append(b.checkpoints[task], s) }

// load finds a checkpoint by its prefix.
func (b *bucket) load(prefix string) (saved, bool) {
	task := path.Dir(path.Dir(strings.TrimSuffix(prefix, "/")))
	list := b.checkpoints[task]
	if i := slices.IndexFunc(list, func(s saved) bool { return s.prefix == prefix }); i >= 0 {
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
		return old.seq <= s.seq-keep && old.prefix != begun
	})
}

func reportID(attempt string, rank, n int) string {
	return attempt + "/" + strconv.Itoa(rank) + "/" + strconv.Itoa(n)
}
