package dag

import (
	"github.com/tradewind-broker/tradewind/internal/base/fault"
	"github.com/tradewind-broker/tradewind/pkg/dag/internal/jobtext"
)

// NewJob returns the job for a reader to fill, named after the file. The reader also fills the origin, so that later
// errors have a position in the file.
func NewJob(file string, format Format) (*Job, *Origin) {
	o := &Origin{File: file}
	return &Job{Name: jobtext.NameFromFile(file), Objective: MinimizeCost, Infeasible: Retry, Format: format,
		origin: o}, o
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

// RestOf returns the part of a job that a reader could read in spite of faults, from the reader's
// error; nil if there is none. That job is not valid. Use it only to find further faults, such as
// missing files.
func RestOf(err error) *Job {
	j, _ := fault.RestOf(err).(*Job)
	return j
}

// ToName makes a name from any text: it replaces invalid characters with '-'. If no character is left it returns
// otherwise.
func ToName(s, otherwise string) string { return jobtext.ToName(s, otherwise) }
