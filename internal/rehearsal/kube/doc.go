// Package kube is a rehearsal on two Kubernetes clusters with real control planes and nodes whose pods are local
// processes. It does what a user would, with the built command line, drains a node with a running task, and kills the
// broker repeatedly. Nothing here is part of the product.
package kube
