package catalog

import (
	_ "embed"
	"encoding/csv"
	"strconv"
	"strings"
	"sync"
)

// storageCSV has the prices of object stores by region, with their sources.
//
//go:embed data/storage.csv
var storageCSV string

// storage has USD per GiB and month by place, CLOUD:REGION. An entry without a region (CLOUD:) is for the cloud's
// other regions.
var storage = sync.OnceValue(func() map[string]float64 {
	m := map[string]float64{}
	r := csv.NewReader(strings.NewReader(storageCSV))
	r.Comment = '#'
	records, _ := r.ReadAll() // a test checks the embedded file
	for _, record := range records {
		m[record[0]+":"+record[1]], _ = strconv.ParseFloat(record[2], 64)
	}
	return m
})

// StorageUSD returns the price of storing a GiB for a month in the object store of a place, CLOUD:REGION, in USD. It
// returns 0 if the price is unknown.
func StorageUSD(place string) float64 {
	if usd, ok := storage()[place]; ok {
		return usd
	}
	cloud, _, _ := strings.Cut(place, ":")
	return storage()[cloud+":"]
}
