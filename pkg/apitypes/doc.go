// Package apitypes has the types that the HTTP API shows: the bodies of its requests and answers, and its errors. The
// server, the client and openapi.json share them. Their JSON is the API's contract: fields are added, never renamed.
//
// Some are also stored as they are shown ([Queue], [Attempt], [Block]). What the broker does with them is in its own
// packages; methods here only read and add up. What agents send is in pkg/agent/wire.
package apitypes
