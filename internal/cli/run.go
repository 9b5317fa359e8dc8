package cli

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tradewind-broker/tradewind/internal/base/fault"
	"github.com/tradewind-broker/tradewind/internal/cli/clouds"
	"github.com/tradewind-broker/tradewind/internal/cli/command"
	"github.com/tradewind-broker/tradewind/internal/cli/jobfile"
	"github.com/tradewind-broker/tradewind/internal/cli/planning"
	"github.com/tradewind-broker/tradewind/internal/cli/text"
	"github.com/tradewind-broker/tradewind/internal/host"
	"github.com/tradewind-broker/tradewind/internal/pack"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/catalog"
	"github.com/tradewind-broker/tradewind/pkg/dag"
)

// runOptions are the flags of run.
type runOptions struct {
	host   host.Options
	over   *jobfile.Overrides
	limits *jobfile.Limits
	secret *jobfile.Secrets
	clouds []string
	buy    buyFlags
	*consent
	inline *inline
	detach bool
	output *command.Choice
	set    func(flag string) bool
}

func (a *app) runCommand() *cobra.Command {
	o := &runOptions{}
	c := &cobra.Command{
		Use:   "run FILE [-- ARG...] | run [flags] -- COMMAND [ARG...]",
		Short: "Plan a DAG, run it and follow it",
		Long: "Plans the DAG in FILE, runs it and shows its progress until it has finished. FILE is Tradewind or " +
			"SkyPilot\n" +
			"YAML, Kubernetes manifests, WfCommons JSON, Pegasus DAX or a Slurm batch script, optionally gzipped;\n" +
			"- is standard input. Without a FILE, the command after -- is the only task of the job, and --cpus, --memory,\n" +
			"--gpus, --disk and --time say what it needs.\n" +
			"\n" +
			"If a broker is running for the state folder (`tradewind up`), it runs the job, and the job continues\n" +
			"after Ctrl-C. Otherwise this command starts its own broker, which ends with the job. Then Ctrl-C asks\n" +
			"whether to leave, cancel or stay; without a terminal it cancels the job and frees its machines. A\n" +
			"second Ctrl-C exits at once.\n" +
			"\n" +
			"If the broker buys machines, the command first shows the plan and asks for a yes. Without a terminal,\n" +
			"a job that costs more than confirmAbove in `tradewind config` needs --yes.",
		Example: "  tradewind run examples/train-infer.yaml\n" +
			"  tradewind run job.yaml --deadline 6h --budget 20\n" +
			"  tradewind run job.yaml --on aws --away 30m   # on real machines, without a public address\n" +
			"  tradewind run --gpus A100 --time 2h -- python train.py --epochs 3\n" +
			"  tradewind run Montage_1000.xml.gz --time-scale 0.0001 --seed 7   # in compressed time, with random failures\n" +
			"  tradewind run job.yaml -o json 2>progress.log",
		Args: runArgs, ValidArgsFunction: command.CompleteFile,
	}
	o.over = jobfile.OverrideFlags(c, true)
	o.inline = inlineFlags(c)
	o.limits, o.secret = jobfile.LimitFlags(c), jobfile.SecretFlags(c)
	a.worldFlags(c, &o.host)
	a.cloudFlag(c, &o.clouds)
	a.onFlags(c, &o.buy)
	o.consent = consentFlags(c)
	a.completeQueue(c, &o.host.State)
	c.Flags().BoolVar(&o.detach, "detach", false, "submit the job to a running broker and return at once")
	a.brokerFlagSets = append(a.brokerFlagSets, c.Flags()) // --state overrides an endpoint from the environment
	o.output = command.OutputFlag(c)
	o.set = c.Flags().Changed
	c.RunE = func(c *cobra.Command, given []string) error {
		if c.ArgsLenAtDash() == 0 {
			body, err := o.inline.file(given)
			if err != nil {
				return err
			}
			o.over.Body = body
			return a.run(c.Context(), "command", o)
		}
		o.over.Args = given[1:]
		if err := o.inline.refuse(); err != nil {
			return err
		}
		return a.run(c.Context(), given[0], o)
	}
	return c
}

// runArgs accepts the arguments of scriptArgs, or only a command after --.
func runArgs(c *cobra.Command, given []string) error {
	switch dash := c.ArgsLenAtDash(); {
	case dash == 0 && len(given) > 0:
		return nil
	case dash < 0 && len(given) > 1:
		return command.BadInput("a command comes after --: tradewind run -- "+shellLine(given),
			"%s takes one job file, not %q", c.CommandPath(), given[1])
	case dash < 0 && len(given) == 1 && filepath.Ext(given[0]) == ".py":
		return command.BadInput("a command comes after --: tradewind run -- python3 "+shellLine(given),
			"%s is not a job file", given[0])
	}
	return scriptArgs(c, given)
}

