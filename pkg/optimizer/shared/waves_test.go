package shared

import (
	"math"
	"reflect"
	"testing"

	"pgregory.net/rapid"
)

// TestWavesAreScheduleOfEarliestEnds: the schedule of equal tasks that is built in waves must equal the schedule that
// is built task by task.
func TestWavesAreScheduleOfEarliestEnds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := &Model{Places: []string{"p"}, USDPerGiB: [][]float64{{0}}, HoursPerGiB: [][]float64{{0}}, Machines: []Machine{{
			ID: "m", CPUs: rapid.Float64Range(1, 9).Draw(t, "cpus"), MemoryGiB: rapid.Float64Range(2, 9).Draw(t, "memory"),
			Speed: rapid.SampledFrom([]float64{1, 0.7, 1.3}).Draw(t, "speed"), BootHours: rapid.Float64Range(0, 0.1).Draw(t, "boot"),
			USDPerHour: 0.1, Most: 100,
		}}}
		task := Task{
			Hours: rapid.Float64Range(0, 0.3).Draw(t, "hours"), CPUs: rapid.SampledFrom([]float64{0, 0.3, 1}).Draw(t, "need"),
			MemoryGiB: rapid.Float64Range(0, 2).Draw(t, "GiB"),
		}
		for i := range rapid.IntRange(1, 60).Draw(t, "tasks") {
			task.ID = string(rune('A' + i))
			m.Tasks = append(m.Tasks, task)
		}
		count := rapid.IntRange(1, 5).Draw(t, "instances")
		l, err := linkTasks(m)
		if err != nil {
			t.Fatal(err)
		}
		p := compile(m, l, []int{0})
		if !p.alike {
			t.Fatal("the tasks are alike")
		}
		ends := p.listEnd(p.byPath(), count)
		fast, slow := newBuilder(p), newBuilder(p)
		var got, want schedule
		fast.identical(&got, p.ranks(0), 0, count)
		p.alike = false
		slow.identical(&want, p.ranks(0), 0, count)
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("%+v, not\n%+v", got, want)
		}
		for i := range got.kinds {
			if !reflect.DeepEqual(fast.slots[i], slow.slots[i]) {
				t.Fatalf("instance %d: %+v, not\n%+v", i, fast.slots[i], slow.slots[i])
			}
		}
		if end := p.listEnd(p.byPath(), count); math.Abs(end-ends) > 1e-9 {
			t.Fatalf("a list schedule of width %d ends at %v, not %v", count, ends, end)
		}
	})
}
