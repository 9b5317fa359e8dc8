package reproduce

import (
	"context"
	"fmt"
	"hash/fnv"
	"maps"
	"math/rand/v2"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/tradewind-broker/tradewind/internal/base/chart"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/market"
)

// recordedZones are the zones of the traces of several machines, in the names of the catalogue. The catalogue has no
// V100 of AWS, so the broker plans its smallest machine with a T4 there.
const recordedZones = `{instanceType: g4dn.xlarge, market: spot, anyOf: [
  {cloud: aws, region: us-east-2, zone: use2-az2},
  {cloud: aws, region: us-west-2, zone: usw2-az1},
  {cloud: aws, region: us-west-2, zone: usw2-az3}]}`

// traceOf returns the trace of a recorded zone.
func traceOf(zone string) string {
	return map[string]string{"use2-az2": "us-east-2b", "usw2-az1": "us-west-2a", "usw2-az3": "us-west-2c"}[zone]
}

func jobWith(nodes int, resources string) string {
	return fmt.Sprintf("apiVersion: tradewind/v1\nname: machines\ntasks: {a: {run: x, nodes: %d, time: 8h, "+
		"checkpoint: {path: state, every: 10m}, resources: %s}}\n", nodes, resources)
}

// beginning is the start of the traces in simulated time.
func beginning() time.Time { return time.Unix(0, 0).UTC() }

// availableAt is the number of machines of a trace at a time after its start. It repeats.
func availableAt(t *market.Trace, at time.Duration) int {
	return int(t.Available[int(at/t.Gap)%len(t.Available)])
}

// traces reads the recorded availability; those of several machines, by zone.
func (s *source) traces() (all []*market.Trace, several map[string]*market.Trace, err error) {
	dir, err := s.folder("spot-availability")
	if err != nil {
		return nil, nil, err
	}
	all, err = market.ReadTraces(dir)
	several = map[string]*market.Trace{}
	for _, t := range all {
		if slices.Max(t.Available) > 1 {
			zone, _, _ := strings.Cut(path.Base(t.Name), "_")
			several[zone] = t
		}
	}
	return all, several, err
}

// attempts counts the places that the broker tries until it has eight machines with a GPU, if the first has none.
func attempts(ctx context.Context, s *source) (Item, error) {
	const machines, requests = 8, 500
	item := Item{
		Title:   "places tried for 8 GPUs during stock-outs",
		Columns: []string{"request", "stockOuts", "attempts", "mean", "most", "waited"},
		PaperRows: []Row{
			{"request": "8 × V100 on AWS", "attempts": "3 to 5"}, {"request": "8 × T4 on AWS", "attempts": "2 to 7"},
		},
		Note: fmt.Sprintf("The paper's stock-outs are not public. Here the broker's planner chooses a place, a place "+
			"without room is blocked as the broker does it, and the job is planned again; if every place is blocked, "+
			"it waits. Room is that of the three recorded traces of up to 16 spot machines with a V100 on AWS: %d "+
			"machines must be available at once. AWS's catalogue has no V100 any more, and no trace of a T4 is "+
			"public. So in the first two rows each zone of the catalogue has one of the traces, from a random time "+
			"on, and zones are independent of each other; in the third row the three zones have their own traces at "+
			"the recorded times. `stockOuts` is the share of %d requests whose first place had no room; the other "+
			"columns are about these. `attempts` are those of nine requests in ten, with the last, successful one. "+
			"`waited` is the share that found all places blocked.", machines, requests),
	}
	_, several, err := s.traces()
	if err != nil {
		return item, err
	}
	for _, r := range []struct{ name, resources string }{
		{"8 × V100 on Google Cloud", "{cloud: gcp, instanceType: n1-standard-8, accelerators: V100:1, market: spot}"},
		{"8 × T4 on AWS", "{cloud: aws, instanceType: g4dn.xlarge, market: spot}"},
		{"8 × V100 in three zones of AWS", recordedZones},
	} {
		var tried []float64
		waited := 0
		for i := range requests {
			at := time.Duration(i) * time.Hour / 2
			b, err := newBroker(jobWith(machines, r.resources))
			if err != nil {
				return item, err
			}
			n, took, err := b.find(ctx, beginning().Add(at), func(o *record.Planned, now time.Time) bool {
				t, shift := traceFor(several, o.Offer.Zone, uint64(i)) //nolint:gosec // not negative
				return availableAt(t, now.Sub(beginning())+shift) >= machines
			})
			if err != nil {
				return item, fmt.Errorf("%s: %w", r.name, err)
			}
			if n > 1 {
				tried = append(tried, float64(n))
			}
			if took > 0 {
				waited++
			}
		}
		slices.Sort(tried)
		n := float64(len(tried))
		mean := 0.0
		for _, v := range tried {
			mean += v / n
		}
		item.Rows = append(item.Rows, Row{
			"request": r.name, "stockOuts": n / requests, "mean": mean, "most": tried[len(tried)-1],
			"attempts": fmt.Sprintf("%.0f to %.0f", tried[0], tried[len(tried)*9/10]), "waited": float64(waited) / n,
		})
	}
	return item, nil
}

