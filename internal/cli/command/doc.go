// Package command is shared by the packages of the command line: the environment that a command runs in, its flags,
// output, interrupts and errors. It contains no commands.
package command
