// Package api is the broker's HTTP API, for users, their programs, the agents on machines, and the dashboard.
//
// It only translates and checks requests. internal/broker decides the effect of a request, behind the interfaces of
// Ports. The package does not listen (a host does, by default on loopback) and does not know how jobs are planned or
// stored.
//
// The operations are Go functions with typed inputs and outputs, from which the OpenAPI 3.1 document in openapi.json
// is generated. Every error is a problem document (RFC 9457); for an invalid job file it has the file, line, column,
// field, reason and hint. Jobs are followed by server-sent events.
//
// # Authorisation
//
//   - Users send the deployment's token in the Authorization header.
//   - The dashboard exchanges a one-time code for a session (internal/api/signin), which is not the token, and ends
//     after some hours. It is no cookie: other ports of the host do not get it, and another site cannot make a browser
//     send it.
//   - Machines of pools send tokens that name pool and machine. They get them in exchange for a join token, and can
//     call only two paths.
//   - Agents send tokens that name one node of one cluster (internal/agent/token), and can call only the paths of
//     internal/agent/wire.
//
// There is no cross-origin access. Requests for a host name that is not configured are rejected, which prevents DNS
// rebinding attacks.
package api

//go:generate go run ./internal/gen
