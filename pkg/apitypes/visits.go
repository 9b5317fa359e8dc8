package apitypes

// Visited is a visit that was opened.
type Visited struct {
	Job     string `json:"job" doc:"Job ID"`
	Attempt string `json:"attempt" doc:"The attempt, for the paths of the visit"`
	Visit   int    `json:"visit" doc:"Number of the visit within the attempt"`
	Within  string `json:"within,omitempty" doc:"How long it may take until the machine learns of the visit: 5m0s; empty if it does at once"`
}
