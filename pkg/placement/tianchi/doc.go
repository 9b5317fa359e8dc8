// Package tianchi reads and writes the form of the Alibaba global scheduling
// contest of 2018 (Tianchi): four CSV files without header rows, plain or
// gzipped, that are found by what their names contain.
//
//	app_resources      app, 98 CPU points joined by |, 98 memory points, disk, P, M, PM
//	machine_resources  machine, CPU, memory, disk, P, M, PM
//	instance_deploy    instance, app, machine (empty where it is on none)
//	app_interference   app A, app B, k
//	app_priority       app, priority (this package's own; may be missing, then all have 0)
//
// A line of app_interference says that a machine with an instance of A holds at
// most k of B and, where A and B are the same, at most k+1 of it: k beside the one. Where
// two lines speak of the same apps both hold.
//
// As in the contest, where instances are already (instance_deploy) is where the work
// begins, not a constraint: any of them may be moved, the deployment may break rules
// itself, and what is judged is the assignment at the end, all of it.
//
// An assignment is a file of instance,machine lines, one for each instance that
// is placed. An instance without a line is on no machine, wherever
// instance_deploy has it.
//
// Numbers are read as decimals to nine digits after the point, exactly. A curve is counted
// as one number where all curves of a data set are flat.
package tianchi
