package workflow

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/tradewind-broker/tradewind/internal/bidding/policy"
	"github.com/tradewind-broker/tradewind/pkg/bidding"
	"github.com/tradewind-broker/tradewind/pkg/dag"
	"github.com/tradewind-broker/tradewind/pkg/market"
)

// Type is a machine type in the zone with its on-demand price and its spot price in each hour.
type Type struct {
	Name        string
	OnDemandUSD float64
	USD         []float64
}

// Workflow is a DAG with the markets it can run on. Work is counted in hours on the most powerful type.
type Workflow struct {
	types   []Type
	speed   []float64 // work per hour
	fastest int
	unitUSD float64 // on-demand price of a unit of work, the same on every type
	work    []float64
	restart float64 // hours that each start of a machine takes; they are paid
	hours   float64 // work of the longest path
	order   []int
	graph   *dag.Graph
	// tail is the time of the longest path from the end of a task, on the most powerful type with the starts of
	// machines. longest is that of the whole workflow.
	tail    []float64
	longest float64
	simple  []bool
	// branches are the chains of simple tasks, in groups with the same start and end.
	branches [][]branch
	mean     []float64 // mean price of a unit of work on each type before the first run
	ctx      context.Context
	plain    []*plainMarket
	learned  map[int][]*knownMarket
}

// ErrNoTypes is returned if there are no machine types.
var ErrNoTypes = errors.New("no machine type has a price")

// plainMarket is BFRC's knowledge about a type: the paper's chain over all prices before the first run.
type plainMarket struct{ chain *market.Chain }

// New scales a job's recorded times so that its longest path takes the given hours on the most powerful type, without
// the starts of machines, each of which takes restart hours. The speed of a type is proportional to its on-demand
// price. Every method may use the prices before hour first as history.
func New(ctx context.Context, job *dag.Job, types []Type, hours, restart float64, first int) (*Workflow, error) {
	if len(types) == 0 {
		return nil, ErrNoTypes
	}
	w := &Workflow{types: types, restart: restart, hours: hours, graph: job.Graph(), order: job.Order(), ctx: ctx,
		learned: map[int][]*knownMarket{}}
	for i, t := range types {
		if t.OnDemandUSD > types[w.fastest].OnDemandUSD {
			w.fastest = i
		}
	}
	top := types[w.fastest].OnDemandUSD
	for _, t := range types {
		w.speed = append(w.speed, t.OnDemandUSD/top)
		sum := 0.0
		for _, p := range t.USD[:first] {
			sum += min(p, t.OnDemandUSD)
		}
		w.mean = append(w.mean, sum/float64(first)/(t.OnDemandUSD/top))
		w.plain = append(w.plain, &plainMarket{market.Learn(t.USD[:first], market.ChainOptions{})})
	}
	w.unitUSD = top
	path, _, err := job.CriticalPath(func(i int) time.Duration { return job.Tasks[i].Recorded })
	if err != nil {
		return nil, err
	}
	for i := range job.Tasks {
		w.work = append(w.work, job.Tasks[i].Recorded.Hours()/path.Hours()*hours)
	}
	w.paths()
	w.simple = classify(w.graph, len(w.work))
	w.branches = branches(w.graph, w.order, w.simple)
	return w, nil
}

// paths computes the longest path, and those after each task.
func (w *Workflow) paths() {
	w.tail = make([]float64, len(w.work))
	for _, i := range slices.Backward(w.order) {
		for _, c := range w.graph.Children(i) {
			w.tail[i] = max(w.tail[i], w.tail[c]+w.work[c]+w.restart)
		}
		w.longest = max(w.longest, w.tail[i]+w.work[i]+w.restart)
	}
}

// Hours is the time of the longest path on the most powerful type, with the starts. It is the least deadline.
func (w *Workflow) Hours() float64 { return w.longest }

// Outcome is the cost of a run.
type Outcome struct {
	USD           float64
	Missed        bool
	Interruptions int
}

// The policies that Run knows, with the names of the back-test.
const (
	onDemand    = "on-demand"
	spot        = "spot"
	aib         = "aib"
	bfrc        = "bfrc"
	markov      = "markov"
	clairvoyant = "clairvoyant"
	// PathBound is not a policy: its cost is the paper's lower bound.
	PathBound = "path-bound"
)

// Run replays the workflow from hour start on, with a deadline in hours after it. The clairvoyant is the lower bound
// of all costs: all work at the lowest price of any type within the deadline, without starts.
func (w *Workflow) Run(ctx context.Context, name string, start int, deadline float64) (Outcome, error) {
	total := 0.0
	for _, x := range w.work {
		total += x
	}
	var m method
	switch name {
	case onDemand:
		return Outcome{USD: (total + float64(len(w.work))*w.restart) * w.unitUSD}, nil
	case clairvoyant:
		return Outcome{USD: total * w.lowest(start, deadline)}, nil
	case PathBound:
		return Outcome{USD: total * w.pathBound(deadline)}, nil
	case spot:
		m = &alwaysSpot{w}
	case aib:
		m = &aibMethod{w: w}
	case bfrc:
		m = w.newBFRC(deadline)
	case markov:
		m = w.newMarkov(deadline)
	default:
		return Outcome{}, fmt.Errorf("no policy %q for workflows", name)
	}
	return w.replay(ctx, m, start, deadline)
}

// pathBound returns the lowest mean price of a unit of work on one or two types, if the workflow is a single path that
// ends at its deadline (WCSSI, equations 9 and 10), without starts. The mean prices are those before the first run. As
// in the paper it is a bound for methods that choose types once; one that follows the prices may cost less.
func (w *Workflow) pathBound(deadline float64) float64 {
	hours := deadline / w.hours // for a unit of work
	least := w.unitUSD
	for a := range w.types {
		for b := range w.types {
			slow, fast := 1/w.speed[a], 1/w.speed[b]
			switch {
			case slow <= hours:
				least = min(least, w.mean[a])
			case fast < hours: // as much as possible on a, the rest on b
				share := (hours - fast) / (slow - fast)
				least = min(least, share*w.mean[a]+(1-share)*w.mean[b])
			}
		}
	}
	return least
}

// lowest returns the lowest price of a unit of work within the deadline.
func (w *Workflow) lowest(start int, deadline float64) float64 {
	least := w.unitUSD
	for k, t := range w.types {
		for _, p := range t.USD[start : start+int(math.Ceil(deadline-1e-9))] {
			least = min(least, p/w.speed[k])
		}
	}
	return least
}

// stretch is the paper's maximum time of a task, as a multiple of its compute time.
const stretch = policy.MaxStretch

// model returns the market of a type with hourly steps, for package bidding. An hour that is lost to a price above the
// bid costs a start later, at the mean price of an hour: r in equation 7.
func (w *Workflow) model(chain *market.Chain, kind int) bidding.Model {
	m := bidding.PriceModel(chain, w.types[kind].OnDemandUSD, 0)
	m.ReleaseUSD = w.restart * w.mean[kind] * w.speed[kind]
	return m
}
