package wire

// Gang is what a node is told of those that it works with.
type Gang struct {
	Name string `json:"name,omitempty"` // empty of a task that is in none
	Role string `json:"role"`           // of this node's task
	// First is the rank in its role of the task's first node: above 0 where it joins machines that began before.
	First int `json:"first,omitempty"`
	// Least and Most are how many nodes the gang begins with, and how many it may have: the others join while it runs,
	// and may leave. 0 where those are the same.
	Least int `json:"least,omitempty"`
	Most  int `json:"most,omitempty"`
	// Framework is in whose words the node's task hears of the others; empty is none.
	Framework string `json:"framework,omitempty"`
	Chief     bool   `json:"chief,omitempty"` // with this node's task the gang's work ends
	// Members are the tasks of the gang, the node's own among them, in the order of the job's file, then those that
	// have joined. One that has succeeded before is not there.
	Members []Member `json:"members"`
	// Key is a secret of the gang's nodes, by which one may run programs on another; empty where nothing does.
	Key []byte `json:"key,omitempty"`
}

// Member is a task of a gang, with all of its nodes.
type Member struct {
	Role  string   `json:"role"`
	First int      `json:"first,omitempty"` // rank in the role of its first node
	Task  string   `json:"task"`
	Nodes []string `json:"nodes"` // addresses by rank
	// Slots is how many processes each node is for: its accelerators, or else its vCPUs.
	Slots int `json:"slots"`
	// Attempt is of which the nodes are.
	Attempt string `json:"attempt"`
}
