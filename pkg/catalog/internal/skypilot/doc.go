// Package skypilot reads catalogue files in the CSV schema that SkyPilot's
// catalogue made common, one file a cloud ([Load]). What the files leave to the
// reader's knowledge is decided here, and documented where it is: which hosts
// carry which Google accelerator (gcp.go), the host of a TPU slice (tpu.go),
// rows that name no accelerator or the wrong one (corrections.go), and which
// types are Arm (arch.go).
package skypilot
