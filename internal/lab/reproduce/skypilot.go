package reproduce

import (
	"context"
	"strings"

	"github.com/tradewind-broker/tradewind/pkg/catalog"
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
