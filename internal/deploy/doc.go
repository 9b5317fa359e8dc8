// Package deploy puts a synthesised deployment (infra/) into an AWS account:
// what the CDK's own command does, for the one assembly that Tradewind has,
// with nothing but credentials. The order is: build the binaries and synthesise
// (Build), read the assembly (ReadAssembly), then with a Target upload what it refers to (Upload),
// make a change set of the difference (Plan), and execute or discard it (Execute, Discard).
//
// It keeps nothing on disk: what is deployed, CloudFormation knows.
package deploy
