package skypilot

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/tradewind-broker/tradewind/pkg/catalog/internal/table"
)

// The columns of the schema, by header.
const (
	colInstanceType = "InstanceType"
	colAccelerator  = "AcceleratorName"
	colCount        = "AcceleratorCount"
	colVCPU         = "vCPUs"
	colMemory       = "MemoryGiB"
	colPrice        = "Price"
	colRegion       = "Region"
	colZone         = "AvailabilityZone"
	colSpotPrice    = "SpotPrice"
	colBand         = "SpotInterruptionBand"
	colEMR          = "EMRPrice"
	colArch         = "Arch"
)

// maxRows limits the rows of one file, to at least eight times the largest file of today.
const maxRows = 1 << 19

var requiredColumns = []string{colInstanceType, colAccelerator, colCount, colVCPU, colMemory, colPrice, colRegion}

// row is a line of a catalogue file, parsed but not yet interpreted.
type row struct {
	line         int
	instanceType string
	accelerator  string
	count        float64
	vcpu         float64
	memoryGiB    float64
	region, zone string
	onDemand     table.NanoUSD
	// priced is set if the file has an on-demand price, even if it is zero.
	priced bool
	spot   table.NanoUSD
	band   uint8 // an index into table.Bands
	emr    table.NanoUSD
	// arm is valid if archGiven: the file has an architecture.
	arm, archGiven bool
}

// readCSV reads one cloud's file into b.
func readCSV(file, cloud string, in io.Reader, b *table.Builder) error {
	r, err := newRowReader(file, in)
	if err != nil {
		return err
	}
	c := newCloudReader(file, cloud, b)
	for {
		row, err := r.next()
		if errors.Is(err, io.EOF) {
			return c.finish()
		}
		if err != nil {
			return err
		}
		if err := c.add(row); err != nil {
			return err
		}
	}
}

// rowReader turns CSV records into rows.
type rowReader struct {
	file   string
	csv    *csv.Reader
	at     map[string]int
	record []string
	// intern has one copy of each name. The CSV reader cuts fields from a buffer per line; using them directly would
	// keep all buffers in memory.
	intern map[string]string
	rows   int
}

func newRowReader(file string, in io.Reader) (*rowReader, error) {
	r := &rowReader{file: file, csv: csv.NewReader(in), at: make(map[string]int), intern: make(map[string]string)}
	r.csv.ReuseRecord = true
	header, err := r.csv.Read()
	if errors.Is(err, io.EOF) {
		return nil, &DataError{File: file, Line: 1, Reason: "is empty; want a header line"}
	}
	if err != nil {
		return nil, r.csvError(err)
	}
	for i, name := range header {
		name = strings.TrimSpace(strings.TrimPrefix(name, "\ufeff"))
		if _, twice := r.at[name]; twice && isKnownColumn(name) {
			return nil, &DataError{File: file, Line: 1, Column: name, Reason: "the header has this column twice"}
		}
		r.at[strings.Clone(name)] = i
	}
	for _, name := range requiredColumns {
		if _, ok := r.at[name]; !ok {
			return nil, &DataError{File: file, Line: 1, Column: name, Reason: "the header lacks this column"}
		}
	}
	return r, nil
}

func isKnownColumn(name string) bool {
	return slices.Contains(requiredColumns, name) ||
		slices.Contains([]string{colZone, colSpotPrice, colBand, colEMR, colArch}, name)
}

// next reads a row, or returns io.EOF.
func (r *rowReader) next() (*row, error) {
	record, err := r.csv.Read()
	if errors.Is(err, io.EOF) {
		return nil, io.EOF
	}
	if err != nil {
		return nil, r.csvError(err)
	}
	r.record = record
	line, _ := r.csv.FieldPos(0)
	if r.rows++; r.rows > maxRows {
		return nil, &DataError{File: r.file, Line: line, Reason: fmt.Sprintf("has more than %d rows", maxRows)}
	}
	p := rowParser{rowReader: r, line: line}
	out := &row{
		line:         line,
		instanceType: p.name(colInstanceType),
		accelerator:  p.text(colAccelerator),
		region:       p.name(colRegion),
		zone:         p.name(colZone),
		band:         p.band(),
	}
	out.arm, out.archGiven = p.arch()
	out.count, _ = p.number(colCount, table.MaxSize)
	var hasVCPU, hasMemory bool
	out.vcpu, hasVCPU = p.number(colVCPU, table.MaxSize)
	out.memoryGiB, hasMemory = p.number(colMemory, table.MaxSize)
	out.onDemand, out.priced = p.price(colPrice)
	out.spot, _ = p.price(colSpotPrice)
	out.emr, _ = p.price(colEMR)
	switch {
	case p.err != nil:
	case out.region == "":
		p.fail(colRegion, "is empty")
	case out.instanceType != "" && !hasVCPU:
		p.fail(colVCPU, "is empty")
	case out.instanceType != "" && !hasMemory:
		p.fail(colMemory, "is empty")
	case out.accelerator != "" && out.count == 0:
		p.fail(colCount, "is empty or zero although the row has an AcceleratorName")
	}
	if p.err != nil {
		return nil, p.err
	}
	return out, nil
}

