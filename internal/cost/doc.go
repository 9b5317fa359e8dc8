// Package cost computes the cost of the control plane of a deployment on AWS for a
// DAG, at list prices. It excludes the cost of machines, which is in the plan.
//
// It does not estimate with formulas. It runs the DAG through the broker's own
// functions in virtual time. Its adapters count the requests that the adapters on
// AWS would make: a table that bills items like DynamoDB, a bus with a queue for
// each function that delivers batches like Lambda, an API, and machines that boot,
// call and end like those with agents. The duration of requests to services cannot
// be counted. It comes from a table of assumptions, which is part of the result.
package cost
