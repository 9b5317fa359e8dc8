package dag

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/tradewind-broker/tradewind/pkg/dag/internal/jobtext"
)

// crew returns a job with a gang g of two tasks, a and b. A third task joins the role of a, and a fourth runs before
// all of them.
func crew() *Job {
	j := tasksNamed("a", "b", "more", "first")
	j.Tasks[0].Gang, j.Tasks[1].Gang = "g", "g"
	j.Tasks[2].Joins, j.Tasks[2].Role = "g", "a"
	j.Edges = []Edge{{From: 3, To: 0}, {From: 3, To: 1}, {From: 3, To: 2}}
	return j
}

func TestValidateRejectsInvalidGangs(t *testing.T) {
	if err := crew().Validate(); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		want   string
		change func(*Job)
	}{
		{`tasks.a.role: only a task of a gang has a role`, func(j *Job) { *j = *tasksNamed("a"); j.Tasks[0].Role = "r" }},
		{`tasks.a.within: only a task of a gang has within`, func(j *Job) {
			*j = *tasksNamed("a")
			j.Tasks[0].Within = WithinZone
		}},
		{`tasks.a.joins: cannot be combined with gang`, func(j *Job) { j.Tasks[0].Joins = "g" }},
		{`tasks.b.gang: has role "A" of gang "g", but its variable $TRADEWIND_HOSTS_A is also that of "a"`, func(j *Job) {
			j.Tasks[1].Role = "A"
		}},
		{`tasks.b.gang: has a different framework than "a"`, func(j *Job) { j.Tasks[1].Framework = Ray }},
		{`tasks.b.gang: has a different within than "a"`, func(j *Job) { j.Tasks[1].Within = WithinZone }},
		{`tasks.b.gang: waits for task "a" of its own gang "g"`, func(j *Job) {
			j.Edges = append(j.Edges, Edge{From: 0, To: 1})
		}},
		{`tasks.b.gang: does not wait for the same tasks as "a"`, func(j *Job) { j.Edges = slices.Delete(j.Edges, 1, 2) }},
		{`tasks.more.gang: joins role "c" of gang "g", but no task of the gang has that role`, func(j *Job) { j.Tasks[2].Role = "c" }},
		{`tasks.more.gang: joins role "a" of gang "h"`, func(j *Job) { j.Tasks[2].Joins = "h" }},
		{`tasks.more.gang: a running program of mpi cannot get more machines`, func(j *Job) {
			for i := range 3 {
				j.Tasks[i].Framework = MPI
			}
		}},
		{`tasks.more.gang: has a different framework than "a", whose role`, func(j *Job) {
			j.Tasks[2].Framework = Ray
		}},
		{`tasks.more.gang: has a different within than "a", whose role`, func(j *Job) { j.Tasks[2].Within = WithinZone }},
		{`tasks.more.gang: joins a gang, but another task waits`, func(j *Job) {
			*j = *tasksNamed("a", "more", "last")
			j.Tasks[0].Gang, j.Tasks[1].Joins, j.Tasks[1].Role, j.Edges = "g", "g", "a", []Edge{{From: 1, To: 2}}
		}},
		{`tasks.more.gang: does not wait for the same tasks as "a", whose role`, func(j *Job) { j.Edges = j.Edges[:2] }},
	} {
		j := crew()
		c.change(j)
		if err := j.Validate(); err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%v\nwant\n%s", err, c.want)
		}
	}
}

