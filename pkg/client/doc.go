// Package client calls the broker's HTTP API (pkg/api) for people's programs: the command line here, and those that
// others write in Go (docs/go.md). It links no part of the server: the types of answers are those of
// pkg/apitypes, which openapi.json describes. A Builder makes jobs.
//
// It does not start brokers, nor render anything: internal/cli does.
package client
