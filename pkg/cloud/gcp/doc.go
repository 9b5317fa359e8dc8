// Package gcp buys machines on Google Cloud: the driver of pkg/cloud for Compute Engine, and for TPUs by their own API.
//
//   - [Cloud] launches, terminates and lists machines, spot and on demand, in any of a bounded set of regions.
//   - [Typed] turns an API's error, or that of an operation, into the kind that failover goes by.
//   - [Cloud.Check] says whom Google takes one for, what may be bought, and what is missing.
//   - [DecodeNotice] reads what the audit log says of machines that were taken.
//
// # A cluster is bought once
//
// One bulkInsert asks for all machines or none: Google undoes by itself what it had made when it cannot make them all.
// Its requestId follows from the deployment and the cluster, so that the same launch, from wherever it comes, is
// answered with the same operation; and so do the machines' names, which Google lets be once, so that nothing is bought
// twice when it has forgotten the id. Several inserts would have to be undone here, and a crash in between would leave
// a part of a cluster running until somebody looks.
//
// Terminate buries the name first, then waits for an operation that is still at it, wherever it was begun, and deletes
// all that bear the cluster's label. Launch asks for the grave before it buys and again after.
//
// # Who a machine is
//
// A machine's ID is the number that Google gave it, which is also in the identity token of its metadata server. There
// are such tokens only for machines with a service account. It needs no role, and its scope is the narrowest there is.
//
// # What it does not do
//
// It knows nothing of plans, bids or jobs, keeps no state but caches of what rarely changes, and does not wait for
// agents.
package gcp
