// Package kubetest runs a Kubernetes cluster for tests: a real etcd, API server, scheduler and controller manager on
// loopback, built by scripts/kube.sh, and nodes with our own kubelet. The containers of a pod are processes of this
// computer: images are ignored, volumes are folders, and mount paths in commands and variables are replaced by the
// paths of these folders. Nothing here is part of the product.
package kubetest
