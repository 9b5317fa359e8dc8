// Package cost computes the cost of the control plane of a deployment on AWS for a
// DAG, at list prices. It excludes the cost of machines, which is in the plan.
//
// It does not estimate with formulas. It runs the DAG through the broker's own
// functions in virtual time, with adapters that count the requests of the ones on
// AWS: a table that bills items like DynamoDB, a bus with a queue for each
// function from which batches are taken as Lambda takes them, an API, and machines that boot, call and
// end like their agents. What cannot be counted, the duration of requests to services, is a
// table of assumptions that is part of the result.
package cost
