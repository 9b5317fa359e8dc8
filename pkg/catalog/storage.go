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

// storage is USD per GiB and month by place, CLOUD:REGION; the place of a cloud without a region is for its others.
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

// StorageUSD is what keeping a GiB for a month costs in the object store of a place, CLOUD:REGION, USD; 0 on a cloud
// that has none that is known.
func StorageUSD(place string) float64 {
	if usd, ok := storage()[place]; ok {
		return usd
	}
	cloud, _, _ := strings.Cut(place, ":")
	return storage()[cloud+":"]
}
