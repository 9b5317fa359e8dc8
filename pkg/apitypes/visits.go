package apitypes

// Visited is a visit that was opened.
type Visited struct {
	Job     string `json:"job" doc:"Job ID"`
	Attempt string `json:"attempt" doc:"The attempt, for the paths of the visit"`
	Visit   int    `json:"visit" doc:"Number of the visit, of the attempt"`
	Within  string `json:"within,omitempty" doc:"How long the machine may take to hear of it: 5m0s; empty if it does at once"`
}
