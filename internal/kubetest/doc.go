// Package kubetest is a Kubernetes cluster for tests: a real etcd, API server, scheduler and controller manager on
// loopback, as scripts/kube.sh builds them, and nodes whose kubelet is ours. A pod's containers are processes of this
// computer: images are ignored, volumes are folders, and where a container would see a folder under its mount path it
// is told the folder's own. Nothing here is part of the product.
package kubetest
