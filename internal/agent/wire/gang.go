package wire

// Gang describes the gang that a node works in.
type Gang struct {
	Name string `json:"name,omitempty"` // empty if the task is in no gang
	Role string `json:"role"`           // of this node's task
	// First is the rank, within its role, of the task's first node. It is above 0 if the task joins machines that began
	// earlier.
	First int `json:"first,omitempty"`
	// Least and Most are the number of nodes that the gang begins with and the maximum number: other nodes may join and
	// leave while it runs. Both are 0 if the size is fixed.
	Least int `json:"least,omitempty"`
	Most  int `json:"most,omitempty"`
	// Framework selects the environment variables that describe the other nodes to the task; empty means none.
	Framework string `json:"framework,omitempty"`
	Chief     bool   `json:"chief,omitempty"` // the gang's work ends when this node's task ends
	// Members are the tasks of the gang, including the node's own, in the order of the job's file, followed by those
	// that joined later. A task that has already succeeded is missing.
	Members []Member `json:"members"`
	// Key is a secret of the gang's nodes that lets one run programs on another; empty if no node needs that.
	Key []byte `json:"key,omitempty"`
}

// Member is a task of a gang, with all of its nodes.
type Member struct {
	Role  string   `json:"role"`
	First int      `json:"first,omitempty"` // rank of its first node within the role
	Task  string   `json:"task"`
	Nodes []string `json:"nodes"` // addresses by rank
	// Slots is the number of processes for each node: its accelerators, or else its vCPUs.
	Slots int `json:"slots"`
	// Attempt is the attempt to which the nodes belong.
	Attempt string `json:"attempt"`
}
