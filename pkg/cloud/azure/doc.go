// Package azure buys virtual machines of Azure: the driver of pkg/cloud for that cloud. It is the Provisioner's hand
// there (intercloud-broker paper, §4.4).
//
//   - [Cloud] launches, terminates and lists machines, spot and on demand, in any of a bounded set of regions.
//   - [Cloud.Check] says who one is for Azure, and what is missing; [Cloud.Sweep] removes what machines left behind.
//   - [Typed] turns an error of the API, or of an operation that ended badly, into the kind that failover goes by.
//
// # A cluster is bought once
//
// Azure has no call that makes several machines with data of their own, all or none. So each machine is made by a PUT
// of its own, whose name follows from the deployment, the cluster and the rank, on the condition that it is not there
// yet: whoever repeats it finds what the first call made. The first rank goes ahead, so that what Azure refuses at
// once leaves nothing to undo. When one is refused, at once or later in its operation, all of them are deleted.
//
// A machine brings its interface, its address and its disk along in the same call, each with the delete option Delete:
// they go when it goes, also when Azure takes it. What is left behind all the same is swept: by name when the cluster
// is terminated, and every ten minutes for the whole deployment.
//
// A launch ends when all machines have power, not when Azure has heard from inside them, which takes a minute more: the
// agent on each dials home by itself. One that takes too long is left as it is, and the next launch goes on with it.
//
// # What is different from elsewhere
//
// A machine that shuts itself down is stopped and paid for; listing the deployment's machines deletes such. A spot
// machine that is evicted is deleted by Azure and is in no list any more.
//
// A terminated cluster stays terminated: Terminate buries the name before it looks for machines, Launch asks for the
// grave before it buys and again after.
package azure
