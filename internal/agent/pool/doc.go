// Package pool is the resident process of a machine of a pool, which its owner lends to a broker. It takes an
// inventory of the machine, joins, and from then on syncs: it reports the machine's capacity and agents, and the
// broker answers with the agents that should run on it. The process starts the missing agents (internal/agent), each
// with a separate work folder, and ends those that should not run any more.
//
// Both sides send the whole state, not changes, so a lost, repeated or late sync does no harm. The process only knows
// the broker's endpoint, and a token that names its machine, expires, and is renewed by syncs. Nothing connects to
// the process.
//
// The process may be killed and started again on the same folder. The agents continue meanwhile, and the new process
// finds exactly these agents again (internal/cloud/local records them). It knows nothing of jobs, and does not
// isolate tasks from each other: all run as its user.
package pool