// traceFor returns the trace of a zone: its own, or one that is drawn for it, with the time that it starts later.
func traceFor(several map[string]*market.Trace, zone string, seed uint64) (*market.Trace, time.Duration) {
	if t := several[traceOf(zone)]; t != nil {
		return t, 0
	}
	h := fnv.New64a()
	_, _ = h.Write([]byte(zone))
	random := rand.New(rand.NewPCG(seed, h.Sum64())) //nolint:gosec // reproducible by seed
	names := []string{"us-east-2b", "us-west-2a", "us-west-2c"}
	t := several[names[random.IntN(len(names))]]
	return t, time.Duration(random.IntN(len(t.Available))) * t.Gap
}

const (
	heldMachines = 24
	heldDays     = 8
)

// preemptions counts the interruptions of 24 spot machines over 8 days: if each waits for another in its zone, and if
// the broker looks for another place.
func preemptions(ctx context.Context, s *source) (Item, error) {
	item := Item{
		Title:   "interruptions of 24 spot machines in 8 days",
		Columns: []string{"machines", "interruptions", "minutesBetween", "machinesUp"},
		PaperRows: []Row{{"machines": "Google Cloud, one application", "interruptions": 319,
			"minutesBetween": 36}},
		Note: "The paper's run is not public. `broker` is this program's planner with its blocks after interruptions " +
			"and refusals, on the three zones of AWS whose availability was recorded for up to 16 machines with a " +
			"V100: an interrupted machine is replaced in any zone with room that is not blocked. Without blocks, " +
			"every zone is asked again at once: more machines run, and more are interrupted. In the other rows of " +
			"these traces a machine waits for another in its zone, and the trace is scaled to 24 machines. " +
			"`preemption` are traces of single machines that were held until they were taken, scaled to 24 machines " +
			"and, because they are shorter, to 8 days. `machinesUp` is the mean share of machines that run.",
	}
	all, several, err := s.traces()
	if err != nil {
		return item, err
	}
	panel := chart.Panel{Title: item.Title, X: chart.Axis{Label: "days"}, Y: chart.Axis{Label: "interruptions"}}
	add := func(name string, points []chart.Point, up float64) {
		lost := points[len(points)-1].Y
		row := Row{"machines": name, "interruptions": lost, "machinesUp": up}
		if lost > 0 {
			row["minutesBetween"] = heldDays * 24 * 60 / lost
		}
		item.Rows = append(item.Rows, row)
		panel.Series = append(panel.Series, chart.Series{Name: name, Points: points, Style: chart.Steps})
	}
	for _, r := range []struct {
		name   string
		blocks bool
	}{{"broker, three zones", true}, {"broker without blocks, three zones", false}} {
		points, up, err := hold(ctx, several, r.blocks)
		if err != nil {
			return item, err
		}
		add(r.name, points, up)
	}
	for _, t := range all {
		single, taken := slices.Max(t.Available) < 2, strings.HasPrefix(t.Name, "preemption/")
		if single == taken {
			points, up := inOneZone(t, single)
			add(t.Name, points, up)
		}
	}
	item.Panels = []chart.Panel{panel}
	return item, nil
}

// inOneZone counts the interruptions if each machine waits in its zone: a machine fewer than in the step before.
// A short trace is stretched to all days.
func inOneZone(t *market.Trace, stretch bool) (points []chart.Point, up float64) {
	most := float64(slices.Max(t.Available))
	steps, scale := int(heldDays*24*time.Hour/t.Gap), heldMachines/most
	days := t.Gap.Hours() / 24
	if stretch {
		scale *= float64(steps) / float64(len(t.Available))
		days *= float64(steps) / float64(len(t.Available))
		steps = len(t.Available)
	}
	lost := 0.0
	for i, n := range t.Available[:steps] {
		up += float64(n) / most / float64(steps)
		if i > 0 {
			lost += scale * float64(max(t.Available[i-1]-n, 0))
		}
		points = append(points, chart.Point{X: float64(i) * days, Y: lost})
	}
	return points, up
}

// hold lets the broker hold the machines in the recorded zones, each of which is the only machine of a job. Without
// blocks, it asks every zone again in each step of the traces.
func hold(ctx context.Context, several map[string]*market.Trace, blocks bool) (points []chart.Point, up float64,
	err error) {
	b, err := newBroker(jobWith(1, recordedZones))
	if err != nil {
		return nil, 0, err
	}
	held, offers, lost := map[string]int{}, map[string]*record.Planned{}, 0
	step := several["us-east-2b"].Gap
	steps := int(heldDays * 24 * time.Hour / step)
	for i := range steps {
		at := time.Duration(i) * step
		now, running := beginning().Add(at), 0
		room := func(zone string) int { return availableAt(several[traceOf(zone)], at) }
		for _, zone := range slices.Sorted(maps.Keys(offers)) {
			o := offers[zone]
			taken := max(held[zone]-room(zone), 0)
			if b.saw(o, float64(held[zone])*step.Hours(), taken); taken > 0 {
				held[zone] -= taken
				lost += taken
				b.block(o.Offer, now)
			}
			running += held[zone]
		}
		if !blocks {
			b.blocks = nil
		}
		for running < heldMachines {
			o, ok, err := b.next(ctx, now)
			if err != nil {
				return nil, 0, err
			}
			if !ok {
				break // until a block ends
			}
			zone := o.Offer.Zone
			if held[zone] >= room(zone) {
				b.block(o.Offer, now)
				continue
			}
			held[zone]++
			offers[zone] = o
			running++
		}
		up += float64(running) / heldMachines / float64(steps)
		points = append(points, chart.Point{X: at.Hours() / 24, Y: float64(lost)})
	}
	return points, up, nil
}
