// Package kubernetes buys on Kubernetes clusters: a cluster of the broker consists of pods, one per rank. They are
// created together, and either all or none are bound. The package implements cloud.Cloud with the official client.
//
// A context of a kubeconfig is a place, and its name is the offers' region. An offer is a part of a node, at that
// part of the node's price (Refresher), named NODETYPE_CPUSxGIB or NODETYPE_CPUSxGIBxGPUS. The node exists, or a node
// pool could grow by it.
//
// Pods are created with a scheduling gate, which keeps the scheduler from binding them before all exist. The driver
// checks that they fit before it removes the gates. Otherwise half of a gang could be bound while the other half
// waits. If the scheduler cannot bind a gang in time, the driver withdraws all of its pods, and the launch fails with
// Capacity and the scheduler's message. If a node pool can grow, the launch waits for that.
//
// An init container fetches a pod's agent from the broker and verifies its digest. The pod has no rights in the
// cluster: no token of a service account, and all capabilities dropped, as the "restricted" Pod Security Standard
// requires. Its only secret is the token for its first call, in a Secret that is removed with the pods.
//
// Terminated clusters are recorded in Graves, as in all drivers. Watch reports evictions, drains and nodes that are
// about to be removed. The pod's agent also receives SIGTERM in these cases.
package kubernetes
