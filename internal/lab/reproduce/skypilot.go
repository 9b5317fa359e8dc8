package reproduce

import (
	"context"
	"strings"

	"github.com/tradewind-broker/tradewind/internal/base/chart"
	"github.com/tradewind-broker/tradewind/pkg/catalog"
	"github.com/tradewind-broker/tradewind/pkg/market"
)

// choices counts what the clouds sell.
func choices(context.Context, *source) (Item, error) {
	item := Item{
		Title:   "machine types, regions and choices",
		Columns: []string{"cloud", "types", "regions", "zones", "fourCPUsInUS"},
		PaperRows: []Row{{"cloud": "the three largest together", "types": "hundreds", "regions": "dozens",
			"fourCPUsInUS": "at least 90"}},
		Note: "From the catalogue of this program (July 2026). The paper's table is a picture. `fourCPUsInUS` are " +
			"the pairs of a region in the United States and a type with 4 vCPUs of a compute-optimised family (AWS " +
			"c, Azure F, Google c, h).",
	}
	c, err := catalog.Default()
	if err != nil {
		return item, err
	}
	type counts struct{ types, regions, zones, four map[string]bool }
	by := map[string]*counts{}
	for o := range c.All() {
		n := by[o.Cloud]
		if n == nil {
			n = &counts{map[string]bool{}, map[string]bool{}, map[string]bool{}, map[string]bool{}}
			by[o.Cloud] = n
		}
		n.types[o.InstanceType], n.regions[o.Region], n.zones[o.Region+"/"+o.Zone] = true, true, true
		if o.VCPU == 4 && inUS(o.Region) && computeOptimised(o.Cloud, o.InstanceType) {
			n.four[o.Region+"/"+o.InstanceType] = true
		}
	}
	for _, cloud := range c.Clouds() {
		if n := by[cloud]; n != nil {
			item.Rows = append(item.Rows, Row{"cloud": cloud, "types": len(n.types), "regions": len(n.regions),
				"zones": len(n.zones), "fourCPUsInUS": len(n.four)})
		}
	}
	return item, nil
}

func inUS(region string) bool {
	return strings.HasPrefix(region, "us-") || strings.HasSuffix(region, "us") || strings.Contains(region, "eastus") ||
		strings.Contains(region, "westus") || strings.Contains(region, "centralus")
}

func computeOptimised(cloud, name string) bool {
	switch cloud {
	case "aws":
		return name[0] == 'c'
	case "azure":
		return strings.HasPrefix(name, "Standard_F")
	case "gcp":
		return name[0] == 'c' || name[0] == 'h'
	}
	return false
}

// preemptions counts the interruptions of 24 spot machines over 8 days, each of which waits for another machine in its
// zone after an interruption.
func preemptions(_ context.Context, s *source) (Item, error) {
	const machines, days = 24, 8
	item := Item{
		Title:   "interruptions of 24 spot machines in 8 days",
		Columns: []string{"trace", "interruptions", "minutesBetween", "machinesUp"},
		PaperRows: []Row{{"trace": "Google Cloud, 24 machines of one application", "interruptions": 319,
			"minutesBetween": 36}},
		Note: "The paper's run is not public. Here each recorded trace of several machines that lasts 8 days, scaled " +
			"to 24 machines: an interruption is a machine fewer than in the step before. `machinesUp` is the " +
			"mean share of machines that run.",
	}
	dir, err := s.folder("spot-availability")
	if err != nil {
		return item, err
	}
	traces, err := market.ReadTraces(dir)
	if err != nil {
		return item, err
	}
	panel := chart.Panel{Title: item.Title, X: chart.Axis{Label: "days"}, Y: chart.Axis{Label: "interruptions"}}
	for _, t := range traces {
		steps := int(days * 24 * 3600 / t.Gap.Seconds())
		most := int32(0)
		for _, n := range t.Available {
			most = max(most, n)
		}
		if len(t.Available) < steps || most < 2 {
			continue
		}
		scale := machines / float64(most)
		lost, up := 0.0, 0.0
		var points []chart.Point
		for i, n := range t.Available[:steps] {
			up += float64(n) / float64(most) / float64(steps)
			if i > 0 {
				lost += scale * float64(max(t.Available[i-1]-n, 0))
			}
			points = append(points, chart.Point{X: float64(i) * t.Gap.Hours() / 24, Y: lost})
		}
		row := Row{"trace": t.Name, "interruptions": lost, "machinesUp": up}
		if lost > 0 {
			row["minutesBetween"] = days * 24 * 60 / lost
		}
		item.Rows = append(item.Rows, row)
		panel.Series = append(panel.Series, chart.Series{Name: t.Name, Points: points, Style: chart.Steps})
	}
	item.Panels = []chart.Panel{panel}
	return item, nil
}
