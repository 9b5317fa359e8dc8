package hardware

import (
	"compress/gzip"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Boots are measured boot times of machines, in seconds.
type Boots struct {
	byType  map[[2]string][]float64 // by cloud and type, sorted
	byCloud map[string][]float64
}

// fewBoots is the number of measurements of a type below which the measurements of its whole cloud are better.
const fewBoots = 5

// Columns of a file of boot times; others are ignored.
const (
	columnCloud = "cloud"
	columnType  = "type"
	columnBoot  = "first_script_line_s"
)

// ReadBoots reads boot times from CSV with the columns cloud, type and first_script_line_s, the seconds from the
// request of a machine to the first line of its start script. The error names the line and the column.
func ReadBoots(from io.Reader) (*Boots, error) {
	r := csv.NewReader(from)
	header, err := r.Read()
	if err != nil {
		return nil, fmt.Errorf("line 1: no header: %w", err)
	}
	var at [3]int
	for i, column := range []string{columnCloud, columnType, columnBoot} {
		if at[i] = slices.Index(header, column); at[i] < 0 {
			return nil, fmt.Errorf("line 1: the column %s is missing", column)
		}
	}
	b := &Boots{byType: map[[2]string][]float64{}, byCloud: map[string][]float64{}}
	for {
		record, err := r.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err // it names the line
		}
		line, _ := r.FieldPos(at[2])
		cloud, instanceType, text := record[at[0]], record[at[1]], record[at[2]]
		s, err := strconv.ParseFloat(text, 64)
		if err != nil || !(s > 0) || s > time.Hour.Seconds() {
			return nil, fmt.Errorf("line %d: %s: %q is not between 0 and 3600 seconds", line, columnBoot, text)
		}
		b.byType[[2]string{cloud, instanceType}] = append(b.byType[[2]string{cloud, instanceType}], s)
		b.byCloud[cloud] = append(b.byCloud[cloud], s)
	}
	if len(b.byCloud) == 0 {
		return nil, errors.New("line 1: no boot times follow the header")
	}
	for _, of := range b.byType {
		slices.Sort(of)
	}
	for _, of := range b.byCloud {
		slices.Sort(of)
	}
	return b, nil
}

// ReadBootsFile reads a file of boot times, which may be compressed with gzip.
func ReadBootsFile(name string) (*Boots, error) {
	f, err := os.Open(name) //nolint:gosec // the user names the file
	if err != nil {
		return nil, err // it names the file
	}
	defer f.Close() //nolint:errcheck // only read
	from := io.Reader(f)
	if strings.HasSuffix(name, ".gz") {
		if from, err = gzip.NewReader(f); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	boots, err := ReadBoots(from)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return boots, nil
}

// Quantile returns the boot time that the share p of a machine type's measurements does not exceed. If the type has
// few measurements, it uses those of its cloud. ok is false for a cloud without any.
func (b *Boots) Quantile(cloud, instanceType string, p float64) (boot time.Duration, ok bool) {
	of := b.byType[[2]string{cloud, instanceType}]
	if len(of) < fewBoots {
		of = b.byCloud[cloud]
	}
	if len(of) == 0 {
		return 0, false
	}
	return seconds(of[min(int(p*float64(len(of))), len(of)-1)]), true
}
