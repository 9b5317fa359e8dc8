package scheduler_test

import (
	"errors"
	"strings"
	"testing"

	. "github.com/tradewind-broker/tradewind/pkg/scheduler"
)

// A contradictory snapshot must be rejected with the name of the field. Values at a limit must be accepted.
func TestOpenValidatesSnapshot(t *testing.T) {
	const ofTask = "jobs[0].tasks[0].devices"
	names := func(n int) (out []string) {
		for range n {
			out = append(out, "r")
		}
		return out
	}
	spec := func(s *Snapshot) *Spec { return s.Jobs[0].Tasks[0].Spec }
	for name, c := range map[string]struct {
		change func(s *Snapshot)
		field  string // empty: no error
	}{
		"unchanged":             {func(*Snapshot) {}, ""},
		"maximum of resources":  {func(s *Snapshot) { s.Resources = names(MaxResources) }, ""},
		"too many resources":    {func(s *Snapshot) { s.Resources = names(MaxResources + 1) }, "resources"},
		"GPUs last":             {func(s *Snapshot) { s.GPU = 2 }, ""},
		"GPU index too large":   {func(s *Snapshot) { s.GPU = 3 }, "resources"},
		"GPUs first":            {func(s *Snapshot) { s.GPU, s.Nodes[0].Devices = 0, 1 }, ""},
		"maximum of GPUs":       {func(s *Snapshot) { s.Nodes[0].Devices = 64 }, ""},
		"too many GPUs":         {func(s *Snapshot) { s.Nodes[0].Devices = 65 }, "nodes[0].devices"},
		"negative GPUs":         {func(s *Snapshot) { s.Nodes[0].Devices = -1 }, "nodes[0].devices"},
		"no GPUs, not counted":  {func(s *Snapshot) { s.GPU, s.Nodes[0].Devices = -1, 0 }, ""},
		"GPUs, not counted":     {func(s *Snapshot) { s.GPU, s.Nodes[0].Devices = -1, 1 }, "nodes[0].devices"},
		"empty capacity":        {func(s *Snapshot) { s.Nodes[0].Capacity = Vector{} }, ""},
		"negative capacity":     {func(s *Snapshot) { s.Nodes[0].Capacity[1] = -1 }, "nodes[0].capacity[1]"},
		"a node twice":          {func(s *Snapshot) { s.Nodes = append(s.Nodes, s.Nodes[0]) }, "nodes[1].name"},
		"a queue below another": {func(s *Snapshot) { s.Queues = []Queue{{Name: "q", Parent: "p"}, {Name: "p"}} }, ""},
		"a queue below itself":  {func(s *Snapshot) { s.Queues[0].Parent = "q" }, "queues[0].parent"},
		"a cycle of queues": {func(s *Snapshot) {
			s.Queues[0].Parent = "p"
			s.Queues = append(s.Queues, Queue{Name: "p", Parent: "q"})
		}, "queues[0].parent"},
		"a namespace twice":     {func(s *Snapshot) { s.Namespaces = make([]Namespace, 2) }, "namespaces[1].name"},
		"at most one member":    {func(s *Snapshot) { s.Jobs[0].Min, s.Jobs[0].Max = 1, 1 }, ""},
		"no minimum":            {func(s *Snapshot) { s.Jobs[0].Min = 0 }, ""},
		"negative minimum":      {func(s *Snapshot) { s.Jobs[0].Min = -1 }, "jobs[0].max"},
		"negative maximum":      {func(s *Snapshot) { s.Jobs[0].Max = -1 }, "jobs[0].max"},
		"maximum below minimum": {func(s *Snapshot) { s.Jobs[0].Min, s.Jobs[0].Max = 2, 1 }, "jobs[0].max"},
		"no maximum":            {func(s *Snapshot) { s.Jobs[0].Min, s.Jobs[0].Max = 2, 0 }, ""},
		"maximum of roles":      {func(s *Snapshot) { s.Jobs[0].Roles = make([]Role, 32767) }, ""},
		"too many roles":        {func(s *Snapshot) { s.Jobs[0].Roles = make([]Role, 32768) }, "jobs[0].roles"},
		"a job twice":           {func(s *Snapshot) { s.Jobs = append(s.Jobs, s.Jobs[0]) }, "jobs[1].id"},
		"no spec":               {func(s *Snapshot) { s.Jobs[0].Tasks[0].Spec = nil }, "jobs[0].tasks[0].spec"},
		"empty request":         {func(s *Snapshot) { spec(s).Request = Vector{} }, ""},
		"negative request":      {func(s *Snapshot) { spec(s).Request[1] = -1 }, "jobs[0].tasks[0].request[1]"},
		"maximum of task GPUs":  {func(s *Snapshot) { spec(s).Devices, spec(s).Share = 64, Whole }, ""},
		"too many task GPUs":    {func(s *Snapshot) { spec(s).Devices = 65 }, "jobs[0].tasks[0].devices"},
		"negative task GPUs":    {func(s *Snapshot) { spec(s).Devices = -1 }, "jobs[0].tasks[0].devices"},
		"more than a whole GPU": {func(s *Snapshot) { spec(s).Devices, spec(s).Share = 1, Whole+1 }, ofTask},
		"negative share":        {func(s *Snapshot) { spec(s).Devices, spec(s).Share = 1, -1 }, ofTask},
		"no GPU, none counted":  {func(s *Snapshot) { s.GPU, s.Nodes[0].Devices, spec(s).Devices = -1, 0, 0 }, ""},
		"a GPU, none counted":   {func(s *Snapshot) { s.GPU, s.Nodes[0].Devices, spec(s).Devices = -1, 0, 1 }, ofTask},
		"on a GPU":              {func(s *Snapshot) { onGPU(s, 1) }, ""},
		"on the first GPU":      {func(s *Snapshot) { onGPU(s, 0) }, ""},
		"on a missing GPU":      {func(s *Snapshot) { onGPU(s, 2) }, "onDevices"},
		"on GPU -1":             {func(s *Snapshot) { onGPU(s, -1) }, "onDevices"},
	} {
		t.Run(name, func(t *testing.T) {
			s := &Snapshot{
				Resources: []string{"cpu", "mem", "gpu"}, GPU: 2,
				Nodes:  []Node{{Name: "n", Capacity: Vector{4, 4}, Devices: 2}},
				Queues: []Queue{{Name: "q"}},
				Jobs:   []Job{{ID: "j", Queue: "q", Tasks: []Task{{ID: "0", Spec: &Spec{Request: Vector{1, 1}}}}}},
			}
			c.change(s)
			_, err := Open(s, DefaultPolicy())
			var f *Fault
			switch {
			case c.field == "" && err != nil:
				t.Error(err)
			case c.field != "" && (!errors.As(err, &f) || !errors.Is(err, ErrInvalid) ||
				!strings.HasSuffix(f.Field, c.field)):
				t.Errorf("%v, want an error about %s", err, c.field)
			}
		})
	}
}

func onGPU(s *Snapshot, device int) {
	t := &s.Jobs[0].Tasks[0]
	t.Spec.Devices, t.Spec.Share, t.State, t.Node, t.OnDevices = 1, Whole, Running, "n", []int{device}
}
