// Package clouds rehearses a job on four clouds: the deployment's functions on an emulated AWS, and the emulators of
// Google Cloud, Azure and Lambda's GPU cloud. Each of these three is called by only one function. The rehearsal shows
// to a user how a job continues when a zone runs out of capacity, a machine is preempted, or a cloud rejects all
// calls. It compares the booked cost with the bills of the clouds.
package clouds
