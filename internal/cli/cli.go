package cli

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tradewind-broker/tradewind/internal/cli/about"
	"github.com/tradewind-broker/tradewind/internal/cli/clouds"
	"github.com/tradewind-broker/tradewind/internal/cli/command"
	"github.com/tradewind-broker/tradewind/internal/cli/loopback"
	"github.com/tradewind-broker/tradewind/internal/cli/onmachine"
	"github.com/tradewind-broker/tradewind/internal/cli/planning"
	"github.com/tradewind-broker/tradewind/internal/cli/prices"
	"github.com/tradewind-broker/tradewind/internal/cloudkit"
)

// Main runs the command line of this process, with the clouds that it has the clients of, and returns its exit code.
func Main(version string, known clouds.Support) int {
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	// The reader of the output may go away. That must end only the write, not a broker with machines to free. Tasks
	// inherit ignored signals, but not signals with a handler.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	return Run(context.Background(), &Env{Clouds: known, Env: command.Env{
		In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Environ: os.Environ(), Version: version,
		Now: time.Now, Interrupts: signals, Exit: os.Exit, Ask: command.AskOn(os.Stdin, os.Stderr),
	}}, os.Args[1:])
}

// Run runs one command and returns its exit code. It prints any error to env.Err.
func Run(ctx context.Context, env *Env, args []string) int {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	a := newApp(ctx, env, args)
	root := a.root()
	args = impliedRun(root, args)
	root.SetArgs(args)
	root.SetIn(env.In)
	root.SetOut(env.Out)
	root.SetErr(env.Err)
	err := root.ExecuteContext(ctx)
	if errors.Is(err, syscall.EPIPE) {
		return command.ExitFailed // the reader of the output has gone; no one reads an error message
	}
	if err != nil {
		command.Report(env.Err, env.Style(env.Err), err)
	}
	return command.ExitCode(err)
}

// Env is the process that a command runs in.
type Env struct {
	command.Env
	// Brokers finds and opens brokers; nil means the real ones.
	Brokers Brokers
	// Clouds are the clouds and clusters that the program has the clients of.
	Clouds clouds.Support
}

// app is the shared state of the commands of one run.
type app struct {
	*command.App
	brokers Brokers
	clouds  clouds.Support

	logFormat command.Choice
	// The remote broker, and the flag sets of the commands that accept one.
	endpoint       string
	brokerFlagSets []*pflag.FlagSet
}

// newApp returns the shared state of one run; it counts interrupts until ctx ends.
func newApp(ctx context.Context, env *Env, args []string) *app {
	a := &app{App: command.New(ctx, &env.Env, args), brokers: env.Brokers, clouds: env.Clouds}
	if a.clouds.Deploy == nil {
		a.clouds = clouds.None()
	}
	if a.brokers == nil {
		a.brokers = localBrokers{}
	}
	return a
}

// The groups of commands in the help.
const (
	groupWork    = "work"
	groupPlan    = "plan"
	groupOperate = "operate"
)

