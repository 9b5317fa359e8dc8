// Package pool is the resident process of a machine that its owner lends to a
// broker: a machine of a pool. It takes an inventory of the
// machine, joins, and from then on syncs: it says what the machine has and is
// told which agents should run there. It starts those that do not run, each an
// ordinary agent (pkg/agent) with a work folder of its own, and ends those that should no longer.
//
// Both sides say what is, not what has changed, so a sync that is lost,
// repeated or late harms nothing. The process knows nothing but the broker's
// endpoint and a token that names its machine, expires, and is renewed by syncs;
// nothing dials in.
//
// It may be killed and started again on the same folder: agents go on
// meanwhile and are found again, exactly (pkg/cloud/local keeps them). It
// knows nothing of jobs, and does not fence tasks off from each other: they run as its user.
package pool
