// Package replay runs a recorded GPU cluster trace through pkg/scheduler in virtual time: pods arrive and run as long
// as they did in the trace, and wait as the policy decides. It reads the format of Alibaba's cluster-trace-gpu-v2023
// (openb): nodes with GPUs of one model, and pods that request whole GPUs or a share of one.
//
// Fragmentation is measured as in Weng et al., "Beware of Fragmentation: Scheduling GPU-Sharing Workloads with
// Fragmentation Gradient Descent", USENIX ATC 2023, §3: the idle GPUs that a pod drawn at random from the trace could
// not use.
package replay
