package catalog

import (
	"compress/gzip"
	"encoding/csv"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// dataDir is the folder of the public data from which the snapshot is made.
const dataDir = "../../../shared/data"

// needData skips the test if the public data is missing.
func needData(t testing.TB) {
	t.Helper()
	if _, err := os.Stat(filepath.Join(dataDir, "catalog")); err != nil {
		t.Skipf("the public data is missing in %s: %v", dataDir, err)
	}
}

func published(t testing.TB) fs.FS {
	t.Helper()
	needData(t)
	return os.DirFS(filepath.Join(dataDir, "catalog"))
}

// everything returns a catalogue of all offers in the public data, including those that are not shipped because they
// cannot be bought.
func everything(t testing.TB) *Catalog {
	t.Helper()
	files := published(t)
	c, err := allOffers(files)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

var (
	allOnce  sync.Once
	allKnown *Catalog
	allErr   error
)

func allOffers(files fs.FS) (*Catalog, error) {
	allOnce.Do(func() { allKnown, allErr = Load(files) })
	return allKnown, allErr
}

func snapshot(t testing.TB) *Catalog {
	t.Helper()
	c, err := Default()
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// rawRow is an unchanged line of a published file.
type rawRow map[string]string

func (r rawRow) number(column string) float64 {
	x, err := strconv.ParseFloat(r[column], 64)
	if err != nil {
		return math.NaN()
	}
	return x
}

var rawOnce sync.Map

// raw reads a published file without using the package's code.
func raw(t testing.TB, cloud string) []rawRow {
	t.Helper()
	needData(t)
	if rows, ok := rawOnce.Load(cloud); ok {
		return rows.([]rawRow)
	}
	f, err := os.Open(filepath.Join(dataDir, "catalog", cloud+".csv.gz"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	records, err := csv.NewReader(z).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	rows := make([]rawRow, 0, len(records)-1)
	for _, record := range records[1:] {
		row := make(rawRow, len(record))
		for i, value := range record {
			row[records[0][i]] = value
		}
		rows = append(rows, row)
	}
	rawOnce.Store(cloud, rows)
	return rows
}

// sameUSD compares prices that may be sums in different orders.
func sameUSD(a, b float64) bool { return math.Abs(a-b) < 1e-9 }

func ids(matches []Match) string {
	var b strings.Builder
	for i := range matches {
		b.WriteString(matches[i].ID() + "\n")
	}
	return b.String()
}
