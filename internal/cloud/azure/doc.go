// Package azure buys virtual machines of Azure: it is the driver of pkg/cloud for that cloud, and the Provisioner's
// part for Azure (intercloud-broker paper, §4.4).
//
//   - [Cloud] launches, terminates and lists machines, spot and on-demand, in a fixed set of regions.
//   - [Cloud.Check] reports the caller's identity and missing rights; [Cloud.Sweep] removes leftovers of ended
//     machines.
//   - [Refresher] renews the catalogue's part for Azure.
//   - [Typed] maps an error of the API or of an operation to the kind that failover uses.
//
// # A cluster is bought once
//
// Azure has no call that makes several machines with individual data, all or none. So each machine is made by a
// separate PUT, on the condition that it does not exist yet. Its name is derived from the deployment, the cluster and
// the rank, so a repeated call finds the machine of the first call. Rank 0 is made first, so that nothing has to be
// undone after an immediate refusal. When one machine is refused, at once or later in its operation, all of them are
// deleted.
//
// The same call makes a machine's network interface, address and disk, each with the delete option Delete: they are
// deleted with the machine, even if Azure evicts it. Leftovers are swept: by name when the cluster is terminated, and
// for the whole deployment every ten minutes, when a cluster is terminated or all machines are listed.
//
// A launch ends when all machines have power. It does not wait until Azure has received data from inside them, which
// takes a minute more: the agent on each machine connects to the broker by itself. If a machine takes too long, it is
// kept, and the next launch continues with it.
//
// # Differences from other clouds
//
// A machine that shuts itself down is stopped but still billed; listing the deployment's machines deletes it. Azure
// deletes an evicted spot machine, which then disappears from all lists.
//
// A terminated cluster stays terminated: Terminate buries the name before it searches for machines, and Launch checks
// for the grave before it buys and again after that.
package azure
