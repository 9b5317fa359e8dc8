package wire

// Paths by which an agent attends to people who visit its machine (package tunnel). Beside what holds for every path,
// 404 says that there is no such visit, or no longer, on the agent's own node.
const (
	PathVisits = "/v1/agent/visits" // GET ?after=N -> Visits, those of the node that are open
	// The paths of one visit lie below /v1/agent/visits/N.
	VisitFromPerson  = "/person"  // GET ?offset=N&wait=20s -> bytes of the person's
	VisitFromMachine = "/machine" // POST ?offset=N, bytes of the machine's -> 204; 429 while the person is behind
	VisitEnd         = "/end"     // POST VisitEnded -> 204
)

// Visits are those that an agent has to attend to.
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
	Exit   *int   `json:"exit,omitempty"`   // the command's exit code, of one that ran
	Reason string `json:"reason,omitempty"` // else
}
