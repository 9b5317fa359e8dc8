package wire

// Paths by which an agent serves users who visit its machine (package tunnel). In addition to the status codes that
// hold for every path, 404 means that the visit does not exist, or no longer exists, on the agent's node.
const (
	PathVisits = "/v1/agent/visits" // GET ?after=N -> Visits, the open visits of the node
	// The paths of one visit lie below /v1/agent/visits/N.
	VisitFromPerson  = "/person"  // GET ?offset=N&wait=20s -> bytes from the user
	VisitFromMachine = "/machine" // POST ?offset=N, bytes from the machine -> 204; 429 while the user is behind
	VisitEnd         = "/end"     // POST VisitEnded -> 204
)

// Visits are the visits that an agent has to serve.
type Visits struct {
	Visits []Visit `json:"visits" nullable:"false"`
}

// Visit is one of them.
type Visit struct {
	Number int    `json:"number"`
	Kind   string `json:"kind"`
	Port   int    `json:"port,omitempty"` // of a forward
}

// VisitEnded is how a visit ended.
type VisitEnded struct {
	Exit   *int   `json:"exit,omitempty"`   // exit code of the command, if one ran
	Reason string `json:"reason,omitempty"` // why the visit ended, if there is no exit code
}