// scriptArgs accepts a file, and after -- the arguments of a Slurm script.
func scriptArgs(c *cobra.Command, given []string) error {
	if dash := c.ArgsLenAtDash(); dash >= 0 {
		given = given[:dash]
	}
	return command.Args(1, 1)(c, given)
}

// RunResult is the output of `run -o json`: the job as in `status JOB -o json`, and the folder of its outputs.
type RunResult struct {
	*apitypes.JobDetail
	Outputs string `json:"outputs"`
}

func (a *app) run(ctx context.Context, path string, o *runOptions) error {
	if err := checkWorld(&o.host); err != nil {
		return err
	}
	if err := a.checkOn(o); err != nil {
		return err
	}
	packing := o.limits.Options(a.warnNotPacked)
	f, err := a.loadJob(ctx, path, o.over, o.secret, packing)
	if err != nil {
		return err
	}
	if err := onClouds(f, o.host.Catalog, o.clouds); err != nil {
		return err
	}
	p, err := a.propose(f, o.consent, len(o.clouds) > 0, o.output)
	if err != nil {
		return err
	}
	if o.detach {
		return a.submitTo(ctx, p, packing, submission{state: o.host.State, clouds: o.clouds, key: rand.Text()})
	}
	was, err := a.runningFor(o)
	if err != nil {
		return err
	}
	a.planOn(p, was, o.host.State, o.host.Catalog, o.clouds)
	p.buys = p.buys || len(o.buy.clouds) > 0
	if start, err := a.approve(ctx, p); !start {
		return err
	}
	s, err := a.brokerFor(ctx, f.Spec, o)
	if err != nil {
		return err
	}
	if !s.embedded && was == nil { // another process started its broker meanwhile, and that may buy
		a.planOn(p, s, o.host.State, o.host.Catalog, o.clouds)
		if start, err := a.approve(ctx, p); !start {
			return err
		}
	}
	return errors.Join(a.runOn(ctx, s, f, o), s.Close())
}

// runningFor returns the connection to the broker that runs for the state folder, or nil if none does.
func (a *app) runningFor(o *runOptions) (*conn, error) {
	r, running, err := a.brokers.Find(absolute(o.host.State))
	if err != nil || !running {
		return nil, err
	}
	return connected(absolute(o.host.State), r), a.checkRunningBroker(r, o)
}

// loadJob reads a job file for run and submit.
func (a *app) loadJob(ctx context.Context, path string, over *jobfile.Overrides, secrets *jobfile.Secrets,
	o pack.Options) (*jobfile.File, error) {
	o.Note = nil // packing prints the notes later
	ctx, cancel := a.Stop.Context(ctx)
	defer cancel()
	home := a.Lookup("HOME")
	f, err := over.Read(a.App, path)
	if err != nil {
		return nil, f.AddMissing(ctx, home, o, err, (*dag.Job).CheckValues)
	}
	var all fault.Faults
	return f, all.With(f.Spec.CheckValues(), secrets.Fill(a.App, f), f.Settle(ctx, home, o))
}

// warnNotPacked warns about a file that is not packed.
func (a *app) warnNotPacked(note string) { a.Warn([]string{note}) }

// brokerFor finds the broker that will run the job, or starts one.
func (a *app) brokerFor(ctx context.Context, spec *dag.Job, o *runOptions) (*conn, error) {
	if s, err := a.runningFor(o); s != nil || err != nil {
		return s, err
	}
	if err := a.setUpOn(ctx, o); err != nil {
		return nil, err
	}
	on, err := clouds.Enabling(a.App, a.clouds.Kits, a.brokers.Find)(ctx, absolute(o.host.State), o.clouds)
	if err != nil {
		return nil, err
	}
	if len(o.buy.clouds) == 0 {
		o.host.Play = on.Regions
	}
	c, err := on.Catalog(o.host.Catalog)
	if err != nil {
		return nil, err
	}
	if len(on.Regions) > 0 {
		a.Tell("%s", on.Describe(nil))
	}
	if err := onOffer(spec, c); err != nil {
		return nil, err
	}
	o.host.Log, o.host.Anew = a.logger(slog.LevelError), true
	s, err := a.start(ctx, o.host)
	if err == nil && !s.embedded {
		err = a.checkRunningBroker(s.running, o) // another process started its broker first
	}
	return s, err
}

// onOffer refuses a job before anything of it is stored if a task asks for something that no cloud sells. It accepts
// the job if its infeasible field is "wait".
func onOffer(spec *dag.Job, c *catalog.Catalog) error {
	if spec.Infeasible == dag.Wait {
		return nil
	}
	return planning.CheckOffers(c, spec, nil)
}

