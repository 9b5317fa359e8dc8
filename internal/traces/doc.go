// Package traces exports the work of a broker to OpenTelemetry. A job is a trace. Its tasks, their attempts, and the
// events that functions handled for it are spans. The broker's Prometheus metrics can be exported too.
//
// The IDs of traces and spans are hashes of the names of their subjects. So no trace context has to travel through
// queues, records and restarts: a function that handles an event of a job can compute the job's trace ID.
package traces
