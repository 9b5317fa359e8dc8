//go:build race

package local_test

// longQueue is the number of messages in the memory test: fewer, because the race detector makes each ten times slower.
const longQueue = 20_000
