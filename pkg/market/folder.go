package market

import (
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"sort"
	"strings"
)

// onDemandFile is the name of the file with on-demand prices, for the markets in its folder and below.
const onDemandFile = "on-demand.csv"

// Market is the record of one market: a machine type in a zone.
type Market struct {
	Name        string // TYPE-ZONE, like the file name
	Type, Zone  string
	Spot        *Series
	OnDemandUSD float64
}

// ErrNoData is returned for a folder that contains no data files.
var ErrNoData = errors.New("no data found")

// ReadMarkets reads all price files below a folder, in both formats, gzipped or not. A file of one market is named
// TYPE-ZONE.csv; its on-demand price comes from on-demand.csv in the same folder or the nearest parent. A file of
// many markets contains its on-demand prices. The markets are returned in the order of their names. A market without
// an on-demand price is an error of type *BadData.
func ReadMarkets(dir fs.FS) ([]*Market, error) {
	files, err := find(dir, ".csv")
	if err != nil {
		return nil, err
	}
	onDemand := map[string]map[string]float64{} // folder -> type -> USD per hour
	var series []string
	for _, f := range files {
		if strings.TrimSuffix(path.Base(f), ".gz") != onDemandFile {
			series = append(series, f)
			continue
		}
		err := open(dir, f, func(in io.Reader) error {
			prices, err := readOnDemand(f, in)
			onDemand[path.Dir(f)] = prices
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	var markets []*Market
	for _, f := range series {
		got, err := readMarketFile(dir, f, onDemand)
		if err != nil {
			return nil, err
		}
		markets = append(markets, got...)
	}
	if len(markets) == 0 {
		return nil, fmt.Errorf("%w: the folder has no price file (.csv or .csv.gz)", ErrNoData)
	}
	sort.SliceStable(markets, func(i, j int) bool { return markets[i].Name < markets[j].Name })
	return markets, nil
}

func readMarketFile(dir fs.FS, file string, onDemand map[string]map[string]float64) (markets []*Market, err error) {
	many, err := manyMarkets(dir, file)
	if err != nil {
		return nil, err
	}
	err = open(dir, file, func(in io.Reader) error {
		if many {
			quotes, err := readQuotes(file, in)
			for _, q := range quotes {
				markets = append(markets, &Market{Name: q.Type + "-" + q.Zone, Type: q.Type, Zone: q.Zone,
					Spot: &q.Spot, OnDemandUSD: q.OnDemandUSD})
			}
			return err
		}
		m := &Market{Name: strings.TrimSuffix(strings.TrimSuffix(path.Base(file), ".gz"), ".csv")}
		m.Type, m.Zone, _ = strings.Cut(m.Name, "-")
		if m.Spot, err = readSeries(file, in); err != nil {
			return err
		}
		usd, ok := priceOf(m.Type, path.Dir(file), onDemand)
		if !ok {
			return &BadData{File: file,
				Reason: fmt.Sprintf("no on-demand price of %s: add a row for it to %s", m.Type,
					onDemandFile)}
		}
		m.OnDemandUSD = usd
		markets = append(markets, m)
		return nil
	})
	return markets, err
}

// priceOf looks up an on-demand price in the nearest file.
func priceOf(machine, folder string, onDemand map[string]map[string]float64) (usd float64, ok bool) {
	for {
		if usd, ok = onDemand[folder][machine]; ok || folder == "." {
			return usd, ok
		}
		folder = path.Dir(folder)
	}
}

// manyMarkets reports whether a price file holds many markets, that is, whether it has a column for the type.
func manyMarkets(dir fs.FS, file string) (many bool, err error) {
	err = open(dir, file, func(in io.Reader) error {
		head := make([]byte, 512)
		n, err := io.ReadFull(in, head)
		if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, io.EOF) {
			return &BadData{File: file, Reason: err.Error()}
		}
		line, _, _ := strings.Cut(string(head[:n]), "\n")
		many = strings.Contains(line, columnType)
		return nil
	})
	return many, err
}

// ReadTraces reads all availability traces below a folder (.json or .json.gz). Traces are named after their paths and
// returned in that order.
func ReadTraces(dir fs.FS) ([]*Trace, error) {
	files, err := find(dir, ".json")
	if err != nil {
		return nil, err
	}
	var traces []*Trace
	for _, f := range files {
		err := open(dir, f, func(in io.Reader) error {
			t, err := readTrace(f, in)
			if err != nil {
				return err
			}
			t.Name = strings.TrimSuffix(strings.TrimSuffix(f, ".gz"), ".json")
			traces = append(traces, t)
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	if len(traces) == 0 {
		return nil, fmt.Errorf("%w: the folder has no trace (.json or .json.gz)", ErrNoData)
	}
	return traces, nil
}

// find lists the files below a folder whose names end in ext, gzipped or not, in order.
func find(dir fs.FS, ext string) (files []string, err error) {
	err = fs.WalkDir(dir, ".", func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if !d.IsDir() && !strings.HasPrefix(d.Name(), ".") && strings.HasSuffix(strings.TrimSuffix(p, ".gz"), ext) {
			files = append(files, p)
		}
		return nil
	})
	return files, err
}

// open passes the content of a file to read and decompresses it if its name ends in .gz.
func open(dir fs.FS, name string, read func(io.Reader) error) error {
	f, err := dir.Open(name)
	if err != nil {
		return err
	}
	defer f.Close() //nolint:errcheck // read-only
	if !strings.HasSuffix(name, ".gz") {
		return read(f)
	}
	z, err := gzip.NewReader(f)
	if err != nil {
		return &BadData{File: name, Reason: "it is not gzipped: " + err.Error()}
	}
	return read(z)
}
