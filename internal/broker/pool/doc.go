// Package pool manages pools: machines that users already own. It keeps the pools, their machines and the tasks that
// should run on them, and it has the cloud driver for pools. It never connects to a machine; machines call the broker.
package pool
