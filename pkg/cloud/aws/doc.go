// Package aws buys EC2 machines: the driver of pkg/cloud for AWS, with what the broker's functions need of the same
// cloud beside it. It is the Provisioner's and the Catalog's hand in this cloud (intercloud-broker paper, §4.2 and
// §4.4).
//
//   - [Cloud] launches, terminates and lists machines, spot and on-demand, in any of a bounded set of regions.
//   - [Typed] turns an API's error code into the kind that failover goes by.
//   - [DecodeNotice] reads what EventBridge says of machines; [Cloud.Notice] finds whose they are.
//   - [SpotPrices] reads the spot price history since it was last seen; [Refresher] renews the catalogue's AWS offers;
//     [Cloud.Quotas] tells how many vCPUs the account may hold.
//
// # A cluster is bought once
//
// One RunInstances call asks for all machines or none (docs/decisions/0010-clusters.md), and each knows its rank by
// its launch index. The cluster's name makes the call's client token. Not every endpoint honours the token, so
// machines that carry the cluster's tag are looked for before the call and again when its outcome is unknown, and the
// SDK never repeats it by itself.
//
// A terminated cluster stays terminated: Terminate buries the name before it looks for machines, Launch asks for the
// grave before it buys and again after. Whichever of the two comes second sees the other (see [Graves]).
//
// # What it does not do
//
// It knows nothing of plans, bids or jobs, keeps no state but caches of what rarely changes, and does not wait for
// machines to boot: the agent on each dials home by itself (package bootstrap).
package aws
