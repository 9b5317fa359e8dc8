// Package e2e runs the Lambda functions' own handlers, wired as deployed, on
// emulators of AWS: a DAG file appears in the bucket, machines are bought, agents
// work, the job ends. It is tests alone.
package e2e
