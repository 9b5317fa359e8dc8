// Package lambda buys machines of Lambda's GPU cloud (cloud.lambda.ai): the driver of pkg/cloud for a cloud that has no
// SDK for Go, so that its REST API is called as its published description says (version 1.8.3; the part that is used
// lies beside the emulator, internal/emulator/lambdacloud). It has nothing to do with AWS Lambda.
//
// # A cluster is found by its machines' names
//
// The API has no tokens that make a call idempotent, and its machines no time of launch. So the name of a machine, of
// which it keeps 64 characters, says whose it is: the deployment's hash, when it was bought, its rank, and the
// cluster's name, or that one's hash where it is too long. Tags have the whole of it, for people, and for names that
// are hashed.
//
// A launch looks for its machines before it buys, buys one machine a call, as many as are missing, and looks again
// afterwards: what a lost answer has doubled is ended, and the machine that was bought first stays. What fails because
// of capacity, quota or rights is undone at once. What fails because the API is asked too often, or does not answer, is
// left as it is: the next launch of the cluster buys what is missing, and Terminate ends it.
//
// # What this cloud lacks
//
// It sells no spot machines, no zones and no disks of a size that is asked for. It gives no notice before it takes a
// machine. Its machines have no metadata service, so nothing proves which one dials home: the token that it was given
// is good for one first call. A machine that shuts down from inside costs until it is terminated: the broker ends every
// cluster itself. The account may make a launch every twelve seconds, and this driver keeps to that.
package lambda
