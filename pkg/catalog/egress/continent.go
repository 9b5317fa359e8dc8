package egress

import "strings"

// continent is a geographic zone of Google's and Azure's transfer price lists.
type continent uint8

const (
	unknownContinent continent = iota
	northAmerica
	europe
	asia
	indonesia
	oceania
	middleEast
	africa
	southAmerica
)

// googleContinentUSD returns Google Cloud's list price per GiB between two of its regions ("VM-VM data transfer
// pricing within Google Cloud"). The more expensive of the two continents determines it; within one continent it is
// lower.
func googleContinentUSD(from, to continent) float64 {
	if from == to {
		switch from {
		case northAmerica, europe:
			return 0.02
		case asia, indonesia, oceania, middleEast:
			return 0.08
		case africa:
			return 0.11
		default:
			return 0.14
		}
	}
	dearer := func(c continent) bool { return from == c || to == c }
	switch {
	case dearer(southAmerica), dearer(unknownContinent),
		dearer(africa) && (dearer(oceania) || dearer(indonesia)):
		return 0.14
	case dearer(middleEast), dearer(africa):
		return 0.11
	case dearer(oceania) && dearer(indonesia):
		return 0.08
	case dearer(oceania), dearer(indonesia):
		return 0.10
	case dearer(asia):
		return 0.08
	default:
		return 0.05
	}
}

// azureContinentUSD returns Azure's list price per GiB between two of its regions ("Bandwidth pricing",
// inter-region). The source determines it.
func azureContinentUSD(from, to continent) float64 {
	switch from {
	case northAmerica, europe:
		if from == to {
			return 0.02
		}
		return 0.05
	case southAmerica, unknownContinent:
		return 0.16
	default:
		return 0.08
	}
}

// azureInternetFrom returns Azure's list price per GiB to the internet ("Bandwidth pricing", internet egress, after
// the free 100 GB).
func azureInternetFrom(c continent) float64 {
	switch c {
	case northAmerica, europe:
		return azureInternetUSD
	case southAmerica, unknownContinent:
		return 0.181
	default:
		return 0.12
	}
}

// continentOf returns the continent of a region of Google or Azure. Google's region names begin with it; Azure's
// contain the name of a country or a part of the world. An unknown region is priced like the most expensive one.
func continentOf(cloud, region string) continent {
	if cloud == google {
		if region == "asia-southeast2" {
			return indonesia
		}
		prefix, _, _ := strings.Cut(region, "-")
		return googleContinents(prefix)
	}
	for _, c := range azureContinents {
		for _, part := range c.names {
			if strings.Contains(region, part) {
				return c.continent
			}
		}
	}
	return unknownContinent
}

func googleContinents(prefix string) continent {
	switch prefix {
	case "us", "northamerica":
		return northAmerica
	case "europe":
		return europe
	case "asia":
		return asia
	case "australia":
		return oceania
	case "me":
		return middleEast
	case "africa":
		return africa
	case "southamerica":
		return southAmerica
	default:
		return unknownContinent
	}
}

// azureContinents are parts of Azure's region names, tried in order. "us" comes last because austria and australia
// contain it.
var azureContinents = [...]struct {
	continent continent
	names     []string
}{
	{oceania, []string{"australia", "newzealand"}},
	{europe, []string{
		"europe", "austria", "belgium", "denmark", "finland", "france", "germany", "greece", "italy", "norway",
		"poland", "spain", "sweden", "switzerland", "uksouth", "ukwest",
	}},
	{southAmerica, []string{"brazil", "chile"}},
	{middleEast, []string{"israel", "qatar", "uae", "saudi"}},
	{africa, []string{"africa"}},
	{asia, []string{"asia", "japan", "korea", "india", "indonesia", "malaysia", "taiwan"}},
	{northAmerica, []string{"canada", "mexico", "us"}},
}
