// Package kubernetes buys on Kubernetes clusters: a cluster of the broker consists of pods, one per rank, which are
// created together and bound together or not at all. It implements cloud.Cloud with the official client.
//
// A context of a kubeconfig is a place, and its name is the offers' region. An offer there is a part of a node, at that
// part of the node's price (Refresher), named NODETYPE_CPUSxGIB or NODETYPE_CPUSxGIBxGPUS: of an existing node,
// or of one by which a node pool could grow.
//
// Pods are created with a scheduling gate, which keeps the scheduler from binding them before all exist. The driver
// checks that they fit before it removes the gates, so that half of a gang is not bound while the other half waits.
// If the scheduler cannot bind a gang in time, the driver withdraws all of it, and the launch fails with Capacity and
// the scheduler's message. If a node pool can grow, the launch waits for that.
//
// An init container fetches a pod's agent from the broker and verifies its digest. The pod has no rights in the
// cluster: no token of a service account, and all capabilities dropped, as the "restricted" Pod Security Standard
// requires. Its only secret is the token for its first call, in a Secret that is removed with the pods.
//
// Terminated clusters are remembered by Graves, as in all drivers. Watch reports evictions, drains and nodes that are
// about to go; the pod's agent also learns of them by SIGTERM.
package kubernetes
