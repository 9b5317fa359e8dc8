// Package aws buys EC2 machines: it is the driver of pkg/cloud for AWS, with everything else that the broker's
// functions need from this cloud. It is the Provisioner's and the Catalog's part for AWS (intercloud-broker paper,
// §4.2 and §4.4).
//
//   - [Cloud] launches, terminates and lists machines, spot and on-demand, in a fixed set of regions.
//   - [Typed] maps an API's error code to the kind that failover uses.
//   - [DecodeNotice] reads EventBridge events about machines; [Cloud.Notice] finds the owners of these machines.
//   - [SpotPrices] reads the spot prices that changed since the last call; [Refresher] renews the catalogue's AWS
//     offers; [Cloud.Quotas] returns how many vCPUs the account may have.
//
// # A cluster is bought once
//
// One RunInstances call asks for all machines or none (docs/decisions/0010-clusters.md), and each knows its rank by
// its launch index. The cluster's name makes the call's client token. Not every endpoint honours the token, so
// machines that carry the cluster's tag are looked for before the call and again when its outcome is unknown, and the
// SDK never repeats it by itself.
//
// A terminated cluster stays terminated: Terminate buries the name before it looks for machines, and Launch checks
// for the grave before it buys and again after. Whichever comes second sees the other (see [Graves]).
//
// # What it does not do
//
// It does not know plans, bids or jobs, keeps no state except caches of rarely changing facts, and does not wait for
// machines to boot: the agent on each machine connects to the broker by itself (package bootstrap).
package aws
