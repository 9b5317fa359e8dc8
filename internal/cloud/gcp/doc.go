// Package gcp buys machines on Google Cloud: it is the driver of pkg/cloud for Compute Engine, and for TPUs through
// the Cloud TPU API.
//
//   - [Cloud] launches, terminates and lists machines, spot and on-demand, in a fixed set of regions.
//   - [Typed] maps an error of an API or an operation to the kind that failover uses.
//   - [Cloud.Check] reports the caller's identity, the machines that may be bought, and missing rights.
//   - [Refresher] renews the catalogue's part for Google Cloud.
//   - [DecodeNotice] reads audit log entries about interrupted machines.
//
// # A cluster is bought once
//
// One bulkInsert requests all machines or none: if Google cannot make them all, it removes those that it made. The
// requestId is derived from the deployment and the cluster, so Google answers a repeated launch, from any process,
// with the same operation. The machines' names are derived from the deployment and the cluster, too, and a name
// exists only once. So nothing is bought twice even if Google has forgotten the requestId. Separate inserts would
// have to be undone by the driver, and a crash in between would leave a part of the cluster running until the next
// reconcile.
//
// Terminate buries the name first. Then it waits for an operation that is still running, whichever process started
// it, and deletes all resources with the cluster's label. Launch checks for the grave before it buys and again after
// that.
//
// # Identity of a machine
//
// A machine's ID is the number that Google gave it, which is also in the identity token of its metadata server. Only
// machines with a service account get such tokens. The account needs no role, and its scope is the narrowest one.
//
// # What it does not do
//
// It does not know plans, bids or jobs, keeps no state except caches of rarely changing facts, and does not wait for
// agents.
package gcp
