package optimizer_test

import (
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/tradewind-broker/tradewind/pkg/optimizer"
	"pgregory.net/rapid"
)

// shape is the form of the dependency graph of a generated model.
type shape int

const (
	chain shape = iota
	forkJoin
	randomDAG
	layered
)

// generate returns a model like those of the published benchmarks. It has nPlace places with random prices and speeds
// between them, nTask tasks with nCand candidates at random places, and edges by shape.
func generate(seed uint64, s shape, nTask, nCand, nPlace int) *optimizer.Model {
	r := rand.New(rand.NewPCG(seed, 7))
	m := &optimizer.Model{Objective: optimizer.Cost}
	for p := range nPlace {
		m.Places = append(m.Places, fmt.Sprintf("cloud%d:region%02d", p%3, p))
		usd, hours := make([]float64, nPlace), make([]float64, nPlace)
		for q := range nPlace {
			switch {
			case p == q:
			case p%3 == q%3:
				usd[q], hours[q] = 0.01+0.01*r.Float64(), 0.0002+0.0002*r.Float64()
			default:
				usd[q], hours[q] = 0.05+0.10*r.Float64(), 0.0004+0.001*r.Float64()
			}
		}
		m.USDPerGiB = append(m.USDPerGiB, usd)
		m.HoursPerGiB = append(m.HoursPerGiB, hours)
	}
	for t := range nTask {
		task := optimizer.Task{ID: fmt.Sprintf("t%05d", t)}
		size := 0.5 + 5*r.Float64()
		for k := range nCand {
			speed, price := 0.5+r.Float64(), 0.5+3*r.Float64()
			task.Candidates = append(task.Candidates, optimizer.Candidate{
				ID: fmt.Sprintf("offer%03d", k), Place: r.IntN(nPlace), Hours: size / speed, USD: size / speed * price,
			})
		}
		m.Tasks = append(m.Tasks, task)
	}
	for _, e := range edges(r, s, nTask) {
		m.Edges = append(m.Edges, optimizer.Edge{From: m.Tasks[e[0]].ID, To: m.Tasks[e[1]].ID, GiB: 1 + 60*r.Float64()})
	}
	return m
}

func edges(r *rand.Rand, s shape, n int) [][2]int {
	var list [][2]int
	switch s {
	case chain:
		for i := range n - 1 {
			list = append(list, [2]int{i, i + 1})
		}
	case forkJoin:
		for i := 1; i < n-1; i++ {
			list = append(list, [2]int{0, i}, [2]int{i, n - 1})
		}
	case randomDAG:
		for i := 1; i < n; i++ {
			parents := 1 + r.IntN(3)
			for _, j := range r.Perm(i)[:min(i, parents)] {
				list = append(list, [2]int{j, i})
			}
		}
	case layered:
		width := int(math.Ceil(math.Sqrt(float64(n))))
		for i := width; i < n; i++ {
			layer := i / width
			for range 1 + r.IntN(3) {
				list = append(list, [2]int{(layer-1)*width + r.IntN(width), i})
			}
		}
	}
	return list
}

