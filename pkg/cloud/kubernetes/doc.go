// Package kubernetes buys on clusters of Kubernetes: a cluster of the broker's is pods, one a rank, made together and
// bound together or not at all. It implements cloud.Cloud by the official client.
//
// A context of a kubeconfig is a place: the offers' region is its name. What can be bought there is what its nodes can
// take, and what its pools of nodes could grow to: a part of a node, named NODETYPE_CPUSxGIB or
// NODETYPE_CPUSxGIBxGPUS, at that part of the node's price (package refresh).
//
// Pods are made with a scheduling gate, which holds the scheduler back until all of them are there. Whether they fit is
// asked before the gate is taken away, so that no half of a gang is bound while the other half waits. What the
// scheduler cannot bind in time is withdrawn as a whole, and the launch fails with Capacity and the scheduler's words;
// where a pool of nodes can grow it is waited for.
//
// A pod's agent is fetched by an init container from the broker, and checked by its digest. The pod has no right in the
// cluster: no token of a service account, all capabilities dropped, as the "restricted" Pod Security Standard wants.
// Its one secret is the token for its first call, in a Secret of the cluster's that goes with the pods.
//
// Clusters that were terminated are remembered by Graves, as by all drivers. Of evictions, drains and nodes that are
// about to go Watch tells; the pod's agent learns of them by SIGTERM as well.
package kubernetes
