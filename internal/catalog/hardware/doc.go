// Package hardware has facts about machine types that decide the cost and the time of a task: how fast a vCPU is, how
// long a machine boots, and for which time the cloud bills it.
//
// Speeds are measured where a measurement was published, and estimated from the processor of the type's family
// otherwise (see [Table.Speed]). A speed is a first guess: a program that waits for memory or disks gains less from a
// faster processor than the benchmark did. So each has a slow side, with which a deadline is planned until the task
// itself has run.
package hardware

//go:generate go run ../internal/genhardware -data ../../../../shared/data
