// Package events are the facts that Tradewind's functions tell each other: one Go
// type each, in a CloudEvents 1.0 envelope of type tradewind.<noun>.<verb>.v1
// whose subject is the record it concerns.
//
// The JSON Schemas and examples in schema/ and example/, and asyncapi.yaml, are
// generated from these types by `go generate ./events`; a test fails when they
// are stale. The package knows nothing of who emits or reacts to an event
// beyond the table of routes that AsyncAPI documents.
//
// Compatibility: fields are only added. A consumer ignores fields it does not
// know, and Event.MarshalJSON keeps them, so that an older function can pass on
// what a newer one wrote.
package events

//go:generate go run ./internal/gen
