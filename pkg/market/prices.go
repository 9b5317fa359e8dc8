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

// The columns of the two price file formats.
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

// maxGap is the maximum time between two entries in a file of one market. Such feeds repeat the price at least once a
// day, so a longer gap means that data was lost, not that the price was constant.
const maxGap = 72 * time.Hour

// readSeries reads a file of one market with the columns `time,usd_per_hour`: every price change, in time order.
// Times are RFC 3339 and must all have the same offset. Errors are *BadData: a missing column, an empty or
// non-numeric field, a price that is not positive, or times that are unordered, without offset, with mixed offsets,
// or more than 72 hours apart.
func readSeries(name string, in io.Reader) (*Series, error) {
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
				return nil, rows.bad(columnTime, "the time zone is %s, but the rows before have %s", zone, offset)
			}
			if gap := at.Sub(s.At(s.Len() - 1)); gap > maxGap {
				return nil, rows.bad(columnTime, "gap of %.0f hours without a price; at most %.0f are allowed",
					gap.Hours(), maxGap.Hours())
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
		return nil, &BadData{File: name, Reason: "the file has no prices"}
	}
	return &s, nil
}

// quote is the recorded history of one market in a file of many.
type quote struct {
	// Type is the instance type, or the accelerator with its count (such as "A100:8") if the row has no instance
	// type.
	Type, Zone string
	Spot       Series
	// OnDemandUSD is the latest recorded on-demand price, in USD per hour; 0 if none was recorded.
	OnDemandUSD float64
}

// readQuotes reads a file of many markets with the columns
// `time,instance_type,accelerator,accelerator_count,zone,spot_usd_per_hour,on_demand_usd_per_hour`. It contains price
// changes only. The rows of each market are in time order; every time has an offset, which may differ from row to
// row. The markets are returned in the order of their first rows. Errors are *BadData.
func readQuotes(name string, in io.Reader) ([]*quote, error) {
	rows, err := openRows(name, in, columnTime, columnType, columnZone, columnSpot, columnOnDemand)
	if err != nil {
		return nil, err
	}
	type key struct{ machine, zone string }
	var quotes []*quote
	known := map[key]*quote{}
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
			return nil, rows.bad(columnType, "it is empty, and %s is empty too", columnAccel)
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
			q = &quote{Type: k.machine, Zone: k.zone}
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
		return nil, &BadData{File: name, Reason: "the file has no prices"}
	}
	return quotes, nil
}

// readOnDemand reads a file with the columns `instance_type,usd_per_hour` and returns the on-demand prices by
// instance type, in USD per hour. Errors are *BadData.
func readOnDemand(name string, in io.Reader) (map[string]float64, error) {
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
			return nil, rows.bad(columnType, "%s is listed twice", machine)
		}
		prices[machine] = usd
	}
	return prices, rows.err
}

// rows reads a CSV file with a header. Columns may come in any order.
type rows struct {
	file   string
	csv    *csv.Reader
	column map[string]int
	record []string
	err    error
}

// openRows reads the header and checks that it has the needed columns.
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
			return nil, &BadData{File: name, Row: 1, Column: c, Reason: "the column is missing"}
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

// unreadable converts an error of the CSV reader, or of the reader below it, to *BadData.
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

// field returns the text of a column, or "" if the file does not have the column.
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
		return 0, r.bad(column, "%q is not a number", text)
	}
	if !(usd > 0) || math.IsInf(usd, 0) {
		return 0, r.bad(column, "%v, not %s", ErrBadPrice, text)
	}
	return usd, nil
}

// time parses an instant and returns it with the offset that the text has.
func (r *rows) time(column string) (at time.Time, offset string, err error) {
	text := r.field(column)
	at, err = time.Parse(time.RFC3339Nano, text)
	if err != nil {
		if _, naive := parseNaive(text); naive {
			return at, "", r.bad(column, "%q has no time zone", text)
		}
		return at, "", r.bad(column, "%q is not a time such as 2026-04-02T10:55:58Z", text)
	}
	if strings.HasSuffix(text, "Z") {
		return at, "+00:00", nil
	}
	return at, text[len(text)-len("+00:00"):], nil
}

// parseNaive parses a time without an offset, for a better error message.
func parseNaive(text string) (time.Time, bool) {
	for _, layout := range []string{"2006-01-02T15:04:05.999999999", "2006-01-02 15:04:05.999999999",
		"2006-01-02T15:04", time.DateOnly} {
		if at, err := time.Parse(layout, text); err == nil {
			return at, true
		}
	}
	return time.Time{}, false
}
