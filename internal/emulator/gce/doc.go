// Package gce is an emulator of Google Cloud as the broker uses it: Compute Engine, TPUs, and what says who one is,
// what one may do and what things cost. It speaks the protocol of Google's own clients, with its state in memory.
// Nothing here is part of the product.
//
// Every request and every answer is held to Google's published description of its APIs (see check.go): a method, a
// parameter, a field or a word of an enumeration that Google does not have is refused, and remembered in
// [Cloud.Faults]. An answer is cut down to the fields that were asked for, as Google does.
//
// Machines are records, or real processes that boot their start-up script, with a metadata server each, when the
// emulator has a folder for them ([Config].Dir).
//
// Bad days are steered from Go: zones that run dry, at once or late in an operation, quotas, refusals of any kind, an
// API that is off, a clock that differs, lists that lag, answers that get lost, operations that outlast a wait,
// machines that are taken with notice. [Cloud.Bills] tells what each machine cost.
package gce
