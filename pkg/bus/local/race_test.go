//go:build race

package local_test

// longQueue is how many messages the test of memory queues: fewer where each costs ten times the time.
const longQueue = 20_000
