//go:build !race

package local_test

// longQueue is how many messages the test of memory queues.
const longQueue = 200_000
