// Package clouds rehearses a job on four clouds: the deployment's functions on an emulated AWS, and the emulators of
// Google Cloud, Azure and Lambda's GPU cloud, each of which is called by one function only. It shows what a user sees
// when a zone runs out of capacity, a machine is preempted, and a cloud rejects all calls, and compares what was booked
// with what the clouds have billed.
package clouds
