package dag

import (
	"slices"
	"strings"
)

// InPlaces reports whether the places that a job allows (Job.Regions) include a region of a cloud. A place is "aws",
// "gcp:europe-west4", a region alone, or "eu", the member states of the European Union. No places means all places.
func InPlaces(allowed []string, cloud, region string) bool {
	return len(allowed) == 0 || slices.ContainsFunc(allowed, func(a string) bool {
		return a == cloud || a == cloud+":"+region || a == region ||
			a == europeanUnion && inEuropeanUnion(cloud, region)
	})
}

// europeanUnion means the regions in the member states of the European Union.
const europeanUnion = "eu"

// inEuropeanUnion reports whether a region is in the European Union, judging by its name.
func inEuropeanUnion(cloud, region string) bool {
	switch cloud {
	case "aws": // except London and Zurich
		return (strings.HasPrefix(region, "eu-") || strings.HasPrefix(region, "eusc-")) && region != "eu-west-2" &&
			region != "eu-central-2"
	case "gcp": // except London and Zurich
		return strings.HasPrefix(region, "europe-") && region != "europe-west2" && region != "europe-west6"
	case "azure":
		return slices.ContainsFunc([]string{"europe", "austria", "belgium", "denmark", "finland", "france", "germany",
			"greece", "italy", "poland", "spain", "sweden"}, func(part string) bool {
			return strings.Contains(region, part)
		})
	}
	return strings.HasPrefix(region, "europe-") || strings.HasPrefix(region, "eu-")
}
