// Package cost says what the control plane of a deployment on AWS costs for a
// DAG, at list prices: not what its machines cost, which is the plan's matter.
//
// It does not estimate by formulas. It runs the DAG through the broker's own
// functions in virtual time, with adapters that count what the ones on AWS would
// ask for: a table that bills items as DynamoDB does, a bus with a queue for each
// function from which batches are taken as Lambda takes them, an API, machines that boot, call and
// end as their agents do. What cannot be counted, how long a request to a service takes, is a
// table of assumptions that is part of the answer.
package cost
