// Package client calls the broker's HTTP API (pkg/api) for people's programs: the command line here, and those that
// others write in Go (docs/go.md). Its types are the API's own, so that what a program sees is what openapi.json
// describes. A Builder makes jobs.
//
// It does not start brokers, nor render anything: internal/cli does.
package client