// checkRunningBroker refuses flags that a running broker was not started with.
func (a *app) checkRunningBroker(r host.Running, o *runOptions) error {
	hint := "leave the flag out, stop that broker, or use another folder with --state"
	if o.set("time-scale") && o.host.TimeScale != r.TimeScale {
		return command.BadInput(hint, "the broker of %s (pid %d) runs with time scale %v, not %v",
			absolute(o.host.State), r.PID, r.TimeScale, o.host.TimeScale)
	}
	for _, name := range o.buy.clouds {
		if !slices.Contains(r.Clouds, name) {
			return command.BadInput(hint, "the broker of %s (pid %d) does not buy on %s", absolute(o.host.State), r.PID,
				name)
		}
	}
	started := []string{"away", "agents", "scenario", "seed", "boot-times", "catalog", "max-machines", "policy"}
	for _, flag := range started {
		if o.set(flag) {
			return command.BadInput(hint,
				"--%s needs a broker started by this command, but one is already running for %s (pid %d)", flag,
				absolute(o.host.State), r.PID)
		}
	}
	return nil
}

func (a *app) runOn(ctx context.Context, s *conn, f *jobfile.File, o *runOptions) error {
	if s.embedded {
		a.reportUnfinished(ctx, s)
	}
	select {
	case <-a.Stop.First():
		return context.Canceled
	default:
	}
	handing, handed := a.Stop.After(ctx, answerWithin)
	id, err := a.submitJob(handing, s, f, o.limits.Options(a.warnNotPacked), rand.Text(), "")
	handed()
	if err != nil {
		return err
	}
	began := a.Now()
	if detached, err := a.followRun(ctx, s, id); detached || err != nil {
		return err
	}
	detail, err := s.Job(ctx, id)
	if err != nil {
		return err
	}
	if o.output.JSON() {
		err = a.PrintJSON(RunResult{JobDetail: detail, Outputs: outputsFolder(s.state, detail)})
	} else {
		err = a.summarise(s, detail, a.Now().Sub(began))
	}
	return errors.Join(err, verdict(detail))
}

// answerWithin is how long an interrupt waits for the submitted job's ID, which is needed to cancel it.
const answerWithin = 2 * time.Second

// reportUnfinished reports unfinished jobs of an earlier broker, which the broker of this command resumes.
func (a *app) reportUnfinished(ctx context.Context, s *conn) {
	list, err := s.Jobs(ctx, maxListedJobs)
	if err != nil {
		return // submitting the job will report the same error
	}
	n := 0
	for _, j := range list.Jobs {
		if !j.State.Finished() {
			n++
		}
	}
	if n > 0 {
		a.Tell("also resuming unfinished jobs of an earlier broker in %s: %d", s.state, n)
	}
}

// submitJob submits a job with its code and files under an idempotency key, prints warnings, and returns its ID. If
// updates names a job, the submission updates that job's services instead.
func (a *app) submitJob(ctx context.Context, s *conn, f *jobfile.File, o pack.Options, key, updates string) (string,
	error) {
	if err := a.packCode(ctx, s, f, o); err != nil {
		if errors.Is(err, context.Canceled) {
			a.Tell("interrupted: nothing was submitted; run the command again to upload the rest")
		}
		return "", err
	}
	body, err := f.Upload()
	if err != nil {
		return "", err
	}
	note := jobfile.NoteNewQueue(ctx, f.Spec.Queue, s.Queues)
	job, err := s.Update(ctx, updates, f.Path, key, body, f.Secrets)
	if errors.Is(err, context.Canceled) {
		a.Tell("interrupted during submission; `tradewind status%s` shows whether the job arrived", a.brokerHint(s))
	}
	if err != nil {
		return "", f.AddPosition(err)
	}
	if note != "" {
		a.Tell("%s", note)
	}
	if f.Changed() {
		a.Warn(f.Spec.Warnings)
	} else {
		a.Warn(job.Warnings)
	}
	return job.ID, nil
}

// cancelWithin is how long a cancelled job may take to free its machines.
const cancelWithin = 90 * time.Second

// followAndCancel shows a job until it has finished. When stop is closed, it cancels the job.
func (a *app) followAndCancel(ctx context.Context, s *conn, id string, stop <-chan struct{}) error {
	show := a.newFollower(s.running.TimeScale, "Ctrl-C cancels the job")
	defer show.Close()
	over, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-over.Done():
		case <-stop:
			show.Note("cancelling " + id + " and freeing its machines; interrupt again to leave at once")
			if _, err := s.Cancel(over, id, "interrupted"); err != nil && over.Err() == nil {
				show.Note("cannot cancel " + id + ": " + err.Error())
			}
			time.AfterFunc(cancelWithin, cancel)
		}
	}()
	err := a.follow(over, s, id, show)
	if errors.Is(err, context.Canceled) && ctx.Err() == nil {
		return command.Failed("`tradewind status "+id+"` shows its state",
			"%s was cancelled but has not ended within %s", id, cancelWithin)
	}
	return err
}

