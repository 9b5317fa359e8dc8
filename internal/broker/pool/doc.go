// Package pool manages pools of machines that users own. It stores the pools, their machines and the tasks that
// should run on them, and has the cloud driver for pools. It never connects to a machine: machines call the broker.
package pool
