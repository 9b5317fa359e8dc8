package main

import (
	"fmt"
	"math/rand/v2"

	"github.com/tradewind-broker/tradewind/pkg/optimizer"
)

// shape is the form of the dependency graph of a generated model.
type shape string

const (
	chain    shape = "chain"
	forkJoin shape = "fork-join"
	random   shape = "random"
)

// places is the number of regions of a generated model: ten in each of three clouds.
const places = 30

// generate makes a model from a seed. Prices and speeds between places are random, cheap within a cloud and expensive
// between clouds; tasks have candidates of random speed and price at random places; edges follow the shape and carry
// 1 to
// 61 GiB each. In a random DAG each task depends on one to three earlier ones.
func generate(seed uint64, s shape, tasks, candidates int) *optimizer.Model {
	r := rand.New(rand.NewPCG(seed, 7)) //nolint:gosec // reproducible, not secret
	m := &optimizer.Model{Objective: optimizer.Cost, Edges: []optimizer.Edge{}}
	for p := range places {
		m.Places = append(m.Places, fmt.Sprintf("cloud%d:region%02d", p%3, p))
		usd, hours := make([]float64, places), make([]float64, places)
		for q := range places {
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
	for t := range tasks {
		task := optimizer.Task{ID: fmt.Sprintf("t%05d", t)}
		size := 0.5 + 5*r.Float64()
		for k := range candidates {
			speed, price := 0.5+r.Float64(), 0.5+3*r.Float64()
			task.Candidates = append(task.Candidates, optimizer.Candidate{
				ID: fmt.Sprintf("offer%03d", k), Place: r.IntN(places), Hours: size / speed, USD: size / speed * price,
			})
		}
		m.Tasks = append(m.Tasks, task)
	}
	for _, e := range edges(r, s, tasks) {
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
	case random:
		for i := 1; i < n; i++ {
			parents := 1 + r.IntN(3)
			for _, j := range r.Perm(i)[:min(i, parents)] {
				list = append(list, [2]int{j, i})
			}
		}
	}
	return list
}

// form is one of the problems that are solved on a model.
type form string

const (
	cost     form = "cost"
	makespan form = "makespan"
	deadline form = "cost within a deadline"
	budget   form = "makespan within a budget"
)

// withLimit returns the model with the form's objective and limit. The limit is four tenths of the way from the
// tightest feasible one to the loosest one that matters.
func withLimit(m *optimizer.Model, f form, cheap, fast *optimizer.Solution) *optimizer.Model {
	posed := *m
	posed.Objective = optimizer.Cost
	if f == makespan || f == budget {
		posed.Objective = optimizer.Makespan
	}
	switch f {
	case deadline:
		h := 0.6*fast.Hours + 0.4*cheap.Hours
		posed.DeadlineHours = &h
	case budget:
		usd := 0.6*cheap.USD + 0.4*fast.USD
		posed.BudgetUSD = &usd
	case cost, makespan:
	}
	return &posed
}