// verdict returns the exit code for a finished job.
func verdict(d *apitypes.JobDetail) error {
	switch {
	case d.State == apitypes.JobSucceeded:
		return nil
	case infeasibleJob(d):
		return command.Silent(command.ExitInfeasible)
	default:
		return command.Silent(command.ExitFailed)
	}
}

// infeasibleJob reports whether a job never had a plan. A job that had a plan and then ran out of offers has failed.
func infeasibleJob(d *apitypes.JobDetail) bool { return d.State == apitypes.JobFailed && d.Plan == 0 }

// tookTime renders how long a job took and how late it was.
func tookTime(d *apitypes.JobDetail, scale float64, wall time.Duration) string {
	took := text.Span(d.Finished.Sub(d.Submitted))
	if scale != 1 && scale != 0 {
		took += " (virtual; " + text.Span(wall) + " on the clock)"
	}
	if late := d.Finished.Sub(d.Deadline); !d.Deadline.IsZero() && late >= time.Second {
		took += ", " + text.Span(late) + " after its deadline,"
	}
	return took
}

// summarise prints how a job ended.
func (a *app) summarise(s *conn, d *apitypes.JobDetail, wall time.Duration) error {
	style := a.Style(a.Out)
	took := tookTime(d, s.running.TimeScale, wall)
	switch {
	case d.State == apitypes.JobSucceeded:
		saved := ""
		scale := s.running.TimeScale
		if less := text.Saved(d.SpentUSD, d.OnDemandUSD); scale > 0 && scale < 1 && d.SpentUSD > d.OnDemandUSD {
			// A process does not get faster with the time scale, but its machine is billed in scaled time.
			saved = fmt.Sprintf(
				"; planned %s USD: time runs %.0f times faster here, and each second of a machine is billed as %s",
				text.USD(d.PlannedUSD), 1/scale, text.Span(time.Duration(float64(time.Second)/scale)))
		} else if !text.AsPlanned(d.SpentUSD, d.PlannedUSD) {
			saved = fmt.Sprintf("; planned %s USD, or %s on demand, for longer tasks", text.USD(d.PlannedUSD),
				text.USD(d.OnDemandUSD))
		} else if less != "" {
			saved = "; on demand it would have cost " + text.USD(d.OnDemandUSD) + " USD (" + less + ")"
		}
		if err := a.Printf("%s %s in %s for %s%s\n", style.Paint(text.Good, "succeeded:"),
			text.Count(d.Tasks, "task"), took, text.Amount(d.SpentUSD, d.Simulated), saved); err != nil {
			return err
		}
	case infeasibleJob(d):
		return a.Printf("%s %s\n", style.Paint(text.Bad, "infeasible:"),
			strings.TrimPrefix(text.Clean(d.Reason), "no feasible plan: "))
	default:
		tone := text.Bad
		if d.State == apitypes.JobCancelled {
			tone = text.Warn
		}
		if err := a.Printf("%s %d of %s succeeded in %s for %s\n", style.Paint(tone, string(d.State)+":"),
			d.Succeeded, text.Count(d.Tasks, "task"), took, text.Amount(d.SpentUSD, d.Simulated)); err != nil {
			return err
		}
		if d.Reason != "" && d.State != apitypes.JobCancelled {
			if err := a.Printf("reason:    %s\n", text.Gist(d.Reason)); err != nil {
				return err
			}
		}
	}
	if d.Simulated {
		if err := a.Printf("%s\n", style.Paint(text.Warn, text.Simulated(d.TimeScale))); err != nil {
			return err
		}
	}
	for _, line := range outputLines(d.TaskList, storageAccount(s.state)) {
		if err := a.Printf("%s\n", line); err != nil {
			return err
		}
	}
	hint := a.stateHint(s.state)
	return a.Printf("logs:      tradewind logs %s%s\nhistory:   tradewind explain %[1]s%[2]s\n", d.ID, hint)
}

// stateHint returns the flag that a suggested command needs to find the same folder.
func (a *app) stateHint(state string) string {
	if state == absolute(a.DefaultState()) {
		return ""
	}
	if wd, err := os.Getwd(); err == nil {
		if rel, err := filepath.Rel(wd, state); err == nil && len(rel) < len(state) {
			state = rel
		}
	}
	return " --state " + state
}
