package emulator

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/tradewind-broker/tradewind/internal/agent/bootstrap"
)

// MachineConfig describes a machine.
type MachineConfig struct {
	Dir      string // its disk; created if missing
	UserData []byte // a script, plain or compressed
	// Metadata is the handler of the cloud's metadata service; nil if the cloud has none.
	Metadata http.Handler
	// Environment returns variables for the boot script, in addition to PATH and HOME. service is the host and port
	// of the metadata service, or empty without one. The variables replace the addresses at which a real machine
	// finds its cloud.
	Environment func(service string) []string
}

// Machine is one machine of an emulated cloud: a process that runs the machine's user data, with a folder as its disk
// and its own metadata service, and that is killed like a machine.
type Machine struct {
	cmd    *exec.Cmd
	server *http.Server
	exited chan struct{}

	mu     sync.Mutex
	killed bool
	err    error
}

// BootMachine starts a machine. Its console is the file console.log on its disk.
func BootMachine(c MachineConfig) (*Machine, error) {
	script, err := bootstrap.Plain(c.UserData)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(c.Dir, 0o700); err != nil {
		return nil, err
	}
	file := filepath.Join(c.Dir, "user-data")
	if err := os.WriteFile(file, script, 0o600); err != nil {
		return nil, err
	}
	console, err := os.Create(filepath.Join(c.Dir, "console.log"))
	if err != nil {
		return nil, err
	}
	defer console.Close() //nolint:errcheck // the process has its own descriptor
	m := &Machine{exited: make(chan struct{})}
	service := ""
	if c.Metadata != nil {
		l, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // on loopback, immediate
		if err != nil {
			return nil, err
		}
		service = l.Addr().String()
		m.server = &http.Server{Handler: c.Metadata, ReadHeaderTimeout: 10 * time.Second}
		go func() { _ = m.server.Serve(l) }() // ends with the machine
	}
	m.cmd = exec.Command("bash", file) //nolint:gosec,noctx // runs what the cloud would run; Kill ends it
	m.cmd.Env = append([]string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + c.Dir, "LANG=C.UTF-8", bootstrap.EnvRoot + "=" + c.Dir,
	}, c.Environment(service)...)
	m.cmd.Dir, m.cmd.Stdout, m.cmd.Stderr = c.Dir, console, console
	m.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := m.cmd.Start(); err != nil {
		m.close()
		return nil, fmt.Errorf("boot: %w", err)
	}
	go func() {
		err := m.cmd.Wait()
		m.close()
		m.mu.Lock()
		m.err = err
		m.mu.Unlock()
		close(m.exited)
	}()
	return m, nil
}

func (m *Machine) close() {
	if m.server != nil {
		_ = m.server.Close()
	}
}

// ShutDown requests a shutdown of the machine, as its firmware does on ACPI's soft-off: systemd sends SIGTERM to the
// main process of the agent's unit.
func (m *Machine) ShutDown() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.killed {
		_ = syscall.Kill(m.cmd.Process.Pid, syscall.SIGTERM) // it may have ended
	}
}

// Kill ends the machine and all its processes.
func (m *Machine) Kill() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.killed {
		m.killed = true
		_ = syscall.Kill(-m.cmd.Process.Pid, syscall.SIGKILL) // it may have ended
	}
}

// Exited is closed when the machine has ended, killed or not.
func (m *Machine) Exited() <-chan struct{} { return m.exited }

// Ended returns, once Exited is closed, whether the machine was killed (otherwise it shut itself down), and its
// error.
func (m *Machine) Ended() (killed bool, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.killed, m.err
}
