package onmachine

import (
	"cmp"
	"context"
	"errors"
	"net"
	"net/http"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tradewind-broker/tradewind/internal/cli/command"
	"github.com/tradewind-broker/tradewind/pkg/client"
)

// Brokers finds the broker of a state folder for a command.
type Brokers struct {
	// Flags adds the flags that choose the broker, and completes jobs and tasks.
	Flags func(c *cobra.Command, state *string)
	// Find returns the broker, the ID of a named job, and a function that closes the connection.
	Find func(ctx context.Context, state, job string) (b Broker, id string, done func() error, err error)
}

// app is the shared state of the commands.
type app struct {
	*command.App
	brokers Brokers
}

// Commands returns exec, shell, forward and ssh-config.
func Commands(in *command.App, b Brokers) []*cobra.Command {
	a := app{in, b}
	return []*cobra.Command{a.execCommand(), a.shellCommand(), a.forwardCommand(), a.sshConfigCommand(),
		a.sshProxyCommand()}
}

// machineFlags are the flags that choose a machine.
type machineFlags struct {
	state string
	rank  int
}

// machineFlags adds the flags that choose a machine.
func (a app) machineFlags(c *cobra.Command) *machineFlags {
	m := &machineFlags{}
	a.brokers.Flags(c, &m.state)
	c.Flags().IntVar(&m.rank, "rank", 0, "machine of a task that runs on several, counted from 0")
	return m
}

// onTaskMachine calls a function with the machine of a task and this process's input and output, and exits with the
// returned code. The function handles interrupts itself.
func (a app) onTaskMachine(c *cobra.Command, m *machineFlags, given []string,
	do func(ctx context.Context, b Broker, w Target, p Process) (int, error)) error {
	if m.rank < 0 {
		return command.BadInput("", "--rank must be at least 0")
	}
	ctx, hold := a.Stop.Until(c.Context())
	b, id, done, err := a.brokers.Find(ctx, m.state, given[0])
	if hold(); err != nil {
		return err
	}
	code, err := do(ctx, b, Target{Job: id, Task: given[1], Rank: m.rank}, Process{
		In: a.In, Out: a.Out, Err: a.Err, Interrupted: a.Stop.First(),
	})
	if client.Status(err) == http.StatusNotFound {
		err = cmp.Or(a.checkTask(ctx, b, id, given[1]), err)
	}
	if err = errors.Join(err, done()); err == nil && code != 0 {
		err = command.Silent(code)
	}
	return err
}

func (a app) execCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "exec JOB TASK -- COMMAND [ARGUMENT...]",
		Short: "Run a command on the machine where a task runs",
		Long: "Runs a command on the machine of a running task: in the task's folder, with its environment, and in\n" +
			"its container if it has one. Input, output and the exit code are passed through; Ctrl-C is sent to the\n" +
			"command. The machine needs no open port, because its agent connects to the broker. `tradewind explain`\n" +
			"lists who ran which command. JOB is an ID, the beginning of one, or \"last\".",
		Example: "  tradewind exec last train -- nvidia-smi\n" +
			"  tradewind exec last train --rank 3 -- sh -c 'tail -n 20 $TRADEWIND_OUTPUT/log'",
		Args: func(c *cobra.Command, given []string) error {
			if at := c.ArgsLenAtDash(); at != 2 || len(given) < 3 {
				return command.BadInput("tradewind exec JOB TASK -- COMMAND",
					"missing a job, a task, -- or a command")
			}
			return nil
		},
	}
	m := a.machineFlags(c)
	c.RunE = func(c *cobra.Command, given []string) error {
		return a.onTaskMachine(c, m, given, func(ctx context.Context, b Broker, w Target, p Process) (int, error) {
			return Exec(ctx, b, w, given[2:], p)
		})
	}
	return c
}

func (a app) shellCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "shell JOB TASK",
		Short: "Open a terminal on the machine where a task runs",
		Long: "Opens a shell on the machine of a running task: in the task's folder, with its environment, and in its\n" +
			"container if it has one. To leave, even if the machine hangs, type `~.` at the start of a line; `~~`\n" +
			"is a tilde. JOB is an ID, the beginning of one, or \"last\".",
		Example: "  tradewind shell last train\n  tradewind shell train-infer train --rank 3",
		Args:    command.Args(2, 2),
	}
	m := a.machineFlags(c)
	c.RunE = func(c *cobra.Command, given []string) error {
		return a.onTaskMachine(c, m, given, func(ctx context.Context, b Broker, w Target, p Process) (int, error) {
			return Shell(ctx, b, w, nil, p, a.Lookup("TERM"))
		})
	}
	return c
}

func (a app) forwardCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "forward JOB TASK [LOCAL:]PORT",
		Short: "Reach a port of the machine where a task runs",
		Long: "Forwards a loopback port of this computer to PORT of the machine where a task runs, for example to a\n" +
			"notebook or TensorBoard. LOCAL is the port of this computer (default: PORT); 0 takes any free port.\n" +
			"The command runs until Ctrl-C, or until this try of the task has finished. JOB is an ID, the beginning\n" +
			"of one, or \"last\".",
		Example: "  tradewind forward last train 6006\n  tradewind forward last notebook 8000:8888",
		Args:    command.Args(3, 3),
	}
	m := a.machineFlags(c)
	c.RunE = func(c *cobra.Command, given []string) error {
		local, port, err := readPorts(given[2])
		if err != nil {
			return err
		}
		return a.onTaskMachine(c, m, given, func(ctx context.Context, b Broker, w Target, p Process) (int, error) {
			ctx, cancel := a.Stop.Context(ctx)
			defer cancel()
			listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp",
				net.JoinHostPort("127.0.0.1", strconv.Itoa(local)))
			if err != nil {
				return 0, command.Because(
					err,
					command.ExitFailed,
					"use LOCAL:PORT for another one, as in 0:"+strconv.Itoa(
						port,
					),
					"port %d of this computer: %v",
					local,
					err,
				)
			}
			return 0, Forward(ctx, b, w, listener, port, p, func() error {
				return a.Printf("http://%s forwards to port %d of the machine of %s\n", listener.Addr(), port, w.Task)
			})
		})
	}
	return c
}

// readPorts parses [LOCAL:]PORT.
func readPorts(text string) (local, port int, err error) {
	first, second, both := strings.Cut(text, ":")
	if !both {
		second = first
	}
	local, lerr := strconv.Atoi(first)
	port, perr := strconv.Atoi(second)
	if lerr != nil || perr != nil || local < 0 || local > 65535 || port < 1 || port > 65535 {
		return 0, 0, command.BadInput("as in 8888, 8000:8888 or 0:8888", "%q is not a port", text)
	}
	return local, port, nil
}
