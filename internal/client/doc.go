// Package client calls the broker's HTTP API (pkg/api) for people's programs:
// the command line here, and the first thing to read for whoever writes
// another one. Its types are the API's own, so that what a program sees is what
// openapi.json describes.
//
// It does not find or start brokers, nor render anything: internal/cli does.
package client
