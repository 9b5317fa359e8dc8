package apitypes

// Problem is an error as the API answers it (RFC 9457), with extension members that say where in a job file
// it is.
type Problem struct {
	Title  string `json:"title" doc:"The kind of problem, the same every time"`
	Status int    `json:"status" doc:"HTTP status code"`
	Detail string `json:"detail,omitempty" doc:"What went wrong this time"`

	File   string `json:"file,omitempty" doc:"The job file, as the request named it"`
	Line   int    `json:"line,omitempty" doc:"Line in the file, from 1"`
	Column int    `json:"column,omitempty" doc:"Column in the line, from 1, in bytes"`
	Field  string `json:"field,omitempty" doc:"Path to the value, as the file spells it"`
	Reason string `json:"reason,omitempty" doc:"What is wrong with the value"`
	Hint   string `json:"hint,omitempty" doc:"What to do about it"`

	Errors []ErrorDetail `json:"errors,omitempty" doc:"Which parts of the request are wrong"`
}

// ErrorDetail is a part of a request that is wrong.
type ErrorDetail struct {
	Message  string `json:"message,omitempty" doc:"Error message text"`
	Location string `json:"location,omitempty" doc:"Where the error occurred, e.g. 'body.items[3].tags' or 'path.thing-id'"`
	Value    any    `json:"value,omitempty" doc:"The value at the given location"`
}

// Error is the problem in a sentence.
func (p *Problem) Error() string {
	if p.Detail != "" {
		return p.Detail
	}
	return p.Title
}

// GetStatus is the HTTP status code.
func (p *Problem) GetStatus() int { return p.Status }

// ContentType is the media type of problem documents.
func (p *Problem) ContentType(string) string { return ProblemType }

// ProblemType is the media type of a Problem.
const ProblemType = "application/problem+json"
