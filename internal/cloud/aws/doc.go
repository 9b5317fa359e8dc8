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
// One RunInstances call requests all machines or none (docs/decisions/0010-clusters.md), and each machine knows its
// rank by its launch index. The client token of the call is made from the cluster's name. Not every endpoint honours
// the token. So the driver searches for machines with the cluster's tag before the call, and again if the outcome of
// the call is unknown. The SDK never repeats the call by itself.
//
// A terminated cluster stays terminated: Terminate creates a grave for the name before it searches for machines, and
// Launch checks for the grave before it buys and again after that. So if both run at the same time, the later one
// sees the effect of the other (see [Graves]).
//
// # What it does not do
//
// It does not know plans, bids or jobs, keeps no state except caches of rarely changing facts, and does not wait for
// machines to boot: the agent on each machine connects to the broker by itself (package bootstrap).
package aws
