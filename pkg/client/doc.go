// Package client calls the broker's HTTP API (internal/api). Tradewind's command line and other
// programs in Go can use it (docs/go.md). It does not link the server: the response types are those
// of pkg/apitypes, which openapi.json describes. A Builder makes jobs.
//
// This package neither starts brokers nor renders output: internal/cli does both.
package client
