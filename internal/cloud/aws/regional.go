package aws

import (
	"sync"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
)

// Regional has the clients of one service by region. It makes each when it is first needed, and is safe for concurrent
// use.
type Regional[T any] struct {
	sdk  awssdk.Config
	make func(awssdk.Config) T

	mu      sync.Mutex
	clients map[string]T
}

// NewRegional returns the clients that a function makes from a region's configuration.
func NewRegional[T any](sdk awssdk.Config, client func(awssdk.Config) T) *Regional[T] {
	return &Regional[T]{sdk: sdk, make: client, clients: map[string]T{}}
}

// Config returns the SDK's configuration for a region.
func (r *Regional[T]) Config(region string) awssdk.Config {
	sdk := r.sdk.Copy()
	sdk.Region = region
	return sdk
}

// Client returns the client of a region.
func (r *Regional[T]) Client(region string) T {
	r.mu.Lock()
	defer r.mu.Unlock()
	c, ok := r.clients[region]
	if !ok {
		c = r.make(r.Config(region))
		r.clients[region] = c
	}
	return c
}
