// Package emulator starts the emulators that the AWS parts are tested and
// rehearsed against: DynamoDB Local, which is Amazon's own and exact, and moto,
// which imitates most services and is not. The scripts of `make emulators` install both under
// .tools; a test that needs one that is absent skips and says what to run.
//
// A test asks for an endpoint and gets that of a process shared by its whole test
// binary, started at the first call:
//
//	client := dynamodb.NewFromConfig(emulator.Config(emulator.DynamoDBLocal(t)))
//
// What is shared is not reset between tests: each makes tables, buckets and queues under
// names of its own. The processes end with the binary, however it ends: they watch
// a pipe that the kernel closes, so that neither a panic, nor the deadline of
// go test, nor a kill leaves one behind. Nothing here is part of the product.
package emulator
