// Package e2e has end-to-end tests: it runs the Lambda functions' handlers, wired as
// deployed, on emulators of AWS. A DAG file appears in the bucket, machines are
// bought, agents work, the job finishes.
package e2e
