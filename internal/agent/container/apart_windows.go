package container

import (
	"os/exec"
	"syscall"
)

// newProcessGroup starts the engine's client in its own process group, so that a signal for the agent, such as Ctrl-C
// at a terminal, does not reach the client. The agent ends the task itself.
func newProcessGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{CreationFlags: syscall.CREATE_NEW_PROCESS_GROUP}
}
