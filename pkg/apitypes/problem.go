package apitypes

// Problem is an error response of the API (RFC 9457), with extension members that give its position in a job
// file.
type Problem struct {
	Title  string `json:"title" doc:"The kind of problem; constant for each kind"`
	Status int    `json:"status" doc:"HTTP status code"`
	Detail string `json:"detail,omitempty" doc:"What went wrong this time"`

	File   string `json:"file,omitempty" doc:"The job file, as the request named it"`
	Line   int    `json:"line,omitempty" doc:"Line in the file, from 1"`
	Column int    `json:"column,omitempty" doc:"Column in the line, from 1, in bytes"`
	Field  string `json:"field,omitempty" doc:"Path to the value, with the keys as in the file"`
	Reason string `json:"reason,omitempty" doc:"What is wrong with the value"`
	Hint   string `json:"hint,omitempty" doc:"How to fix it"`

	Errors []ErrorDetail `json:"errors,omitempty" doc:"Which parts of the request are wrong"`
}

// ErrorDetail describes an invalid part of a request.
type ErrorDetail struct {
	Message  string `json:"message,omitempty" doc:"Error message text"`
	Location string `json:"location,omitempty" doc:"Where the error occurred, e.g. 'body.items[3].tags' or 'path.thing-id'"`
	Value    any    `json:"value,omitempty" doc:"The value at the given location"`
}

// Error returns the problem as a sentence.
func (p *Problem) Error() string {
	if p.Detail != "" {
		return p.Detail
	}
	return p.Title
}

// GetStatus returns the HTTP status code.
func (p *Problem) GetStatus() int { return p.Status }

// ContentType returns the media type of problem documents.
func (p *Problem) ContentType(string) string { return ProblemType }

// ProblemType is the media type of a Problem.
const ProblemType = "application/problem+json"
