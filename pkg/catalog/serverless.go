package catalog

import (
	_ "embed"
	"encoding/csv"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// serverlessCSV has the prices of serverless services by region, with their sources.
//
//go:embed data/serverless.csv
var serverlessCSV string

// The services that run Spark without machines that a user sees. They have rates instead of offers.
const (
	EMRServerless      Service = "emr-serverless"
	DataprocServerless Service = "dataproc-serverless"
)

// ServerlessRate is the price of a serverless service in a region. A GB is 10⁹ bytes.
type ServerlessRate struct {
	Service Service `json:"service"`
	Cloud   string  `json:"cloud"`
	Region  string  `json:"region"`
	// USDPerVCPUHour and USDPerGBHour are the prices of EMR Serverless.
	USDPerVCPUHour float64 `json:"usdPerVCPUHour,omitempty"`
	USDPerGBHour   float64 `json:"usdPerGBHour,omitempty"`
	// USDPerDCUHour is the price of a data compute unit of Dataproc Serverless.
	USDPerDCUHour float64 `json:"usdPerDCUHour,omitempty"`
	// BillingMinimumSeconds is the shortest time that is billed for a worker or a batch.
	BillingMinimumSeconds float64 `json:"billingMinimumSeconds"`
}

// The data compute units of Dataproc Serverless (cloud.google.com/dataproc-serverless/pricing).
const (
	dcuPerVCPU        = 0.6
	dcuPerGB          = 0.1
	dcuPerFurtherGB   = 0.2 // above cheapGBPerVCPU for each vCPU
	cheapGBPerVCPU    = 8
	serverlessColumns = 7
)

// USDPerHour returns the price of a driver or executor of this size, in USD per hour.
func (r *ServerlessRate) USDPerHour(vcpus, gb float64) float64 {
	cheap := min(gb, cheapGBPerVCPU*vcpus)
	dcus := dcuPerVCPU*vcpus + dcuPerGB*cheap + dcuPerFurtherGB*(gb-cheap)
	return sumUSD(r.USDPerVCPUHour*vcpus+r.USDPerGBHour*gb, r.USDPerDCUHour*dcus)
}

var serverless = sync.OnceValue(func() (rates []ServerlessRate) {
	r := csv.NewReader(strings.NewReader(serverlessCSV))
	r.Comment, r.FieldsPerRecord = '#', serverlessColumns
	records, err := r.ReadAll()
	if err != nil {
		panic(err) // the file is part of the program, and a test reads it
	}
	for _, record := range records[1:] {
		var of [4]float64
		for i := range of {
			if of[i], err = strconv.ParseFloat(record[3+i], 64); err != nil {
				panic(err)
			}
		}
		rates = append(rates, ServerlessRate{Service(record[0]), record[1], record[2], of[0], of[1], of[2], of[3]})
	}
	return rates
})

// ServerlessRates returns the known prices of a serverless service. Regions whose price is unknown are missing.
func ServerlessRates(s Service) []ServerlessRate {
	return slices.DeleteFunc(slices.Clone(serverless()), func(r ServerlessRate) bool { return r.Service != s })
}
