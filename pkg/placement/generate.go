package placement

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
)

// ErrSetting is wrapped by errors about a Setting.
var ErrSetting = errors.New("bad setting")

// Setting describes a cluster and its load like those in the paper's evaluation.
type Setting struct {
	Machines     int
	Containers   int
	Apps         int
	AntiAffinity float64 // share of apps whose containers must be separate from each other or from other apps
	Priority     float64 // share of containers with a priority above the lowest
	Seed         uint64
}

// PaperSetting returns the setting of the paper's sections I and III.A: 100,000 containers of 13,056 apps on 10,000
// machines, 70% of apps with anti-affinity, 15% of containers with priority.
func PaperSetting() Setting {
	return Setting{Machines: 10_000, Containers: 100_000, Apps: 13_056, AntiAffinity: 0.7, Priority: 0.15, Seed: 1}
}

// Constants of Generate. Machines have 32 CPUs and 64 GiB, like those in the paper's trace. A rack has 625 machines,
// a cluster four racks.
const (
	generatedCPU    = 32
	generatedMemory = 64
	generatedRack   = 625
	generatedRacks  = 4
	generatedRanks  = 3 // priority classes above the lowest
)

func (s Setting) validate() error {
	switch {
	case s.Machines < 1 || s.Machines > 1_000_000:
		return fmt.Errorf("%w: machines: %d, not 1 to 1,000,000", ErrSetting, s.Machines)
	case s.Apps < 1 || s.Apps > 1_000_000:
		return fmt.Errorf("%w: apps: %d, not 1 to 1,000,000", ErrSetting, s.Apps)
	case s.Containers < s.Apps || s.Containers > 10_000_000:
		return fmt.Errorf("%w: containers: %d, not %d (the apps) to 10,000,000", ErrSetting, s.Containers, s.Apps)
	case !(s.AntiAffinity >= 0 && s.AntiAffinity <= 1):
		return fmt.Errorf("%w: anti-affinity: %g, not 0 to 1", ErrSetting, s.AntiAffinity)
	case !(s.Priority >= 0 && s.Priority <= 1):
		return fmt.Errorf("%w: priority: %g, not 0 to 1", ErrSetting, s.Priority)
	}
	return nil
}

// Generate creates a problem from a setting. The sizes of its apps differ widely: most have one container and a few
// have hundreds. A container takes 1 to 8 CPUs and 1 to 16 GiB; most are small. Most apps with anti-affinity separate
// their own containers; others also avoid some other apps. The same setting gives the same problem.
func Generate(s Setting) (*Problem, error) {
	if err := s.validate(); err != nil {
		return nil, err
	}
	g := &generator{Setting: s, rng: rand.New(rand.NewPCG(s.Seed, 0x616c6164))} //nolint:gosec // reproducible, not secret
	g.p = &Problem{
		Resources: []Resource{{"cpu", 1}, {"memory", 1}},
		Shapes:    []Shape{{Capacity: []int64{generatedCPU * Unit, generatedMemory * Unit}}},
	}
	for i := range s.Machines {
		rack := i / generatedRack
		g.p.Machines = append(g.p.Machines, Machine{
			Name: fmt.Sprintf("machine_%d", i+1), Rack: rack, Cluster: rack / generatedRacks,
		})
	}
	g.apps()
	g.priorities()
	g.rules()
	return g.p, nil
}

type generator struct {
	Setting
	p    *Problem
	rng  *rand.Rand
	size []int
}

// apps draws the number of containers of each app, by a power law, and their demands.
func (g *generator) apps() {
	weights, sum := make([]float64, g.Apps), 0.0
	for a := range weights {
		weights[a] = math.Pow(float64(a+1), -0.9)
		sum += weights[a]
	}
	g.size = make([]int, g.Apps)
	extra := g.Containers - g.Apps
	// An app with more containers than a twentieth of the machines could not be placed if its containers must be
	// separate and avoid other apps.
	most := max(1, g.Machines/20)
	left := extra
	for a := range g.size {
		n := min(int(float64(extra)*weights[a]/sum), most-1, left)
		g.size[a] = 1 + n
		left -= n
	}
	for a := 0; left > 0; a = (a + 1) % g.Apps {
		g.size[a]++
		left--
	}
	cpu, memory := []float64{1, 2, 4, 8}, []float64{1, 2, 4, 8, 16}
	for a, n := range g.size {
		demand := []int64{
			int64(pick(g.rng, cpu, 0.45, 0.35, 0.15, 0.05) * Unit),
			int64(pick(g.rng, memory, 0.2, 0.35, 0.3, 0.1, 0.05) * Unit),
		}
		g.p.Apps = append(g.p.Apps, App{Name: fmt.Sprintf("app_%d", a+1), Demand: demand})
		for range n {
			g.p.Instances = append(g.p.Instances,
				Instance{Name: fmt.Sprintf("inst_%d", len(g.p.Instances)+1), App: int32(a), Machine: Unplaced}) //nolint:gosec // at most a million
		}
	}
}

// pick draws one of the values with the given probabilities.
func pick(rng *rand.Rand, values []float64, chances ...float64) float64 {
	x := rng.Float64()
	for i, c := range chances {
		if x < c {
			return values[i]
		}
		x -= c
	}
	return values[len(values)-1]
}

// priorities gives random apps a priority until their containers are the requested share.
func (g *generator) priorities() {
	want := int(g.Priority * float64(g.Containers))
	for _, a := range g.rng.Perm(g.Apps) {
		if g.size[a] > want {
			continue
		}
		want -= g.size[a]
		g.p.Apps[a].Priority = 1 + g.rng.IntN(generatedRanks)
	}
}

// rules gives a share of the apps anti-affinity rules.
func (g *generator) rules() {
	constrained := g.rng.Perm(g.Apps)[:int(g.AntiAffinity*float64(g.Apps))]
	for _, a := range constrained {
		app := int32(a) //nolint:gosec // at most a million
		within := g.rng.Float64() < 0.7 && g.size[a] <= g.Machines
		if within {
			g.p.Rules = append(g.p.Rules, Rule{A: app, B: app, Max: 1})
		}
		if within && g.rng.Float64() < 0.5 {
			continue
		}
		for range 1 + g.rng.IntN(4) {
			if b := int32(g.rng.IntN(g.Apps)); b != app { //nolint:gosec // at most a million
				g.p.Rules = append(g.p.Rules, Rule{A: app, B: b})
			}
		}
	}
}
