// Package lambdahost runs the broker's functions on AWS Lambda: it is the third
// host beside one process (pkg/host) and the simulator (internal/sim), and knows as
// little of decisions as they do.
//
// A main of functions/ names its function and the parts it needs, nothing
// else. What a part brings in, its package imports: the catalogue is in
// planning, EC2 in clouds, SSM in keys. So a function that does not need them has
// neither their bytes nor their rights nor their start-up time.
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
