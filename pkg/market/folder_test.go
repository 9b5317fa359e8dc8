package market_test

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/tradewind-broker/tradewind/pkg/market"
)

const quotesHead = "time,instance_type,accelerator,accelerator_count,zone,spot_usd_per_hour,on_demand_usd_per_hour\n"

func gzipped(t *testing.T, text string) *fstest.MapFile {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := z.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return &fstest.MapFile{Data: b.Bytes()}
}

func plainFile(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }

// A folder may contain files of both formats, plain or gzipped. Markets are sorted by name. On-demand prices in a
// folder take precedence over those in its parent folders.
func TestReadMarketsReadsBothFormats(t *testing.T) {
	dir := fstest.MapFS{
		"z.csv.gz": gzipped(t, quotesHead+
			"2026-04-02T10:00:00Z,t3.small,,,us-west-2a,0.01,0.02\n"+
			"2026-04-02T10:00:00Z,,A100,8,b,8.8,\n"),
		"near/far/c5.large-eu-west-1a.csv": plainFile("time,usd_per_hour\n2016-01-01T00:00:00Z,0.02\n"),
		"near/m4.large-eu-west-1a.csv":     plainFile("time,usd_per_hour\n2016-01-01T00:00:00Z,0.03\n"),
		"near/on-demand.csv":               plainFile("instance_type,usd_per_hour\nm4.large,0.11\n"),
		"on-demand.csv.gz":                 gzipped(t, "instance_type,usd_per_hour\nm4.large,0.9\nc5.large,0.1\n"),
		"readme.txt":                       plainFile("not prices"),
	}
	markets, err := market.ReadMarkets(dir)
	if err != nil {
		t.Fatal(err)
	}
	want := []struct {
		name, machine, zone string
		spot, onDemand      float64
	}{
		{"A100:8-b", "A100:8", "b", 8.8, 0},
		{"c5.large-eu-west-1a", "c5.large", "eu-west-1a", 0.02, 0.1},
		{"m4.large-eu-west-1a", "m4.large", "eu-west-1a", 0.03, 0.11},
		{"t3.small-us-west-2a", "t3.small", "us-west-2a", 0.01, 0.02},
	}
	if len(markets) != len(want) {
		t.Fatalf("%d markets, not %d", len(markets), len(want))
	}
	for i, w := range want {
		m := markets[i]
		if m.Name != w.name || m.Type != w.machine || m.Zone != w.zone ||
			m.Spot.USD(0) != w.spot || m.OnDemandUSD != w.onDemand {
			t.Errorf("market %d is %+v at %v, not %+v", i, m, m.Spot.USD(0), w)
		}
	}
}

// One file in a folder is bad. The error must have the file's path, and no further file is read.
func TestReadMarketsNamesBadFile(t *testing.T) {
	good := plainFile("time,usd_per_hour\n2016-01-01T00:00:00Z,0.02\n")
	for _, c := range []struct {
		name string
		dir  fstest.MapFS
		want string
	}{
		{"prices", fstest.MapFS{"a/b-c.csv": plainFile("time,usd_per_hour\n2016-01-01T00:00:00Z,-1\n"),
			"on-demand.csv": plainFile("instance_type,usd_per_hour\nb,1\n")}, "a/b-c.csv: row 2, column usd_per_hour: "},
		{"quotes", fstest.MapFS{"q.csv": plainFile(quotesHead + "2026-04-02T10:00:00Z,a,,,z,x,1\n")},
			"q.csv: row 2, column spot_usd_per_hour: "},
		{"on demand", fstest.MapFS{"b-c.csv": good, "on-demand.csv": plainFile("instance_type\nb\n")},
			"on-demand.csv: row 1, column usd_per_hour: the column is missing"},
		{"only another type", fstest.MapFS{"b-c.csv": good, "on-demand.csv": plainFile("instance_type,usd_per_hour\nc,1\n")},
			"b-c.csv: no on-demand price of b: add a row for it to on-demand.csv"},
		{"a folder beside", fstest.MapFS{"x/b-c.csv": good,
			"y/on-demand.csv": plainFile("instance_type,usd_per_hour\nb,1\n")},
			"x/b-c.csv: no on-demand price of b: "},
		{"cut off", fstest.MapFS{"b-c.csv.gz": {Data: gzipped(t, strings.Repeat("2016,1\n", 500)).Data[:20]}},
			"b-c.csv.gz: unexpected EOF"},
		{"not gzipped", fstest.MapFS{"b-c.csv.gz": good}, "b-c.csv.gz: it is not gzipped: gzip: invalid header"},
		{"empty", fstest.MapFS{"b-c.csv": plainFile("")}, "b-c.csv: the file is empty"},
	} {
		_, err := market.ReadMarkets(c.dir)
		if !errors.Is(err, market.ErrBadData) || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%s: %v, not %s…", c.name, err, c.want)
		}
	}
}

