package container

import (
	"os/exec"
	"syscall"
)

// apart starts the engine's client in its own process group, so that a signal for the agent, such as Ctrl-C at a
// terminal, does not reach the client. The agent ends the task itself.
func apart(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{CreationFlags: syscall.CREATE_NEW_PROCESS_GROUP}
}
