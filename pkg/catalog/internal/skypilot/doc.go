// Package skypilot reads catalogue files in the CSV schema of SkyPilot's catalogue, one file per cloud ([Load]). It
// also adds the facts that the files omit: which hosts can carry which Google accelerator (gcp.go), the host of a TPU
// slice (tpu.go), the accelerator of rows that have none or the wrong one (corrections.go), and which machine types
// are Arm (arch.go).
package skypilot
