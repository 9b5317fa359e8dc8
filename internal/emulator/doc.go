// Package emulator starts the emulators for tests and rehearsals of the AWS parts:
// DynamoDB Local, which is Amazon's own and exact, and moto, which imitates most
// services less exactly. `make emulators` installs both under .tools. A test
// whose emulator is missing is skipped and prints what to run.
//
// A test requests an endpoint and gets that of a process that the whole test binary
// shares, started at the first call:
//
//	client := dynamodb.NewFromConfig(emulator.Config(emulator.DynamoDBLocal(t)))
//
// The process is not reset between tests: each test creates tables, buckets and queues
// with unique names. The processes end with the test binary, however it ends: they watch
// a pipe that the kernel closes, so that no process survives a panic, the deadline of
// go test, or a kill. BootMachine makes the machines of the emulated clouds. Nothing here is part of the product.
package emulator
