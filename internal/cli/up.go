package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/spf13/cobra"

	"github.com/tradewind-broker/tradewind/internal/api/signin"
	"github.com/tradewind-broker/tradewind/internal/broker/config"
	"github.com/tradewind-broker/tradewind/internal/cli/clouds"
	"github.com/tradewind-broker/tradewind/internal/cli/command"
	"github.com/tradewind-broker/tradewind/internal/cli/loopback"
	"github.com/tradewind-broker/tradewind/internal/cli/text"
	"github.com/tradewind-broker/tradewind/internal/host"
)

func (a *app) upCommand() *cobra.Command {
	var o host.Options
	var buy buyFlags
	var limit command.Limit
	var clusterJobs bool
	c := &cobra.Command{
		Use:   "up",
		Short: "Run the broker with its dashboard until stopped",
		Long: "Runs the broker until Ctrl-C. The broker serves the API and the dashboard on this computer, runs every\n" +
			"job file in the folder --dags, and resumes the unfinished jobs of an earlier broker. Ctrl-C stops the\n" +
			"machines and the broker; unfinished jobs resume at the next start.\n" +
			"\n" +
			"With --clouds the broker buys machines on clouds that `tradewind cloud add` has set up. These machines\n" +
			"cost money. They connect to the broker at --public-url, or through a bucket if there is no such URL.\n" +
			"Without --clouds, this computer simulates every cloud and buys nothing. See docs/clouds.md.",
		Example: "  tradewind up\n  tradewind up --dags dags/ --addr 127.0.0.1:8080\n" +
			"  tradewind up --time-scale 0.001 --seed 7\n" +
			"  tradewind up --clouds aws,lambda --public-url https://broker.example.org",
		Args: command.Args(0, 0),
	}
	a.worldFlags(c, &o)
	c.Flags().StringVar(&o.DAGs, "dags", "", "folder to watch for job files")
	_ = c.MarkFlagDirname("dags")
	loopback.AddrFlag(c, &o.Addr, "addr",
		"address of the API (default: a loopback port, the same one at each start)")
	a.buyFlags(c, &buy)
	c.Flags().BoolVar(&clusterJobs, "kubernetes-jobs", false,
		"run the Job.tradewind.dev objects in the namespace of the kubeconfig or pod")
	c.Flags().Var(&keep{into: &o.Keep}, "keep",
		"how long to keep finished jobs: 90d, or forever (default); keep in a job file or of a queue overrides it")
	limit.Flags(c.Flags())
	output := command.OutputFlag(c)
	c.RunE = func(c *cobra.Command, _ []string) error {
		o.Limit = config.Limit{Machines: limit.Machines, USDPerHour: float64(limit.USDPerHour.Value)}
		if err := a.buyOn(&o, &buy); err != nil {
			return err
		}
		var jobs *clouds.ClusterJobs
		if clusterJobs {
			var err error
			if jobs, err = a.clouds.ClusterJobs(); err != nil {
				return fmt.Errorf("--kubernetes-jobs: %w", err)
			}
			o.Hosts = jobs.Hosts
		}
		return a.up(c.Context(), o, jobs, output)
	}
	return c
}

// UpResult is the output of `up -o json` when the broker is ready.
type UpResult struct {
	URL       string  `json:"url"`
	Dashboard string  `json:"dashboard"` // with the token
	State     string  `json:"state"`
	DAGs      string  `json:"dags,omitempty"`
	PID       int     `json:"pid"`
	TimeScale float64 `json:"timeScale"`
	Simulated bool    `json:"simulated,omitempty"` // nothing is bought
	// Clouds are the clouds to buy machines on, and PublicURL is where these machines reach the broker.
	Clouds    []string `json:"clouds,omitempty"`
	PublicURL string   `json:"publicUrl,omitempty"`
}

func (a *app) up(ctx context.Context, o host.Options, jobs *clouds.ClusterJobs, output *command.Choice) error {
	if err := checkWorld(&o); err != nil {
		return err
	}
	r, running, err := a.brokers.Find(absolute(o.State))
	if err != nil {
		return err
	}
	if running {
		return alreadyUp(absolute(o.State), r)
	}
	newDAGs := o.DAGs != "" && !command.Exists(o.DAGs)
	o.Log = a.logger(slog.LevelInfo)
	serving, cancel := a.Stop.Context(ctx)
	defer cancel()
	s, err := a.start(serving, o)
	if err != nil {
		return err
	}
	if !s.embedded {
		return alreadyUp(s.state, s.running)
	}
	if newDAGs {
		a.Tell("created the folder %s", o.DAGs)
	}
	err = a.announce(s, o, output)
	if err == nil {
		a.reportUnfinished(ctx, s)
		if jobs != nil {
			defer jobs.Run(serving, s, s.running.Token, o.Log)()
		}
		err = s.wait(serving)
	}
	if err == nil {
		a.Tell("stopping the machines; interrupt again to leave at once")
	}
	return errors.Join(err, s.Close())
}

func alreadyUp(state string, r host.Running) error {
	return command.Failed("its dashboard is "+r.URL+", and `tradewind token sign-in` prints an address that signs in"+
		"\nsubmit to it with `tradewind submit FILE`, or use another folder with --state",
		"a broker is already running for %s (pid %d, %s)", state, r.PID, r.URL)
}

// signInURL returns the URL that signs a browser in, once.
func signInURL(r host.Running) string { return signin.New(r.Token).SignIn(r.URL) }

// announce prints the broker's addresses.
func (a *app) announce(s *conn, o host.Options, output *command.Choice) error {
	result := UpResult{
		URL: s.running.URL, Dashboard: signInURL(s.running), State: s.state, PID: s.running.PID, TimeScale: o.TimeScale,
	}
	if o.DAGs != "" {
		result.DAGs = absolute(o.DAGs)
	}
	for _, c := range o.Clouds {
		result.Clouds = append(result.Clouds, c.Kit.Name)
	}
	result.PublicURL = o.PublicURL
	result.Simulated = len(o.Clouds) == 0
	if output.JSON() {
		return a.PrintJSON(result)
	}
	style := a.Style(a.Out)
	if command.Terminal(a.Out) == nil { // others may read it later, as in the log of a pod
		result.Dashboard = result.URL
	}
	t := text.Table{Bare: true, Columns: []text.Column{{}, {}}}
	t.Rows = append(t.Rows,
		[]text.Cell{{Text: "dashboard", Tone: text.Faint}, {Text: result.Dashboard, Tone: text.Strong}})
	add := func(name, value string) {
		t.Rows = append(t.Rows, []text.Cell{{Text: name, Tone: text.Faint}, {Text: value}})
	}
	add("state", result.State)
	if result.DAGs != "" {
		add("DAG folder", result.DAGs)
	}
	if len(result.Clouds) > 0 {
		add("buys on", text.List(result.Clouds, "and"))
		add("public URL", result.PublicURL)
	}
	if result.Simulated {
		t.Rows = append(t.Rows, []text.Cell{{Text: "machines", Tone: text.Faint},
			{Text: text.Simulated(o.TimeScale), Tone: text.Warn}})
	}
	if o.TimeScale != 1 {
		add("time scale", text.Number(o.TimeScale))
	}
	add("stop", "Ctrl-C")
	return a.PrintLines(t.Lines(0, style))
}
