// Package gce emulates Google Cloud as far as the broker uses it: Compute Engine, TPUs, and the services for identity,
// permissions and prices. It speaks the protocol of Google's own clients and keeps its state in memory.
// Nothing here is part of the product.
//
// Every request and every answer is checked against Google's published description of its APIs (see check.go): a
// method, parameter, field or enumeration value that Google does not have is rejected, and recorded in
// [Cloud.Faults]. Like Google, it reduces an answer to the requested fields.
//
// Machines are only records or, if [Config].Dir is set, real processes that boot their start-up script, each with a
// metadata server.
//
// Go code can inject failures: zones without capacity (reported at once or late in an operation), quotas, errors of any
// kind, a disabled API, a wrong clock, lists that lag, lost answers, operations that take longer than a wait,
// preemptions with notice. [Cloud.Bills] returns the cost of each machine.
package gce
