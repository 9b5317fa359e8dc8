package onmachine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tradewind-broker/tradewind/internal/base/fault"
	"github.com/tradewind-broker/tradewind/internal/cli/command"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
)

func (a app) sshConfigCommand() *cobra.Command {
	var host string
	c := &cobra.Command{
		Use:   "ssh-config JOB TASK",
		Short: "Let ssh and tools based on it reach the machine where a task runs",
		Long: "Prints an entry for ~/.ssh/config, with which ssh, scp, rsync and editors reach the machine of a\n" +
			"running task. The entry makes ssh start this program, which reaches the machine through the broker,\n" +
			"like `tradewind exec`. So the machine needs no open port, no key is created or stored, and `tradewind\n" +
			"explain` lists each connection. The task must be running when ssh connects. JOB is an ID, the\n" +
			"beginning of one, or \"last\".",
		Example: "  tradewind ssh-config last train >>~/.ssh/config\n" +
			"  tradewind ssh-config last train --host gpu >~/.ssh/gpu; ssh -F ~/.ssh/gpu gpu nvidia-smi",
		Args: command.Args(2, 2),
	}
	m := a.machineFlags(c)
	c.Flags().StringVar(&host, "host", "", "name of the entry (default: the job's ID and the task's name)")
	c.RunE = func(c *cobra.Command, given []string) error {
		if m.rank < 0 {
			return command.BadInput("", "--rank must be at least 0")
		}
		if host != "" && sshName(host) != host {
			return command.BadInput("use letters, digits, dots, dashes and underscores",
				"--host: %q is not a valid name for ssh", host)
		}
		ctx, cancel := a.Stop.Context(c.Context())
		defer cancel()
		b, id, done, err := a.brokers.Find(ctx, m.state, given[0])
		if err != nil {
			return err
		}
		err = errors.Join(a.checkTask(ctx, b, id, given[1]), done())
		if err != nil {
			return err
		}
		program, err := os.Executable()
		if err != nil {
			return fmt.Errorf("cannot find this program's path: %w", err)
		}
		argv := []string{program, "ssh-proxy", id, given[1], "--rank", strconv.Itoa(m.rank)}
		if at := c.Flags().Lookup("endpoint").Value.String(); at != "" && !c.Flags().Changed("state") {
			argv = append(argv, "--endpoint", at)
		} else {
			argv = append(argv, "--state", command.Absolute(m.state))
		}
		if host == "" {
			host = sshName(id + "." + given[1])
			if m.rank > 0 {
				host += "." + strconv.Itoa(m.rank)
			}
		}
		return a.Printf("%s", sshEntry(host, argv))
	}
	return c
}

// checkTask returns an error if a job does not have a task.
func (a app) checkTask(ctx context.Context, b Broker, job, task string) error {
	v, err := b.Job(ctx, job)
	if err != nil {
		return err
	}
	return CheckTask(v, task)
}

// CheckTask returns an error, with a suggestion, if a job does not have a task.
func CheckTask(v *apitypes.JobDetail, task string) error {
	var names, replicas []string
	for _, t := range v.TaskList {
		if t.Name == task {
			return nil
		}
		names = append(names, t.Name)
		if t.Service == task {
			replicas = append(replicas, t.Name)
		}
	}
	hint := "`tradewind status " + v.ID + "` lists its tasks"
	switch meant := fault.Nearest(task, names); {
	case len(replicas) > 0:
		hint = "it is a service: its replicas are " + strings.Join(replicas[:min(len(replicas), 3)], ", ")
		if len(replicas) > 3 {
			hint += ", …"
		}
	case meant != "":
		hint = "did you mean " + strconv.Quote(meant) + "? " + hint
	}
	return command.BadInput(hint, "job %s has no task %q", v.ID, task)
}

// sshName replaces the characters that an ssh host name cannot have.
func sshName(name string) string {
	return strings.Map(func(c rune) rune {
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '.', c == '-', c == '_':
			return c
		}
		return '-'
	}, name)
}

// sshEntry returns the entry of ssh_config(5) with which ssh starts a program to reach a host. The program is ssh's own
// child process, so no one can intercept the connection and there is no key to verify.
func sshEntry(host string, argv []string) string {
	words := make([]string, len(argv))
	for i, w := range argv {
		words[i] = "'" + strings.ReplaceAll(strings.ReplaceAll(w, "'", `'\''`), "%", "%%") + "'"
	}
	return "Host " + host + "\n" +
		"  ProxyCommand " + strings.Join(words, " ") + "\n" +
		"  User tradewind\n" +
		"  PreferredAuthentications none\n" +
		"  StrictHostKeyChecking no\n" +
		"  UserKnownHostsFile /dev/null\n" +
		"  LogLevel ERROR\n"
}

// sshProxyCommand is the command that ssh starts.
func (a app) sshProxyCommand() *cobra.Command {
	c := &cobra.Command{
		Use:    "ssh-proxy JOB TASK",
		Short:  "Speak SSH on standard input and output, for ssh",
		Hidden: true, // only the entries of ssh-config use it
		Args:   command.Args(2, 2),
	}
	m := a.machineFlags(c)
	c.RunE = func(c *cobra.Command, given []string) error {
		return a.onTaskMachine(c, m, given, func(ctx context.Context, b Broker, w Target, p Process) (int, error) {
			ctx, cancel := a.Stop.Context(ctx)
			defer cancel()
			return 0, ServeSSH(ctx, b, w, &stdio{Reader: p.In, Writer: p.Out})
		})
	}
	return c
}

// stdio is a connection over the process's standard input and output.
type stdio struct {
	io.Reader
	io.Writer
}

// Close implements net.Conn: the other side sees the end when the process ends.
func (s *stdio) Close() error {
	if f, ok := s.Reader.(io.Closer); ok {
		return f.Close()
	}
	return nil
}

// LocalAddr implements net.Conn.
func (*stdio) LocalAddr() net.Addr { return stdioAddr{} }

// RemoteAddr implements net.Conn.
func (*stdio) RemoteAddr() net.Addr { return stdioAddr{} }

// SetDeadline implements net.Conn, as do the next two methods: a pipe has no deadlines.
func (*stdio) SetDeadline(time.Time) error      { return nil }
func (*stdio) SetReadDeadline(time.Time) error  { return nil }
func (*stdio) SetWriteDeadline(time.Time) error { return nil }

type stdioAddr struct{}

func (stdioAddr) Network() string { return "pipe" }
func (stdioAddr) String() string  { return "ssh" }
