// Package kube is a rehearsal on two clusters of Kubernetes, of real control planes and nodes whose pods are processes
// here: it does what a user would, with the command line as it is built, drains a node under a task, and kills the
// broker again and again. Nothing here is part of the product.
package kube
