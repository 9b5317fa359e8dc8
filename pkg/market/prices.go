package market

import (
	"bufio"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"time"
)

// The columns of the two forms of price files.
const (
	columnTime     = "time"
	columnUSD      = "usd_per_hour"
	columnType     = "instance_type"
	columnZone     = "zone"
	columnSpot     = "spot_usd_per_hour"
	columnOnDemand = "on_demand_usd_per_hour"
	columnAccel    = "accelerator"
	columnCount    = "accelerator_count"
)

// MaxGap is the longest time between two entries of a file that records one market. Such feeds repeat the price at
// least once a day, so that a longer silence is data that was lost, not a price that stood still.
const MaxGap = 72 * time.Hour

// ReadSeries reads a file of one market: `time,usd_per_hour`, every change of the price in the order of time. Times are
// RFC 3339 with the same offset throughout. What is wrong is told as *BadData: a column missing, a field empty or no
// number, a price not positive, times unordered, without or with mixed offsets, or more than MaxGap apart.
func ReadSeries(name string, in io.Reader) (*Series, error) {
	rows, err := openRows(name, in, columnTime, columnUSD)
	if err != nil {
		return nil, err
	}
	var s Series
	var offset string
	for rows.next() {
		at, zone, err := rows.time(columnTime)
		if err != nil {
			return nil, err
		}
		usd, err := rows.price(columnUSD)
		if err != nil {
			return nil, err
		}
		if s.Len() == 0 {
			offset = zone
		} else {
			if zone != offset {
				return nil, rows.bad(columnTime, "the time zone is %s, in the rows before %s", zone, offset)
			}
			if gap := at.Sub(s.At(s.Len() - 1)); gap > MaxGap {
				return nil, rows.bad(columnTime, "no price for %.0f hours before it; a gap has to be at most %.0f",
					gap.Hours(), MaxGap.Hours())
			}
		}
		if err := s.Append(at, usd); err != nil {
			return nil, rows.bad(columnTime, "%v", err)
		}
	}
	if rows.err != nil {
		return nil, rows.err
	}
	if s.Len() == 0 {
		return nil, &BadData{File: name, Reason: "no price in it"}
	}
	return &s, nil
}

// Quote is one market of a file of many: what was recorded of it.
type Quote struct {
	// Type is the instance type, or the accelerator (with its count, as "A100:8") where it is sold without one.
	Type, Zone string
	Spot       Series
	// OnDemandUSD is the last on-demand price known, USD per hour; 0 where none was recorded.
	OnDemandUSD float64
}

// ReadQuotes reads a file of many markets:
// `time,instance_type,accelerator,accelerator_count,zone,spot_usd_per_hour,on_demand_usd_per_hour`, changes only. Each
// market is in the order of time; every time names its offset, which may differ from row to row. The markets come in
// the order of their first rows. Errors are *BadData.
func ReadQuotes(name string, in io.Reader) ([]*Quote, error) {
	rows, err := openRows(name, in, columnTime, columnType, columnZone, columnSpot, columnOnDemand)
	if err != nil {
		return nil, err
	}
	type key struct{ machine, zone string }
	var quotes []*Quote
	known := map[key]*Quote{}
	for rows.next() {
		machine := rows.field(columnType)
		if machine == "" {
			machine = rows.field(columnAccel)
			if n := rows.field(columnCount); n != "" && machine != "" {
				machine += ":" + n
			}
		}
		k := key{strings.Clone(machine), strings.Clone(rows.field(columnZone))}
		switch {
		case k.machine == "":
			return nil, rows.bad(columnType, "it is empty, and so is %s", columnAccel)
		case k.zone == "":
			return nil, rows.bad(columnZone, "it is empty")
		}
		at, _, err := rows.time(columnTime)
		if err != nil {
			return nil, err
		}
		usd, err := rows.price(columnSpot)
		if err != nil {
			return nil, err
		}
		q := known[k]
		if q == nil {
			q = &Quote{Type: k.machine, Zone: k.zone}
			known[k], quotes = q, append(quotes, q)
		}
		if rows.field(columnOnDemand) != "" {
			if q.OnDemandUSD, err = rows.price(columnOnDemand); err != nil {
				return nil, err
			}
		}
		if err := q.Spot.Append(at, usd); err != nil {
			return nil, rows.bad(columnTime, "%v", err)
		}
	}
	if rows.err != nil {
		return nil, rows.err
	}
	if len(quotes) == 0 {
		return nil, &BadData{File: name, Reason: "no price in it"}
	}
	return quotes, nil
}

