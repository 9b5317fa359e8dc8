// Package clouds rehearses a job across four clouds: the deployment's functions on an emulated AWS, and the emulators
// of Google Cloud, Azure and Lambda's GPU cloud beside it, each behind the function that alone speaks to it. It tells
// what a user sees when a zone runs dry, a machine is taken, and a cloud takes no more calls, and compares what was
// booked with what the clouds have billed.
package clouds
