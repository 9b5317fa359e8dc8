package catalog

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
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
	onDemand     nanoUSD
	// priced says that the file has an on-demand price, be it zero.
	priced bool
	spot   nanoUSD
	band   InterruptionBand
	emr    nanoUSD
	arch   Arch
}

// readCSV reads one cloud's file into b.
func readCSV(file, cloud string, in io.Reader, b *builder) error {
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
	// intern keeps one copy of each name: the CSV reader cuts fields from a buffer
	// per line, which they would keep alive.
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
		arch:         p.arch(),
		band:         p.band(),
	}
	out.count, _ = p.number(colCount, maxSize)
	var hasVCPU, hasMemory bool
	out.vcpu, hasVCPU = p.number(colVCPU, maxSize)
	out.memoryGiB, hasMemory = p.number(colMemory, maxSize)
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
		p.fail(colCount, "is empty or zero beside an AcceleratorName")
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

// field returns the text of a column, "" if the file has no such column.
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
	if len(s) > maxNameLen {
		p.fail(column, fmt.Sprintf("%q… is longer than %d bytes", s[:32], maxNameLen))
		return ""
	}
	s = strings.Clone(s)
	p.intern[s] = s
	return s
}

// name returns a text that can be a part of an offer's ID.
func (p *rowParser) name(column string) string {
	s := p.text(column)
	if s != "" && !validName(s) {
		p.fail(column, fmt.Sprintf("%q: want letters, digits and ._- only, and no word that offer IDs reserve", s))
		return ""
	}
	return s
}

// validName says whether s can be a part of an offer's ID.
func validName(s string) bool {
	if s == "" || len(s) > maxNameLen {
		return false
	}
	for i := range len(s) {
		c := s[i]
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
		if !letter && (c < '0' || c > '9') && c != '.' && c != '_' && c != '-' {
			return false
		}
	}
	switch s {
	case Spot.String(), OnDemand.String(), string(EMR), string(Dataproc):
		return false
	}
	return true
}

// validAccelerator says whether s can be attached to a machine type in an ID, or
// is empty.
func validAccelerator(s string) bool {
	for i := range len(s) {
		if c := s[i]; c <= ' ' || c > '~' || c == '/' || c == ':' || c == '+' {
			return false
		}
	}
	return len(s) <= maxNameLen
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
		p.fail(column, fmt.Sprintf("%q is not a number", clip(s)))
		return 0, true
	case x < 0:
		p.fail(column, fmt.Sprintf("%q is negative", clip(s)))
		return 0, true
	case x > limit:
		p.fail(column, fmt.Sprintf("%q is too large", clip(s)))
		return 0, true
	}
	return x, true
}

// price reads USD per hour.
func (p *rowParser) price(column string) (n nanoUSD, given bool) {
	usd, given := p.number(column, maxUSDPerHour)
	return nanoUSD(math.Round(usd * 1e9)), given
}

func (p *rowParser) band() InterruptionBand {
	s := p.field(colBand)
	b, err := ParseInterruptionBand(s)
	if err != nil {
		p.fail(colBand, fmt.Sprintf("%q: want <5%%, 5-10%%, 10-15%%, 15-20%%, >20%% or nothing", clip(s)))
	}
	return b
}

// arch reads the words of EC2's API and of Go. A type that runs i386 here also
// runs x86-64: AWS retired the last one that did not.
func (p *rowParser) arch() Arch {
	switch s := p.field(colArch); s {
	case "":
		return ""
	case "x86_64", "i386", "amd64":
		return AMD64
	case "arm64", "aarch64":
		return ARM64
	default:
		p.fail(colArch, fmt.Sprintf("%q: want x86_64, i386 or arm64", clip(s)))
		return ""
	}
}

func clip(s string) string {
	if len(s) > 32 {
		return s[:32] + "…"
	}
	return s
}