// ReadOnDemand reads on-demand prices by instance type: `instance_type,usd_per_hour`. Errors are *BadData.
func ReadOnDemand(name string, in io.Reader) (map[string]float64, error) {
	rows, err := openRows(name, in, columnType, columnUSD)
	if err != nil {
		return nil, err
	}
	prices := map[string]float64{}
	for rows.next() {
		usd, err := rows.price(columnUSD)
		if err != nil {
			return nil, err
		}
		machine := strings.Clone(rows.field(columnType))
		if machine == "" {
			return nil, rows.bad(columnType, "it is empty")
		}
		if _, twice := prices[machine]; twice {
			return nil, rows.bad(columnType, "%s is there twice", machine)
		}
		prices[machine] = usd
	}
	return prices, rows.err
}

// rows reads a CSV file with a header, whose columns may come in any order.
type rows struct {
	file   string
	csv    *csv.Reader
	column map[string]int
	record []string
	err    error
}

// openRows reads the header and makes sure of the columns that are needed.
func openRows(name string, in io.Reader, needed ...string) (*rows, error) {
	r := &rows{file: name, csv: csv.NewReader(bufio.NewReader(in)), column: map[string]int{}}
	r.csv.ReuseRecord = true
	header, err := r.csv.Read()
	if errors.Is(err, io.EOF) {
		return nil, &BadData{File: name, Reason: "the file is empty"}
	}
	if err != nil {
		return nil, r.unreadable(err)
	}
	for i, c := range header {
		r.column[strings.Clone(strings.TrimSpace(strings.TrimPrefix(c, "\ufeff")))] = i
	}
	for _, c := range needed {
		if _, ok := r.column[c]; !ok {
			return nil, &BadData{File: name, Row: 1, Column: c, Reason: "there is no such column"}
		}
	}
	return r, nil
}

func (r *rows) next() bool {
	record, err := r.csv.Read()
	if errors.Is(err, io.EOF) {
		return false
	}
	if err != nil {
		r.err = r.unreadable(err)
		return false
	}
	r.record = record
	return true
}

// unreadable tells of an error of the CSV reader, or of what lies under it.
func (r *rows) unreadable(err error) error {
	var parse *csv.ParseError
	if errors.As(err, &parse) {
		return &BadData{File: r.file, Row: parse.Line, Reason: parse.Err.Error()}
	}
	return &BadData{File: r.file, Reason: err.Error()}
}

func (r *rows) bad(column, format string, args ...any) error {
	line, _ := r.csv.FieldPos(0)
	return &BadData{File: r.file, Row: line, Column: column, Reason: fmt.Sprintf(format, args...)}
}

// field is a column's text, empty where the file does not have the column.
func (r *rows) field(column string) string {
	i, ok := r.column[column]
	if !ok {
		return ""
	}
	return strings.TrimSpace(r.record[i])
}

func (r *rows) price(column string) (float64, error) {
	text := r.field(column)
	if text == "" {
		return 0, r.bad(column, "the price is missing")
	}
	usd, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return 0, r.bad(column, "%q is no number", text)
	}
	if !(usd > 0) || math.IsInf(usd, 0) {
		return 0, r.bad(column, "%v, not %s", ErrBadPrice, text)
	}
	return usd, nil
}

// time reads an instant, and the offset in which it is written.
func (r *rows) time(column string) (at time.Time, offset string, err error) {
	text := r.field(column)
	at, err = time.Parse(time.RFC3339Nano, text)
	if err != nil {
		if _, naive := parseNaive(text); naive {
			return at, "", r.bad(column, "%q does not say in which time zone it is", text)
		}
		return at, "", r.bad(column, "%q is no time such as 2026-04-02T10:55:58Z", text)
	}
	if strings.HasSuffix(text, "Z") {
		return at, "+00:00", nil
	}
	return at, text[len(text)-len("+00:00"):], nil
}

// parseNaive reads a time without an offset, to tell what is wrong with it.
func parseNaive(text string) (time.Time, bool) {
	for _, layout := range []string{"2006-01-02T15:04:05.999999999", "2006-01-02 15:04:05.999999999",
		"2006-01-02T15:04", time.DateOnly} {
		if at, err := time.Parse(layout, text); err == nil {
			return at, true
		}
	}
	return time.Time{}, false
}
