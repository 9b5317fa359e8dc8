// Package cli is the command line: it reads flags and files, finds or starts a
// broker, and renders what it answers as tables for people or JSON for
// programs. Names of commands and flags, the fields of -o json and the exit codes are a
// contract, written down in docs/cli.md.
//
// Every command runs against an Env, so that a test can run it in its own
// process; nothing here reads global state. Results go to standard output;
// progress, warnings, hints and errors to standard error.
package cli
