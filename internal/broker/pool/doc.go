// Package pool keeps machines that somebody already has: who they are, what they hold, what should run on them, and
// the driver by which they stand beside the clouds. Nothing here dials a machine; they come and ask.
package pool
