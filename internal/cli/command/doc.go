// Package command is what the packages of the command line share: the process that a command runs in, its flags,
// what it prints, how it is interrupted and how it fails. It knows no command.
package command
