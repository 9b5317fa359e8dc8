//go:build !race

package local_test

// longQueue is the number of messages in the memory test.
const longQueue = 200_000
