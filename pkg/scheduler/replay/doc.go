// Package replay plays a recorded GPU cluster through pkg/scheduler in virtual time: pods arrive when they did, run for
// as long as they did, and wait for as long as the policy has them wait. It reads the form of Alibaba's
// cluster-trace-gpu-v2023 (openb): nodes with so many GPUs of a model, pods that ask for whole GPUs or for a share of
// one.
//
// Fragmentation is measured as in Weng et al., "Beware of Fragmentation: Scheduling GPU-Sharing Workloads with
// Fragmentation Gradient Descent", USENIX ATC 2023, §3: the GPUs that are idle where a pod drawn from the trace could
// not use them.
package replay
