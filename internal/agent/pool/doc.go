// Package pool is the resident process of a machine that its owner lends to a broker: a machine of a pool. It takes
// an inventory of the machine, joins, and from then on syncs: it reports what the machine has, and the broker answers
// which agents should run on it. It starts the missing ones, each an ordinary agent (internal/agent) with its own work
// folder, and ends those that should no longer run.
//
// Both sides send the whole state, not changes, so that a lost, repeated or late sync does no harm. The process only
// knows the broker's endpoint and a token that names its machine, expires, and is renewed by syncs; nothing dials in.
//
// The process may be killed and started again on the same folder. The agents continue meanwhile, and the new process
// finds exactly these agents again (internal/cloud/local records them). It knows nothing of jobs, and does not isolate
// tasks from each other: all run as its user.
package pool
