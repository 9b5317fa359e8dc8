package lab

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/tradewind-broker/tradewind/internal/cli/about"
	"github.com/tradewind-broker/tradewind/internal/cli/command"
)

// Main runs the command line of this process and returns its exit code.
func Main(version string) int {
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	return Run(context.Background(), &command.Env{
		In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Environ: os.Environ(), Version: version,
		Now: time.Now, Interrupts: signals, Exit: os.Exit,
	}, os.Args[1:])
}

// Run runs one command and returns its exit code. It prints any error to env.Err.
func Run(ctx context.Context, env *command.Env, args []string) int {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	root := app{command.New(ctx, env, args)}.root()
	root.SetArgs(args)
	root.SetIn(env.In)
	root.SetOut(env.Out)
	root.SetErr(env.Err)
	err := root.ExecuteContext(ctx)
	if err != nil && !errors.Is(err, syscall.EPIPE) {
		command.Report(env.Err, env.Style(env.Err), err)
	}
	return command.ExitCode(err)
}

// root returns the tree of commands.
func (a app) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "tradewind-lab",
		Short: "Measure and test the parts of Tradewind without a broker",
		Long: "The research tools of Tradewind. They replay recorded prices, availability and clusters, solve models,\n" +
			"place containers, and run the broker in simulated worlds. None of them needs a broker or a cloud account.",
		Example: "  tradewind-lab chaos --seeds 0:500\n" +
			"  tradewind-lab backtest bid --prices data/aws-2016 --work 24h --deadline 36h\n" +
			"  tradewind plan job.yaml --model-out m.json && tradewind-lab optimize m.json",
		SilenceErrors: true, SilenceUsage: true,
	}
	command.Root(root, a.Version, map[string]string{"plan": "tradewind plan", "run": "tradewind run"})
	command.YAMLOutput(root, a.App)
	root.PersistentFlags().BoolVarP(&a.Verbose, "verbose", "v", false, "log to standard error what the commands do")
	root.SetFlagErrorFunc(a.FlagError)
	root.AddCommand(a.backtestCommand(), a.billCommand(), a.chaosCommand(), a.optimizeCommand(), a.placeCommand(),
		a.pricesCommand(), a.reproduceCommand(),
		a.windtunnelCommand(), about.Version(a.App, root.Name()))
	return root
}
