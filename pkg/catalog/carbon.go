package catalog

import (
	_ "embed"
	"encoding/csv"
	"strconv"
	"strings"
	"sync"
)

// google is the catalogue's name for Google Cloud.
const google = "gcp"

// carbonCSV is the carbon data that Google published for its regions for 2024. See data/README.md.
//
//go:embed data/carbon.csv
var carbonCSV string

// googleCarbon is the average carbon intensity of the grid of each Google
// region, in gCO2eq/kWh.
var googleCarbon = sync.OnceValue(func() map[string]float64 {
	m := make(map[string]float64)
	records, err := csv.NewReader(strings.NewReader(carbonCSV)).ReadAll()
	if err != nil {
		return m // a test checks the embedded file
	}
	for _, record := range records {
		if len(record) < 4 {
			continue
		}
		if g, err := strconv.ParseFloat(record[3], 64); err == nil {
			m[record[0]] = g
		}
	}
	return m
})

// carbonGPerKWh returns the carbon intensity of a region's grid in gCO2eq/kWh, 0 if unknown. Google publishes it for
// its own regions. Because it describes the grid, it also holds for another cloud's region in the same city, or in
// the same state or country if the cloud names no city. All other regions are unknown; nothing is guessed.
func carbonGPerKWh(cloud, region string) float64 {
	if cloud == google {
		return googleCarbon()[region]
	}
	return googleCarbon()[sameGrid[cloud][region]]
}

// sameGrid has the Google region on the same grid, by the locations that AWS ("AWS Regions") and Microsoft ("Azure
// regions list") publish for their regions. Lambda publishes none.
var sameGrid = map[string]map[string]string{
	"aws": {
		"ap-east-1":      "asia-east2",              // Hong Kong
		"ap-northeast-1": "asia-northeast1",         // Tokyo
		"ap-northeast-2": "asia-northeast3",         // Seoul
		"ap-northeast-3": "asia-northeast2",         // Osaka
		"ap-south-1":     "asia-south1",             // Mumbai
		"ap-southeast-1": "asia-southeast1",         // Singapore
		"ap-southeast-2": "australia-southeast1",    // Sydney
		"ap-southeast-3": "asia-southeast2",         // Jakarta
		"ap-southeast-4": "australia-southeast2",    // Melbourne
		"ca-central-1":   "northamerica-northeast1", // Montréal
		"eu-central-1":   "europe-west3",            // Frankfurt
		"eu-central-2":   "europe-west6",            // Zürich
		"eu-north-1":     "europe-north2",           // Stockholm
		"eu-south-1":     "europe-west8",            // Milan
		"eu-west-2":      "europe-west2",            // London
		"eu-west-3":      "europe-west9",            // Paris
		"il-central-1":   "me-west1",                // Tel Aviv
		"sa-east-1":      "southamerica-east1",      // São Paulo
		"us-east-1":      "us-east4",                // Northern Virginia
		"us-east-2":      "us-east5",                // Ohio
		"us-west-2":      "us-west1",                // Oregon
	},
	"azure": {
		"australiaeast":      "australia-southeast1",    // Sydney
		"australiasoutheast": "australia-southeast2",    // Melbourne
		"belgiumcentral":     "europe-west1",            // Belgium
		"brazilsouth":        "southamerica-east1",      // São Paulo
		"canadacentral":      "northamerica-northeast2", // Toronto
		"canadaeast":         "northamerica-northeast1", // Québec
		"centralus":          "us-central1",             // Iowa
		"chilecentral":       "southamerica-west1",      // Santiago
		"eastasia":           "asia-east2",              // Hong Kong
		"eastus":             "us-east4",                // Virginia
		"eastus2":            "us-east4",                // Virginia
		"francecentral":      "europe-west9",            // Paris
		"germanynorth":       "europe-west10",           // Berlin
		"germanywestcentral": "europe-west3",            // Frankfurt
		"indonesiacentral":   "asia-southeast2",         // Jakarta
		"israelcentral":      "me-west1",                // Israel
		"italynorth":         "europe-west8",            // Milan
		"japaneast":          "asia-northeast1",         // Tokyo
		"japanwest":          "asia-northeast2",         // Osaka
		"koreacentral":       "asia-northeast3",         // Seoul
		"mexicocentral":      "northamerica-south1",     // Querétaro
		"polandcentral":      "europe-central2",         // Warsaw
		"qatarcentral":       "me-central1",             // Doha
		"southafricanorth":   "africa-south1",           // Johannesburg
		"southcentralus":     "us-south1",               // Texas
		"southeastasia":      "asia-southeast1",         // Singapore
		"spaincentral":       "europe-southwest1",       // Madrid
		"switzerlandnorth":   "europe-west6",            // Zürich
		"uksouth":            "europe-west2",            // London
		"westeurope":         "europe-west4",            // Netherlands
		"westindia":          "asia-south1",             // Mumbai
	},
}
