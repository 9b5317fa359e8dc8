// Package tianchi reads and writes the data format of the Alibaba global scheduling contest of 2018 (Tianchi): four
// CSV files without header rows, plain or gzipped. Each file is found by the part of its name that is shown here.
//
//	app_resources      app, 98 CPU points joined by |, 98 memory points, disk, P, M, PM
//	machine_resources  machine, CPU, memory, disk, P, M, PM
//	instance_deploy    instance, app, machine (empty if the instance has no machine)
//	app_interference   app A, app B, k
//	app_priority       app, priority (an extension of this package; optional, the default is 0)
//
// A line of app_interference means that a machine with an instance of A holds at most k instances of B. If A and B
// are the same, it holds at most k+1: k in addition to the one. If two lines concern the same apps, both apply.
//
// As in the contest, the current machines (instance_deploy) are a starting point, not a constraint: any instance may
// be moved, and the deployment itself may break rules. Only the complete final assignment is judged.
//
// An assignment is a file with a line instance,machine for each placed instance. An instance without a line has no
// machine, whatever instance_deploy says.
//
// Numbers are decimals and are exact to nine digits after the point. If all curves of a resource in a data set are
// flat, the resource is stored as one number.
package tianchi