// broken is a file system in which one file cannot be opened and one cannot be read.
type broken struct {
	fstest.MapFS
	open, read string
}

var errDisk = errors.New("input/output error")

func (b broken) Open(name string) (fs.File, error) {
	if name == b.open {
		return nil, errDisk
	}
	f, err := b.MapFS.Open(name)
	if name == b.read {
		f = unreadable{f}
	}
	return f, err
}

// ReadDir is called when a folder is walked.
func (b broken) ReadDir(name string) ([]fs.DirEntry, error) {
	if name == b.open {
		return nil, errDisk
	}
	return b.MapFS.ReadDir(name)
}

type unreadable struct{ fs.File }

func (unreadable) Read([]byte) (int, error) { return 0, errDisk }

func TestReadReportsUnreadableFiles(t *testing.T) {
	files := fstest.MapFS{
		"b-c.csv":       plainFile("time,usd_per_hour\n2016-01-01T00:00:00Z,0.02\n"),
		"on-demand.csv": plainFile("instance_type,usd_per_hour\nb,1\n"),
		"t.json":        plainFile(`{"metadata":{"gap_seconds":195},"data":[1]}`),
	}
	for name, dir := range map[string]broken{
		"prices":            {files, "b-c.csv", ""},
		"prices, read":      {files, "", "b-c.csv"},
		"on demand":         {files, "on-demand.csv", ""},
		"on demand, read":   {files, "", "on-demand.csv"},
		"the folder itself": {files, ".", ""},
	} {
		if markets, err := market.ReadMarkets(dir); err == nil || !strings.Contains(err.Error(), errDisk.Error()) {
			t.Errorf("%s: %d markets, %v", name, len(markets), err)
		}
	}
	for name, dir := range map[string]broken{
		"a trace":           {files, "t.json", ""},
		"a trace, read":     {files, "", "t.json"},
		"the folder itself": {files, ".", ""},
	} {
		if traces, err := market.ReadTraces(dir); err == nil || !strings.Contains(err.Error(), errDisk.Error()) {
			t.Errorf("%s: %d traces, %v", name, len(traces), err)
		}
	}
}

func TestReadTracesSortsByPath(t *testing.T) {
	dir := fstest.MapFS{
		"v100/b.json.gz": gzipped(t, `{"metadata":{"gap_seconds":195},"data":[0,1,16]}`),
		"k80/z.json":     plainFile(`{"metadata":{"gap_seconds":600},"data":[2]}`),
		"k80/z.txt":      plainFile("no trace"),
	}
	traces, err := market.ReadTraces(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(traces) != 2 || traces[0].Name != "k80/z" || traces[1].Name != "v100/b" || traces[0].Gap != 10*time.Minute ||
		len(traces[1].Available) != 3 {
		t.Errorf("%+v", traces)
	}
	dir["bad.json"] = plainFile(`{"metadata":{"gap_seconds":195},"data":[-1]}`)
	_, err = market.ReadTraces(dir)
	if !errors.Is(err, market.ErrBadData) || !strings.HasPrefix(err.Error(), "bad.json") {
		t.Errorf("a negative number of machines: %v", err)
	}
	if _, err := market.ReadTraces(fstest.MapFS{}); !errors.Is(err, market.ErrNoData) {
		t.Errorf("an empty folder: %v", err)
	}
}

// Up must report whether at least the given number of nodes is available. Zero nodes count as one.
func TestTraceUp(t *testing.T) {
	trace := market.Trace{Available: []int32{0, 1, 2, 3}}
	for nodes, first := range map[int]int{-1: 1, 0: 1, 1: 1, 2: 2, 3: 3, 4: 4} {
		for i, up := range trace.Up(nodes) {
			if up != (i >= first) {
				t.Errorf("%d available for %d nodes: %v", i, nodes, up)
			}
		}
	}
}
