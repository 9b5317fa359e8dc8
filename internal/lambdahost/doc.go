// Package lambdahost runs the broker's functions on AWS Lambda: it is the third
// host beside one process (pkg/host) and the simulator (internal/sim), and knows as
// little of decisions as they do.
//
// A main of functions/ makes a function's adapters from its Sandbox, hands them to
// a broker, and serves one of its handlers; nothing else. Each adapter has a
// package that imports its SDK: EC2 is in clouds, SSM in keys, the catalogue in
// planning. So a function has neither the bytes nor the rights nor the start-up
// time of those that it does not need.
//
//   - A batch of SQS messages becomes events, grouped so that units share
//     transactions, and goes to broker.Handle; what failed is reported message by
//     message, what can never succeed goes to the dead letters with its reason.
//   - A batch of the table's stream makes the relay publish.
//   - HTTP API requests (payload 2.0) are served by pkg/api, in gateway.
//
// Logs are JSON lines with the request's and the trace's ID and never hold a
// payload; metrics are lines in CloudWatch's embedded metric format (emf).
package lambdahost
