// Package hardware has facts about machine types that decide the cost and the time of a task: the speed of a vCPU,
// the boot time of a machine, and the time for which the cloud bills it.
//
// Speeds are measured where a measurement was published, and otherwise estimated from the processor of the type's
// family (see [Table.Speed]). A speed is a first guess: a program that waits for memory or disks gains less from a
// faster processor than the benchmark did. So each speed also has a slow estimate. A deadline is planned with that
// until the task itself has run.
package hardware

//go:generate go run ../internal/genhardware -data ../../../../shared/data
