// Package cgroup runs a task in its own control group, so that the kernel limits the task's memory, shares the CPU by
// weight, counts kills for lack of memory and measures the peak memory. It uses the memory controller of cgroup v1 or
// v2, whichever this computer has (cgroups(7); the kernel's admin-guide/cgroup-v1/memory and admin-guide/cgroup-v2).
//
// The agent may create groups if it runs as root, or if its own group is delegated to it. Otherwise Find reports why
// not. The package does not install or change anything else of the computer, and it is not a sandbox.
package cgroup
