// Package api is the broker's HTTP API: for people and their programs, for the
// agents on machines, and for the dashboard.
//
// It translates and guards, nothing else: what a request means is decided by
// pkg/broker, behind the interfaces of Ports. It does not listen (a host does, on
// loopback unless told otherwise) and knows nothing of how jobs are planned or
// stored.
//
// The operations are Go functions with typed inputs and outputs, from which the
// OpenAPI 3.1 document in openapi.json is generated. Every error is a problem
// document (RFC 9457); a job file that cannot be read says in it file, line,
// column, field, reason and hint. Jobs are followed by server-sent events.
//
// # Who may do what
//
//   - Users bear the deployment's token in the Authorization header.
//   - The dashboard trades that token for a cookie, by a visit to /?token=…. The cookie is not the token and only
//     reads: whatever changes something needs the header, so no other page can make a browser do it.
//   - Machines of pools bear tokens that name pool and machine, traded for one that lets machines join, and reach two
//     paths.
//   - Agents bear tokens that name one node of one cluster (pkg/agent/token), and reach the paths of
//     pkg/agent/wire only.
//
// There is no cross-origin access, and requests for a host name that was not
// configured are refused, which keeps a page that rebinds its name to the
// loopback address out.
package api

//go:generate go run ./internal/gen
