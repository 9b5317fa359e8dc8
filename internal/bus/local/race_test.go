//go:build race

package local_test

// longQueue is the number of messages in the memory test. It is smaller here, because the race detector makes each
// message ten times slower.
const longQueue = 20_000
