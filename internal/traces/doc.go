// Package traces tells OpenTelemetry what a broker in one process does: a job is a trace, its tasks, their attempts and
// the events that functions handled for it are spans, and what Prometheus would read is sent as metrics beside.
//
// The IDs of traces and spans follow from what they are of. So no context has to travel through queues, records and
// restarts: whoever handles an event of a job knows which trace it belongs to.
package traces