// root returns the command tree.
func (a *app) root() *cobra.Command {
	a.logFormat = command.NewChoice("text", "text", "json")
	root := &cobra.Command{
		Use:           "tradewind",
		Short:         "Run DAGs of batch tasks on the machines that cost least",
		Long:          "Tradewind runs each task of a DAG on the machine and market that cost least.",
		Example:       "  tradewind init && tradewind run job.yaml   # write a job file and simulate it",
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	command.Root(root, a.Version, otherNames())
	command.YAMLOutput(root, a.App)
	root.PersistentFlags().BoolVarP(&a.Verbose, "verbose", "v", false, "log to standard error what the broker does")
	root.PersistentFlags().Var(&a.logFormat, "log-format", "form of the log")
	command.CompleteChoice(root, "log-format", &a.logFormat)
	root.SetFlagErrorFunc(a.FlagError)
	root.AddGroup(
		&cobra.Group{ID: groupWork, Title: "Run jobs:"},
		&cobra.Group{ID: groupPlan, Title: "Plan and look up:"},
		&cobra.Group{ID: groupOperate, Title: "Operate:"},
	)
	a.add(root, groupWork, InitCommand(a.App), a.runCommand(), a.submitCommand(), a.statusCommand(), a.topCommand(),
		a.logsCommand(), a.cancelCommand(), a.rerunCommand(), a.removeCommand(), a.explainCommand())
	a.add(root, groupWork, SuspendCommands(a.App, a.suspendBrokers())...)
	a.add(root, groupWork, onmachine.Commands(a.App, a.machineBrokers())...)
	enabled := clouds.Enabling(a.App, a.clouds.Kits, a.brokers.Find)
	sold := planning.Catalog(a.App)
	sold.AddCommand(clouds.Refresh(a.App, a.clouds.Kits, a.brokers.Find, a.logger))
	a.add(
		root,
		groupPlan,
		planning.Plan(a.App, enabled),
		planning.Cost(a.App),
		prices.Command(a.App),
		sold,
		planning.Convert(a.App),
		planning.Schema(a.App),
	)
	a.add(root, groupOperate, a.upCommand(), a.backupCommand(), a.restoreCommand(), a.configCommand(),
		clouds.Command(a.App, a.clouds.Kits, a.brokers.Find, a.remoteBrokers(), a.logger),
		a.clouds.Deploy(a.App, cloudkit.Names(a.clouds.Kits)), a.queueCommand(),
		a.poolCommand(),
		a.dlqCommand(), a.tokenCommand(), loopback.DashboardCommand(a.App, a.dashboardBrokers(enabled)),
		loopback.TESCommand(a.App, a.tesBrokers()),
		DoctorCommand(a.App, a.brokers.Find, clouds.Checking(a.App, a.clouds.Kits, a.brokers.Find, a.logger),
			cloudkit.Names(a.clouds.Kits)), about.Version(a.App, root.Name()),
		about.Upgrade(a.App))
	a.add(root, groupOperate, WatchCommands(a.App, a.watchingBrokers())...)
	root.AddCommand(agentCommand())
	help := root.HelpFunc()
	root.SetHelpFunc(func(c *cobra.Command, args []string) {
		if c != root {
			help(c, args)
		} else if err := rootHelp(c.OutOrStdout(), root); err != nil {
			c.PrintErrln(err)
		}
	})
	return root
}

// otherNames has the names of commands in other programs, and the commands of this one that do the same.
func otherNames() map[string]string {
	names := map[string]string{}
	for use, others := range map[string]string{
		"tradewind status":         "ps ls list jobs tasks squeue qstat sacct",
		"tradewind status JOB":     "describe get show info view",
		"tradewind status --watch": "watch wait",
		"tradewind cancel JOB":     "delete kill rm remove stop down destroy abort scancel qdel terminate",
		"tradewind run FILE":       "launch start apply create execute sbatch srun qsub",
		"tradewind rerun JOB":      "retry restart requeue resubmit",
		"tradewind logs --follow":  "tail",
		"tradewind suspend JOB":    "pause hold",
		"tradewind resume JOB":     "unpause release continue",
		"tradewind catalog search": "gpus show-gpus offers instances",
		"tradewind explain JOB":    "history events why",
		"tradewind usage":          "cost-report sreport bill billing",
		"tradewind queue list":     "queues partitions",
		"tradewind pool list":      "nodes sinfo",
		"tradewind machines":       "workers vms clusters",
		"tradewind run FILE, with resources: {market: spot} in the file": "spot use_spot use-spot",
		"tradewind run FILE, with nodes: N in the file":                  "num_nodes num-nodes",
		"tradewind run FILE, with resources: {disk: 100} in the file":    "disk_size disk-size",
		"tradewind run FILE, with service: in the file":                  "serve",
		"tradewind shell JOB TASK":                                       "ssh attach",
		"tradewind doctor":                                               "check",
	} {
		for name := range strings.FieldsSeq(others) {
			names[name] = use
		}
	}
	for _, name := range []string{"backtest", "chaos", "optimize", "place", "windtunnel"} {
		names[name] = "tradewind-lab " + name
	}
	return names
}

func (a *app) add(root *cobra.Command, group string, commands ...*cobra.Command) {
	for _, c := range commands {
		c.GroupID = group
		root.AddCommand(c)
	}
}

// logger logs to standard error: everything with --verbose, otherwise only messages from level on.
func (a *app) logger(level slog.Level) *slog.Logger {
	if a.Verbose {
		level = slog.LevelDebug
	}
	opt := &slog.HandlerOptions{Level: level}
	if a.logFormat.Value == "json" {
		return slog.New(slog.NewJSONHandler(a.Err, opt))
	}
	return slog.New(slog.NewTextHandler(a.Err, opt))
}

// agentCommand only documents the agent: the program becomes an agent before it parses any command, see
// cmd/tradewind.
func agentCommand() *cobra.Command {
	return &cobra.Command{
		Use: "agent", Short: "Run the agent on a machine (started by the broker)", Hidden: true, Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			return command.BadInput("the broker starts agents on its machines; do not start one by hand",
				"agent must be the first word of the command line")
		},
	}
}
