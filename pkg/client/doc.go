// Package client calls the broker's HTTP API (internal/api). Tradewind's command line and other programs in Go can use
// it (docs/go.md). It does not link the server: the response types are those of internal/apitypes, which openapi.json
// describes. A Builder makes jobs.
//
// It does not start brokers or render output: internal/cli does.
package client