func TestGangMembers(t *testing.T) {
	j := crew()
	for _, c := range []struct{ got, want any }{
		{j.Gangs(), map[string][]int{"g": {0, 1}}},
		{j.Gang(1), []int{0, 1}}, {j.Gang(2), []int{2}},
		{j.Joining("g"), []int{2}}, {j.Joining(""), []int(nil)}, {j.Joining("h"), []int(nil)},
		{j.Lead(2), 0}, {j.Lead(0), -1}, {j.Lead(3), -1},
		{j.Together(), map[string][]int{"g": {0, 1, 2}}},
		{tasksNamed("a").Gangs(), map[string][]int(nil)},
	} {
		if !reflect.DeepEqual(c.got, c.want) {
			t.Errorf("%v, not %v", c.got, c.want)
		}
	}
	for i := range 3 {
		j.Tasks[i].Within = WithinAnywhere
	}
	if got := j.Together(); len(got) > 0 {
		t.Errorf("%v have to be close to each other, but within is anywhere", got)
	}
	alone := tasksNamed("a")
	if alone.Tasks[0].Gang = "g"; len(alone.Together()) > 0 {
		t.Error("Together returns a gang of one task")
	}
}

// TestChief: the chief is the role with a name that the framework knows, or else the first of several roles.
func TestChief(t *testing.T) {
	chief := func(j *Job) (out []string) {
		for i := range j.Tasks {
			if j.Chief(i) {
				out = append(out, j.Tasks[i].Name)
			}
		}
		return out
	}
	j := crew()
	say := func(want ...string) {
		t.Helper()
		if got := chief(j); !slices.Equal(got, want) {
			t.Errorf("ends with %v, not %v", got, want)
		}
	}
	say() // without a framework there is no chief
	for i := range 3 {
		j.Tasks[i].Framework = PyTorch
	}
	say("a")
	j.Tasks[1].Role = "Master"
	say("b")
	j.Tasks[0].On = []Reaction{{Event: TaskCompleted, Action: Complete}}
	say("a", "b")
	j.Tasks[0].On = []Reaction{{Event: TaskFailed, Action: Abort}}
	say("b")
	j.Tasks[0].Gang = ""
	say() // a gang of one task has no others to end
}

func TestReactions(t *testing.T) {
	task := &Task{Retries: 7, On: []Reaction{
		{Event: PodEvicted, Action: RestartRole},
		{Event: PodFailed, Action: Abort, ExitCodes: []int{3}},
		{Event: PodFailed, Action: RestartGang, ExitCodes: []int{4}, Limit: 2},
		{Event: PodFailed, Action: RestartGang, ExitCodes: []int{5}},
	}}
	for code, want := range map[int]int{1: 7, 3: 0, 4: 2, 5: 7} {
		if got := task.RetriesAfter(code); got != want {
			t.Errorf("after exit code %d: %d retries, not %d", code, got, want)
		}
	}
	if r, found := task.Reaction(PodEvicted, 3); !found || r.Action != RestartRole {
		t.Errorf("%+v %v", r, found)
	}
	for _, c := range []struct {
		r    Reaction
		want string
	}{
		{Reaction{Event: "x", Action: Abort}, "event: "},
		{Reaction{Event: PodFailed, Action: "x"}, "action: "},
		{
			Reaction{Event: PodEvicted, Action: Abort},
			"action: abort is not possible for podEvicted (choose from: restartGang, restartRole)",
		},
		{Reaction{Event: PodEvicted, Action: RestartGang, Limit: 1}, "limit: only restarts after podFailed"},
		{Reaction{Event: PodFailed, Action: Abort, Limit: 1}, "limit: only restarts after podFailed"},
		{Reaction{Event: PodFailed, Action: RestartRole, Limit: -1}, "limit: -1 is out of bounds"},
		{Reaction{Event: TaskFailed, Action: Abort, ExitCodes: []int{1}}, "exitCodes: only a machine"},
		{Reaction{Event: PodFailed, Action: Abort, ExitCodes: []int{1, 0}}, "exitCodes[1]: 0 is not the exit code"},
		{Reaction{Event: PodFailed, Action: RestartRole, Limit: 1}, ""},
		{Reaction{Event: TaskCompleted, Action: Complete}, ""},
	} {
		err := c.r.Check()
		if (err == nil) != (c.want == "") || err != nil && !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %s", c.r, err, c.want)
		}
	}
}

