package catalog

import (
	_ "embed"
	"encoding/csv"
	"strconv"
	"strings"
	"sync"
)

// attachedCSV has the prices of root disks and public addresses by cloud, with their sources.
//
//go:embed data/attached.csv
var attachedCSV string

// attached has for each cloud USD per GiB and hour of disk, and USD per hour of an address on demand and on spot.
var attached = sync.OnceValue(func() map[string][3]float64 {
	m := map[string][3]float64{}
	r := csv.NewReader(strings.NewReader(attachedCSV))
	r.Comment = '#'
	records, _ := r.ReadAll() // a test checks the embedded file
	for _, record := range records {
		var usd [3]float64
		for i := range usd {
			usd[i], _ = strconv.ParseFloat(record[i+1], 64)
		}
		usd[0] /= hoursPerMonth
		m[record[0]] = usd
	}
	return m
})

// AttachedUSD returns the cost of one machine's root disk and public address, in USD per hour, without the machine.
// It returns 0 for an unknown cloud.
func AttachedUSD(cloud string, diskGiB float64, m Market) float64 {
	usd := attached()[cloud]
	if m == Spot {
		return sumUSD(diskGiB*usd[0], usd[2])
	}
	return sumUSD(diskGiB*usd[0], usd[1])
}
