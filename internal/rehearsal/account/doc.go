// Package account is the part of AWS that the emulator lacks, so that a
// deployment can be rehearsed with its real template and its real binaries. moto
// keeps the table, the queues, the buckets, the rules and the machines on paper;
// this package
//
//   - runs the Lambda binaries (sandbox), fed as the template says: queues and the stream by their event source
//     mappings (feed.go, stream.go), schedules by the clock (schedules.go), HTTP by the API's routes and their
//     authorisation (gateway.go);
//   - plays the hypervisor: a machine that EC2 reports becomes a process that its user data starts (hypervisor.go);
//   - stands between the functions and the emulator (proxy.go): it counts each request for the bill, checks that the
//     function's role allows it, and lets calls fail.
//
// What it takes from the template, it reads there and nowhere else: a wrong batch size, a missing right or a filter
// that matches nothing is found. localstack/README.md says what moto does otherwise than AWS.
package account
