// Package deploy deploys a synthesised deployment (infra/) to an AWS account. It
// does what the CDK's command does, but only for Tradewind's assembly, and needs
// only credentials. The steps are: build the binaries and synthesise (Build), read
// the assembly (ReadAssembly), then with a Target upload its files (Upload),
// make a change set (Plan), and execute or discard it (Execute, Discard).
//
// It stores nothing on disk: CloudFormation has the state of the deployment.
package deploy