func TestValidateRejectsInvalidPlacement(t *testing.T) {
	at := func(p ...Placement) func(*Job) { return func(j *Job) { j.Tasks[0].Placement = p } }
	of := func(p ...Placement) func(*Job) { return func(j *Job) { j.Placement = p } }
	ab := []string{"a", "b"}
	for _, c := range []struct {
		want   string
		change func(*Job)
	}{
		{"", at(Placement{Apart: map[string]string{"app": "db"}, By: LevelRack})},
		{"", at(Placement{Spread: LevelMachine, Max: 2}, Placement{Pack: LevelRack})},
		{"", of(Placement{Spread: LevelZone, Of: ab}, Placement{Pack: LevelRegion, Of: ab})},
		{"", of(Placement{Pack: LevelZone, Of: ab}, Placement{Pack: LevelRack, Of: ab})},
		{"", of(Placement{Pack: LevelZone, Of: ab}, Placement{Pack: LevelRegion, Of: []string{"c", "d"}})},
		{"tasks.a.placement[0]: is an empty rule", at(Placement{})},
		{"tasks.a.placement[0]: has more than one", at(Placement{Spread: LevelZone, Pack: LevelZone})},
		{"tasks.a.placement[0].by: is only for apart", at(Placement{Spread: LevelZone, By: LevelZone})},
		{"tasks.a.placement[0].max: is only for spread", at(Placement{Pack: LevelZone, Max: 1})},
		{"tasks.a.placement[0].max: -1 is out of bounds", at(Placement{Spread: LevelZone, Max: -1})},
		{"tasks.a.placement[0].pack: the machines of a task", at(Placement{Pack: LevelMachine})},
		{`tasks.a.placement[1]: unknown level "x"`, at(Placement{Pack: LevelZone}, Placement{Pack: "x"})},
		{`tasks.a.placement[0].apart: "a b" is not a label`, at(Placement{Apart: map[string]string{"a b": "x"}})},
		{`tasks.a.placement[0].apart.app: "" is not a label`, at(Placement{Apart: map[string]string{"app": ""}})},
		{"tasks.a.placement[0].of: is only for rules of a job", at(Placement{Pack: LevelZone, Of: ab})},
		{"tasks.a.placement[0].spread: the 3 machines of one task are in one zone", func(j *Job) {
			j.Tasks[0].Nodes = 3
			at(Placement{Spread: LevelZone, Max: 2})(j)
		}},
		{"", func(j *Job) { j.Tasks[0].Nodes = 3; at(Placement{Spread: LevelZone, Max: 3})(j) }},
		{"", func(j *Job) { j.Tasks[0].Nodes = 3; at(Placement{Spread: LevelRack})(j) }},
		{"placement[0].apart: is only for rules of a task", of(Placement{Apart: map[string]string{"app": "db"}, Of: ab})},
		{"placement[0].of: names fewer than two", of(Placement{Pack: LevelZone, Of: ab[:1]})},
		{`placement[0].of[1]: no task is called "z"`, of(Placement{Pack: LevelZone, Of: []string{"a", "z"}})},
		{`placement[0].of[2]: "a" is named twice`, of(Placement{Pack: LevelZone, Of: []string{"a", "b", "a"}})},
		{"placement[1].spread: the 2 machines", func(j *Job) {
			j.Tasks[1].Nodes = 2
			of(Placement{Pack: LevelZone, Of: ab}, Placement{Spread: LevelRegion, Of: ab})(j)
		}},
		{"placement[1]: packs tasks by region, but another rule packs them by rack", of(Placement{Pack: LevelRack, Of: ab},
			Placement{Pack: LevelRegion, Of: []string{"b", "c"}})},
		{`placement[0]: packs "a" by zone, but its gang is within region`, func(j *Job) {
			j.Tasks[0].Gang, j.Tasks[2].Gang = "g", "g"
			of(Placement{Pack: LevelZone, Of: ab})(j)
		}},
		{"", func(j *Job) { j.Tasks[0].Gang, j.Tasks[2].Gang = "g", "g"; of(Placement{Pack: LevelRegion, Of: ab})(j) }},
		{"", func(j *Job) { j.Tasks[2].Gang, j.Tasks[3].Gang = "g", "g"; of(Placement{Pack: LevelZone, Of: ab})(j) }},
	} {
		j := tasksNamed("a", "b", "c", "d")
		c.change(j)
		err := j.Validate()
		if (err == nil) != (c.want == "") || err != nil && !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%v\nwant\n%s", err, c.want)
		}
	}
}

