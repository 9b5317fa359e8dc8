package container

import (
	"os/exec"
	"syscall"
)

// apart keeps a signal that is meant for the agent, such as Ctrl-C at a terminal, from the engine's client: the agent
// ends the task in its own time.
func apart(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{CreationFlags: syscall.CREATE_NEW_PROCESS_GROUP}
}
