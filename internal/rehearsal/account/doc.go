// Package account is the part of AWS that the emulator lacks, so that a deployment can be rehearsed with its real
// template and its real binaries. moto emulates the queues, buckets, rules and the records of machines, and DynamoDB
// Local the table. This package
//
//   - runs the Lambda binaries (sandbox), triggered as the template says: queues and the stream by their event source
//     mappings (feed.go, stream.go), schedules by the clock (schedules.go), HTTP by the API's routes and their
//     authorisation (gateway.go);
//   - is the hypervisor: each machine that EC2 reports becomes a process that its user data starts (hypervisor.go);
//   - is a proxy between functions and emulator (proxy.go): it counts each request for the bill, checks that the
//     function's role allows it, and makes calls fail.
//
// All of this is configured only by the template, so the rehearsal finds a wrong batch size, a missing permission or
// a filter that matches nothing. localstack/README.md lists the differences between moto and AWS.
package account
