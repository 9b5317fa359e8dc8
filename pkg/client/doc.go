// Package client calls the broker's HTTP API (internal/api). Tradewind's command line uses it, and so can other
// programs in Go (docs/go.md). It does not link the server: the response types are those of internal/apitypes, which
// openapi.json describes. A Builder makes jobs.
//
// It does not start brokers or render output: internal/cli does.
package client