func (r *rowReader) csvError(err error) error {
	var parse *csv.ParseError
	if errors.As(err, &parse) {
		return &DataError{File: r.file, Line: parse.Line, Reason: parse.Err.Error()}
	}
	return &DataError{File: r.file, Reason: err.Error()}
}

// rowParser reads the fields of one record and keeps the first error.
type rowParser struct {
	*rowReader
	line int
	err  error
}

func (p *rowParser) fail(column, reason string) {
	if p.err == nil {
		p.err = &DataError{File: p.file, Line: p.line, Column: column, Reason: reason}
	}
}

// field returns the text of a column, or "" if the file does not have the column.
func (p *rowParser) field(column string) string {
	i, ok := p.at[column]
	if !ok {
		return ""
	}
	return strings.TrimSpace(p.record[i])
}

// text returns an interned field of bounded length.
func (p *rowParser) text(column string) string {
	s := p.field(column)
	if s == "" {
		return ""
	}
	if interned, ok := p.intern[s]; ok {
		return interned
	}
	if len(s) > table.MaxNameLen {
		p.fail(column, fmt.Sprintf("%q… is longer than %d bytes", s[:32], table.MaxNameLen))
		return ""
	}
	s = strings.Clone(s)
	p.intern[s] = s
	return s
}

// name returns a text that can be a part of an offer's ID.
func (p *rowParser) name(column string) string {
	s := p.text(column)
	if s != "" && !table.ValidName(s) {
		p.fail(column, fmt.Sprintf("%q: want letters, digits and ._- only, and no word that offer IDs reserve", s))
		return ""
	}
	return s
}

// number reads a decimal from 0 to limit; given is false if the field is empty.
func (p *rowParser) number(column string, limit float64) (x float64, given bool) {
	s := p.field(column)
	if s == "" {
		return 0, false
	}
	x, err := strconv.ParseFloat(s, 64)
	switch {
	case err != nil || math.IsNaN(x) || math.IsInf(x, 0):
		p.fail(column, fmt.Sprintf("%.32q is not a number", s))
		return 0, true
	case x < 0:
		p.fail(column, fmt.Sprintf("%.32q is negative", s))
		return 0, true
	case x > limit:
		p.fail(column, fmt.Sprintf("%.32q is too large", s))
		return 0, true
	}
	return x, true
}

// price reads USD per hour.
func (p *rowParser) price(column string) (n table.NanoUSD, given bool) {
	usd, given := p.number(column, table.MaxUSDPerHour)
	return table.NanoUSD(math.Round(usd * 1e9)), given
}

func (p *rowParser) band() uint8 {
	s := p.field(colBand)
	i := slices.Index(table.Bands[:], s)
	if i < 0 {
		p.fail(colBand, fmt.Sprintf("%.32q: want <5%%, 5-10%%, 10-15%%, 15-20%%, >20%% or nothing", s))
		return 0
	}
	return uint8(i) //nolint:gosec // a handful
}

// arch reads the values of EC2's API and of Go. A type listed with i386 also runs x86-64: AWS retired the last one
// that did not.
func (p *rowParser) arch() (arm, given bool) {
	switch s := p.field(colArch); s {
	case "":
		return false, false
	case "x86_64", "i386", "amd64":
		return false, true
	case "arm64", "aarch64":
		return true, true
	default:
		p.fail(colArch, fmt.Sprintf("%.32q: want x86_64, i386 or arm64", s))
		return false, false
	}
}
