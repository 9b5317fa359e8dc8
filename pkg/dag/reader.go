package dag

import (
	"bytes"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/tradewind-broker/tradewind/internal/base/fault"
)

// NewJob returns the job for a reader to fill, named after the file. The reader also fills the origin, so that later
// errors have a position in the file.
func NewJob(file string, format Format) (*Job, *Origin) {
	o := &Origin{File: file}
	return &Job{Name: NameFromFile(file), Objective: MinimizeCost, Infeasible: Retry, Format: format, origin: o}, o
}

// CheckJob is the last step of a reader: it returns the job if it is valid, or else an error that names the file.
func CheckJob(file string, j *Job, err error) (*Job, error) {
	if err == nil {
		err = j.Validate()
	}
	if err != nil {
		return nil, fault.WithRest(fault.InFile(file, err), j)
	}
	return j, nil
}

// RestOf returns the part of a job that a reader could read in spite of the faults in its error, or nil. It is not
// valid, and only good for finding further faults, such as files that are missing.
func RestOf(err error) *Job {
	j, _ := fault.RestOf(err).(*Job)
	return j
}

// Namer gives imported tasks and outputs valid and unique names that are as close as possible to those in the file.
type Namer struct {
	taken map[string]bool
	next  map[string]int // by name: the next number to append if it is taken
}

// NewNamer returns a Namer for about size names.
func NewNamer(size int) *Namer {
	return &Namer{taken: make(map[string]bool, size), next: map[string]int{}}
}

// Name returns a unique name like s, or like otherwise if s has no valid characters.
func (n *Namer) Name(s, otherwise string) string {
	base := ToName(s, otherwise)
	if !n.taken[base] {
		n.taken[base] = true
		return base
	}
	for k := max(2, n.next[base]); ; k++ {
		suffix := "-" + strconv.Itoa(k)
		name := base[:min(len(base), maxNameBytes-len(suffix))] + suffix
		if !n.taken[name] {
			n.taken[name] = true
			n.next[base] = k + 1
			return name
		}
	}
}

// NameFromFile makes the name of a job from the name of its file.
func NameFromFile(file string) string {
	base := strings.TrimSuffix(filepath.Base(file), ".gz")
	if ext := filepath.Ext(base); ext != base {
		base = strings.TrimSuffix(base, ext)
	}
	return ToName(base, "job")
}

// ToName makes a name from any text: it replaces invalid characters with '-'. If no character is left it returns
// otherwise.
func ToName(s, otherwise string) string {
	b := []byte(strings.TrimSpace(s))
	for i, c := range b {
		if !fault.IsAlnum(c) && c != '.' && c != '_' && c != '-' {
			b[i] = '-'
		}
	}
	b = bytes.TrimLeft(b, "-._")
	if len(b) > maxNameBytes {
		b = b[:maxNameBytes]
	}
	if len(b) == 0 {
		return otherwise
	}
	return string(b)
}
