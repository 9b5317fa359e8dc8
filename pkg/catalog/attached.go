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

// attached is USD per GiB and hour of disk, and per hour of an address on demand and on spot, by cloud.
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

// AttachedUSD is what one machine's root disk and its public address cost beside the machine, USD
// per hour; 0 on a cloud that is not known.
func AttachedUSD(cloud string, diskGiB float64, m Market) float64 {
	usd := attached()[cloud]
	if m == Spot {
		return sumUSD(diskGiB*usd[0], usd[2])
	}
	return sumUSD(diskGiB*usd[0], usd[1])
}
