// Package apitypes has the types of the HTTP API: the bodies of requests and responses, and errors. The server, the
// client and openapi.json share them. Their JSON is the API's contract: fields are added, never renamed.
//
// Some are also stored in this form ([Queue], [Attempt], [Block]). Methods here only read and add up; the broker's
// logic is in its own packages. The messages of agents are in internal/agent/wire.
package apitypes