func TestPlacementString(t *testing.T) {
	for _, c := range []struct {
		p    Placement
		want string
	}{
		{Placement{Spread: LevelZone}, "spread: zone zone 1  true"},
		{Placement{Spread: LevelRack, Max: 1}, "spread: rack rack 1  false"},
		{Placement{Spread: LevelRegion, Max: 2}, "spread: region, max: 2 region 2  true"},
		{Placement{Pack: LevelRegion}, "pack: region region 1 region true"},
		{Placement{Pack: LevelRack}, "pack: rack rack 1 zone false"},
		{Placement{Apart: map[string]string{"b": "c", "a": "d"}}, "apart: {a: d, b: c} by machine machine 1  false"},
		{Placement{Apart: map[string]string{"a": "d"}, By: LevelZone}, "apart: {a: d} by zone zone 1  true"},
	} {
		got := fmt.Sprint(&c.p, " ", c.p.Level(), " ", c.p.MaxPerPlace(), " ", c.p.Plan(), " ", c.p.Level().Plannable())
		if got != c.want {
			t.Errorf("%s, not %s", got, c.want)
		}
	}
	j := tasksNamed("a", "b", "c")
	j.Placement = []Placement{{Pack: LevelZone, Of: []string{"c", "a"}}}
	j.Tasks[1].Placement = []Placement{{Apart: map[string]string{"a": "b"}}, {Spread: LevelRack}}
	g := j.Groups()
	if len(g) != 2 || !slices.Equal(g[0].Tasks, []int{0, 2}) ||
		!slices.Equal(g[1].Tasks, []int{1}) || g[1].Spread != LevelRack {
		t.Errorf("%+v", g)
	}
	if g[0].Has(1) || !g[0].Has(2) || len(j.Tasks[1].ApartRules()) != 1 || len(j.Tasks[0].ApartRules()) != 0 {
		t.Error("a rule applies to other tasks than it names")
	}
}

func TestChecksReturnNoIndexForValidJobs(t *testing.T) {
	for name, j := range map[string]*Job{"alone": tasksNamed("a"), "a gang": crew(), "a service": web()} {
		if i, err := j.CheckGangs(); i >= 0 || err != nil {
			t.Errorf("%s: gangs: %d, %v", name, i, err)
		}
		if i, edge, err := j.CheckServices(); i >= 0 || edge >= 0 || err != nil {
			t.Errorf("%s: services: %d, %d, %v", name, i, edge, err)
		}
		if rule, err := j.CheckPlacement(); rule >= 0 || err != nil {
			t.Errorf("%s: placement: %d, %v", name, rule, err)
		}
		j.Placement = []Placement{{Pack: LevelRegion, Of: []string{j.Tasks[0].Name, j.Tasks[len(j.Tasks)-1].Name}}}
		if rule, err := j.CheckPlacement(); len(j.Tasks) > 1 && (rule >= 0 || err != nil) {
			t.Errorf("%s: placement: %d, %v", name, rule, err)
		}
	}
	many := numbered(jobtext.MaxReplicas + 1)
	for i := range many.Tasks {
		many.Tasks[i].Service = &Service{Of: "s"}
	}
	if i, edge, err := many.CheckServices(); i != jobtext.MaxReplicas || edge >= 0 || err == nil {
		t.Errorf("%d, %d, %v", i, edge, err)
	}
}