// smallModel draws a model that is small enough for brute force, with ties, zero prices, parallel edges and tasks
// that cannot run everywhere.
func smallModel(t *rapid.T) *optimizer.Model {
	nPlace := rapid.IntRange(1, 4).Draw(t, "places")
	nTask := rapid.IntRange(1, 6).Draw(t, "tasks")
	amount := rapid.SampledFrom([]float64{0, 0, 0.5, 1, 1, 2, 3.25, 7})
	m := &optimizer.Model{Objective: optimizer.Cost}
	for p := range nPlace {
		m.Places = append(m.Places, fmt.Sprintf("p%d", p))
		usd, hours := make([]float64, nPlace), make([]float64, nPlace)
		for q := range nPlace {
			usd[q], hours[q] = amount.Draw(t, "usdPerGiB"), amount.Draw(t, "hoursPerGiB")
		}
		m.USDPerGiB = append(m.USDPerGiB, usd)
		m.HoursPerGiB = append(m.HoursPerGiB, hours)
	}
	fine := rapid.Map(rapid.IntRange(0, 9970), func(i int) float64 { return float64(i) / 997 })
	for i := range nTask {
		task := optimizer.Task{ID: fmt.Sprintf("t%d", i)}
		for k := range rapid.IntRange(1, 5).Draw(t, "candidates") {
			c := optimizer.Candidate{ID: fmt.Sprintf("c%d", k), Place: rapid.IntRange(0, nPlace-1).Draw(t, "place")}
			if rapid.Bool().Draw(t, "coarse") {
				c.USD, c.Hours = amount.Draw(t, "usd"), amount.Draw(t, "hours")
			} else {
				c.USD, c.Hours = fine.Draw(t, "usd"), fine.Draw(t, "hours")
			}
			task.Candidates = append(task.Candidates, c)
		}
		m.Tasks = append(m.Tasks, task)
	}
	if nTask > 1 {
		for range rapid.IntRange(0, 12).Draw(t, "edges") {
			to := rapid.IntRange(1, nTask-1).Draw(t, "to")
			from := rapid.IntRange(0, to-1).Draw(t, "from")
			m.Edges = append(m.Edges, optimizer.Edge{From: m.Tasks[from].ID, To: m.Tasks[to].ID, GiB: amount.Draw(t, "gib")})
		}
	}
	return m
}

// evaluate computes the cost and makespan of a plan directly from the definition.
func evaluate(m *optimizer.Model, picks []int) (usd, hours float64) {
	index := map[string]int{}
	for i, t := range m.Tasks {
		index[t.ID] = i
		usd += t.Candidates[picks[i]].USD
	}
	for _, e := range m.Edges {
		usd += e.GiB * m.USDPerGiB[place(m, picks, index[e.From])][place(m, picks, index[e.To])]
	}
	finish := make([]float64, len(m.Tasks))
	for i, t := range m.Tasks {
		finish[i] = t.Candidates[picks[i]].Hours
	}
	for range m.Tasks { // longest paths by relaxation; a path has at most this number of tasks
		for _, e := range m.Edges {
			from, to := index[e.From], index[e.To]
			arrive := finish[from] + e.GiB*m.HoursPerGiB[place(m, picks, from)][place(m, picks, to)]
			finish[to] = max(finish[to], arrive+m.Tasks[to].Candidates[picks[to]].Hours)
		}
	}
	for _, f := range finish {
		hours = max(hours, f)
	}
	return usd, hours
}

func place(m *optimizer.Model, picks []int, task int) int {
	return m.Tasks[task].Candidates[picks[task]].Place
}

// bruteForce returns the minimum objective over all plans within the limits. ok is false if there are none.
func bruteForce(m *optimizer.Model) (objective float64, ok bool) {
	objective = math.Inf(1)
	everyPlan(m, func(_ []int, usd, hours float64) {
		if !keepsBounds(m, usd, hours) {
			return
		}
		ok = true
		if m.Objective == optimizer.Cost {
			objective = min(objective, usd)
		} else {
			objective = min(objective, hours)
		}
	})
	return objective, ok
}

// everyPlan calls visit for every plan with its cost and makespan.
func everyPlan(m *optimizer.Model, visit func(picks []int, usd, hours float64)) {
	picks := make([]int, len(m.Tasks))
	for {
		usd, hours := evaluate(m, picks)
		visit(picks, usd, hours)
		i := 0
		for ; i < len(picks); i++ {
			picks[i]++
			if picks[i] < len(m.Tasks[i].Candidates) {
				break
			}
			picks[i] = 0
		}
		if i == len(picks) {
			return
		}
	}
}

func keepsBounds(m *optimizer.Model, usd, hours float64) bool {
	within := func(x float64, limit *float64) bool { return limit == nil || x <= *limit*(1+1e-9)+1e-12 }
	return within(hours, m.DeadlineHours) && within(usd, m.BudgetUSD)
}

func same(a, b float64) bool { return math.Abs(a-b) <= 1e-9*max(1, math.Abs(a), math.Abs(b)) }
