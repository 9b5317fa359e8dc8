// Package cli is the command line. It reads flags and files, finds or starts a broker, and renders its answers as
// tables for people or JSON for programs. The names of commands and flags, the fields of -o json and the exit codes are
// a contract, see docs/cli.md.
//
// Every command runs against an Env, so a test can run it in its own process; nothing here reads global state. Results
// go to standard output; progress, warnings, hints and errors go to standard error.
package cli
