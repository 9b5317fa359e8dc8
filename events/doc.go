// Package events defines the events that Tradewind's functions exchange: one Go type for each, in a CloudEvents 1.0
// envelope of type tradewind.<noun>.<verb>.v1. The subject of an event is the record that it concerns.
//
// The JSON Schemas and examples in schema/ and example/, and asyncapi.yaml, are generated from these types by `go
// generate ./events`; a test fails when they are stale. The package knows which functions handle an event only from
// the table of routes, which AsyncAPI documents.
//
// Compatibility: fields are only added. A consumer ignores unknown fields, and Event.MarshalJSON keeps them, so an
// older function can pass on an event that a newer one wrote.
package events

//go:generate go run ./internal/gen
