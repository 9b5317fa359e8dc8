// Package lambdalabs buys machines of Lambda's GPU cloud (cloud.lambda.ai): it is the driver of pkg/cloud for it. The
// cloud has no SDK for Go, so the driver calls its REST API as published (version 1.8.3; the part that is used is in
// the emulator, internal/emulator/lambdacloud). It has nothing to do with AWS Lambda.
//
// # A cluster is found by its machines' names
//
// The API has no idempotency tokens, and its machines have no launch time. So a machine is identified by its name,
// which may have 64 characters. The name contains the deployment's hash, the time of purchase, the rank, and the
// cluster's name, or the hash of that if it is too long. Tags have the full name, for people and for hashed names.
//
// A launch searches for its machines before it buys. Then it buys the missing ones with one call each, and searches
// again. If a lost answer has led to a duplicate, it ends the duplicate and keeps the machine that was bought first.
// A failure for lack of capacity, quota or rights is undone at once. After throttling or no answer the machines are
// kept: the next launch of the cluster buys the missing ones, and Terminate ends all.
//
// # Limits of this cloud
//
// It sells no spot machines, has no zones, and offers no choice of disk size. It gives no notice before it interrupts
// a machine. Its machines have no metadata service, so they cannot prove their identity when they connect: their
// token is valid for one first call. A machine that shuts down from inside costs money until it is terminated, so the
// broker ends every cluster itself. The account may make one launch every twelve seconds, and this driver keeps to
// that limit.
package lambdalabs
