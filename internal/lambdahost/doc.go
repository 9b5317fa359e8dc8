// Package lambdahost runs the broker's functions on AWS Lambda. It is the third
// host besides one process (internal/host) and the simulator (internal/sim), and like
// them it makes no decisions.
//
// A main of functions/ makes a function's adapters from its Sandbox, passes them
// to a broker, and serves one of its handlers. Each adapter has a package that
// imports its SDK: EC2 is in clouds, SSM in keys, the catalogue in planning. So a
// function has only the code, the permissions and the start-up time of what it
// needs.
//
//   - A batch of SQS messages becomes events, grouped so that related ones share
//     transactions, and goes to broker.Handle. Failed messages are reported one by
//     one; those that can never succeed become dead letters with a reason.
//   - A batch of the table's stream makes the relay publish.
//   - HTTP API requests (payload 2.0) are served by internal/api, in gateway.
//
// Logs are JSON lines with the IDs of the request and the trace, and never contain
// a payload; metrics are lines in CloudWatch's embedded metric format (emf).
package lambdahost
