package cli

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tradewind-broker/tradewind/internal/cli/clouds"
	"github.com/tradewind-broker/tradewind/internal/cli/command"
	"github.com/tradewind-broker/tradewind/internal/cli/jobfile"
	"github.com/tradewind-broker/tradewind/internal/cli/planning"
	"github.com/tradewind-broker/tradewind/internal/cli/text"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/catalog"
	"github.com/tradewind-broker/tradewind/pkg/dag"
	"github.com/tradewind-broker/tradewind/pkg/host"
	"github.com/tradewind-broker/tradewind/pkg/pack"
)

// runOptions are the flags of run.
type runOptions struct {
	host   host.Options
	over   *jobfile.Overrides
	limits *jobfile.Limits
	secret *jobfile.Secrets
	clouds []string
	detach bool
	output *command.Choice
	set    func(flag string) bool
}

func (a *app) runCommand() *cobra.Command {
	o := &runOptions{}
	c := &cobra.Command{
		Use:   "run FILE",
		Short: "Plan a DAG, run it and follow it",
		Long: "Plans the DAG in FILE, runs it and shows how it goes until it is done. FILE is Tradewind or SkyPilot\n" +
			"YAML, manifests of Kubernetes, WfCommons JSON, Pegasus DAX or a batch script of Slurm, gzipped or not;\n" +
			"- is standard input.\n\n" +
			"A broker that works on the state folder (`tradewind up`) gets the job; otherwise one runs inside this\n" +
			"command and ends with it. Ctrl-C cancels the job and frees its machines; a second one leaves at once.",
		Example: "  tradewind run examples/train-infer.yaml\n" +
			"  tradewind run job.yaml --deadline 6h --budget 20\n" +
			"  tradewind run Montage_1000.xml.gz --time-scale 0.0001 --seed 7   # in compressed time, in a rough world\n" +
			"  tradewind run job.yaml -o json 2>progress.log",
		Args: command.Args(1, 1), ValidArgsFunction: command.CompleteFile,
	}
	o.over = jobfile.OverrideFlags(c, true)
	o.limits, o.secret = jobfile.LimitFlags(c), jobfile.SecretFlags(c)
	a.worldFlags(c, &o.host)
	a.cloudFlag(c, &o.clouds)
	c.Flags().BoolVar(&o.detach, "detach", false, "hand the job to a broker that runs already and return at once")
	a.chosen = append(a.chosen, c.Flags()) // --state outweighs an endpoint of the environment
	o.output = command.OutputFlag(c)
	o.set = c.Flags().Changed
	c.RunE = func(c *cobra.Command, given []string) error { return a.run(c.Context(), given[0], o) }
	return c
}

// RunResult is what `run -o json` prints: the job as `status JOB -o json` does, and where its outputs are.
type RunResult struct {
	*apitypes.JobDetail
	Outputs string `json:"outputs"`
}

func (a *app) run(ctx context.Context, path string, o *runOptions) error {
	if err := checkWorld(&o.host); err != nil {
		return err
	}
	packing := o.limits.Options(a.leftOut)
	f, err := a.loadJob(ctx, path, o.over, o.secret, packing)
	if err != nil {
		return err
	}
	if err := onClouds(f, o.host.Catalog, o.clouds); err != nil {
		return err
	}
	if o.detach {
		return a.submitTo(ctx, f, packing, o.host.State, rand.Text(), "", o.output)
	}
	s, err := a.brokerFor(ctx, f.Spec, o)
	if err != nil {
		return err
	}
	return errors.Join(a.runOn(ctx, s, f, o), s.Close())
}

// loadJob reads a job file as run and submit hand it in.
func (a *app) loadJob(ctx context.Context, path string, over *jobfile.Overrides, secrets *jobfile.Secrets,
	o pack.Options) (*jobfile.File, error) {
	f, err := over.Read(a.App, path)
	if err != nil {
		return nil, err
	}
	if err := secrets.Fill(a.App, f); err != nil {
		return nil, err
	}
	o.Note = nil // it is told when it is packed
	ctx, cancel := a.Stop.Context(ctx)
	defer cancel()
	return f, f.Settle(ctx, a.Lookup("HOME"), o)
}

// leftOut tells of what is not packed.
func (a *app) leftOut(note string) { a.Warn([]string{note}) }

// brokerFor finds the broker that will run the job, or starts one.
func (a *app) brokerFor(ctx context.Context, spec *dag.Job, o *runOptions) (*conn, error) {
	r, running, err := a.brokers.Find(absolute(o.host.State))
	if err != nil {
		return nil, err
	}
	if running {
		return found(absolute(o.host.State), r), a.suits(r, o)
	}
	on, err := clouds.Enabling(a.App, a.kits, a.brokers.Find)(ctx, absolute(o.host.State), o.clouds)
	if err != nil {
		return nil, err
	}
	o.host.Play = on.Regions
	c, err := on.Catalog(o.host.Catalog)
	if err != nil {
		return nil, err
	}
	if len(on.Regions) > 0 {
		a.Tell("%s", on.Says(nil))
	}
	if err := onOffer(spec, c); err != nil {
		return nil, err
	}
	o.host.Log, o.host.Anew = a.logger(slog.LevelError), true
	s, err := a.start(ctx, o.host)
	if err == nil && !s.embedded {
		err = a.suits(s.running, o) // somebody else was faster
	}
	return s, err
}

// onOffer refuses a job before anything of it is stored when a task asks for what nobody sells, unless it would wait
// for that.
func onOffer(spec *dag.Job, c *catalog.Catalog) error {
	if spec.Infeasible == dag.Wait {
		return nil
	}
	return planning.NoOffer(c, spec, nil)
}

// suits refuses flags that a broker that runs already was not started with.
func (a *app) suits(r host.Running, o *runOptions) error {
	hint := "leave the flag out, stop that broker, or use another folder with --state"
	if o.set("time-scale") && o.host.TimeScale != r.TimeScale {
		return command.BadInput(hint, "the broker that works on %s (pid %d) has the time scale %v, not %v",
			absolute(o.host.State), r.PID, r.TimeScale, o.host.TimeScale)
	}
	for _, flag := range []string{"scenario", "seed", "catalog", "max-machines", "policy"} {
		if o.set(flag) {
			return command.BadInput(hint,
				"--%s is for a broker that this command starts, but one works on %s already (pid %d)", flag,
				absolute(o.host.State), r.PID)
		}
	}
	return nil
}

func (a *app) runOn(ctx context.Context, s *conn, f *jobfile.File, o *runOptions) error {
	if s.embedded {
		a.tellUnfinished(ctx, s)
	}
	select {
	case <-a.Stop.First():
		return context.Canceled
	default:
	}
	handing, handed := a.Stop.After(ctx, answerWithin)
	id, err := a.handIn(handing, s, f, o.limits.Options(a.leftOut), rand.Text(), "")
	handed()
	if err != nil {
		return err
	}
	began := a.Now()
	if err := a.attend(ctx, s, id); err != nil {
		return err
	}
	detail, err := s.Job(ctx, id)
	if err != nil {
		return err
	}
	outputs := filepath.Join(s.state, "objects", id)
	if o.output.JSON() {
		err = a.PrintJSON(RunResult{JobDetail: detail, Outputs: outputs})
	} else {
		err = a.summarise(s, detail, outputs, a.Now().Sub(began))
	}
	return errors.Join(err, verdict(detail))
}

// answerWithin is how long an interrupt waits for the answer that says what there is to cancel.
const answerWithin = 2 * time.Second

// tellUnfinished says that a broker of this command goes on with what an earlier one left.
func (a *app) tellUnfinished(ctx context.Context, s *conn) {
	list, err := s.Jobs(ctx, listedJobs)
	if err != nil {
		return // the job itself will meet the same
	}
	n := 0
	for _, j := range list.Jobs {
		if !j.State.Over() {
			n++
		}
	}
	if n > 0 {
		a.Tell("jobs that an earlier broker has left in %s go on as well: %d", s.state, n)
	}
}

// handIn submits a job, with the code and files that it brings along, under a key of its own and tells of warnings. It
// may be an update of another one's services.
func (a *app) handIn(ctx context.Context, s *conn, f *jobfile.File, o pack.Options, key, updates string) (string,
	error) {
	if err := a.packCode(ctx, s, f, o); err != nil {
		if errors.Is(err, context.Canceled) {
			a.Tell("interrupted: nothing was submitted; the same again sends what is missing")
		}
		return "", err
	}
	body, err := f.Upload()
	if err != nil {
		return "", err
	}
	if doubt := jobfile.DoubtQueue(ctx, f.Spec.Queue, s.Queues); doubt != "" {
		a.Tell("%s", doubt)
	}
	job, err := s.Update(ctx, updates, f.Path, key, body, f.Secrets)
	if errors.Is(err, context.Canceled) {
		a.Tell("interrupted while it was handed in; `tradewind status%s` tells whether it arrived", a.brokerHint(s))
	}
	if err != nil {
		return "", f.Locate(err)
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

// attend shows a job until it is over. The first interrupt cancels it.
func (a *app) attend(ctx context.Context, s *conn, id string) error {
	show := a.newFollower(s.running.TimeScale, "Ctrl-C cancels the job")
	defer show.Close()
	over, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-over.Done():
		case <-a.Stop.First():
			show.Note("cancelling " + id + " and freeing its machines; interrupt again to leave at once")
			if _, err := s.Cancel(over, id, "interrupted"); err != nil && over.Err() == nil {
				show.Note("cannot cancel " + id + ": " + err.Error())
			}
			time.AfterFunc(cancelWithin, cancel)
		}
	}()
	err := a.follow(over, s, id, show)
	if errors.Is(err, context.Canceled) && ctx.Err() == nil {
		return command.Failed("`tradewind status "+id+"` shows what is left",
			"%s was cancelled but has not ended within %s", id, cancelWithin)
	}
	return err
}

// verdict is the exit code for how a job ended.
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

// infeasibleJob says whether there never was a plan for a job. One for which nothing was left in the middle has failed.
func infeasibleJob(d *apitypes.JobDetail) bool { return d.State == apitypes.JobFailed && d.Plan == 0 }

// tookTime is how long a job took, and how late it was.
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

// summarise tells how a job ended.
func (a *app) summarise(s *conn, d *apitypes.JobDetail, outputs string, wall time.Duration) error {
	style := a.Style(a.Out)
	took := tookTime(d, s.running.TimeScale, wall)
	switch {
	case d.State == apitypes.JobSucceeded:
		saved := ""
		scale := s.running.TimeScale
		if less := text.Saved(d.SpentUSD, d.OnDemandUSD); scale > 0 && scale < 1 && d.SpentUSD > d.OnDemandUSD {
			// What a process takes does not shrink with the plan's hours, but is billed by them.
			saved = fmt.Sprintf(
				"; planned %s USD: time passes %.0f times as fast here, and each second of a machine is billed as %s",
				text.USD(d.PlannedUSD), 1/scale, text.Span(time.Duration(float64(time.Second)/scale)))
		} else if !text.AsPlanned(d.SpentUSD, d.PlannedUSD) {
			saved = fmt.Sprintf("; planned %s USD, or %s on demand, for longer tasks", text.USD(d.PlannedUSD),
				text.USD(d.OnDemandUSD))
		} else if less != "" {
			saved = "; on demand it would have cost " + text.USD(d.OnDemandUSD) + " USD (" + less + ")"
		}
		if err := a.Printf("%s %s in %s for %s USD%s\n", style.Paint(text.Good, "succeeded:"),
			text.Count(d.Tasks, "task"), took, text.USD(d.SpentUSD), saved); err != nil {
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
		if err := a.Printf("%s %d of %s succeeded in %s for %s USD\n", style.Paint(tone, string(d.State)+":"),
			d.Succeeded, text.Count(d.Tasks, "task"), took, text.USD(d.SpentUSD)); err != nil {
			return err
		}
		if d.Reason != "" && d.State != apitypes.JobCancelled {
			if err := a.Printf("reason:    %s\n", text.Gist(d.Reason)); err != nil {
				return err
			}
		}
	}
	if d.Succeeded > 0 && command.Exists(outputs) {
		if err := a.Printf("outputs:   %s\n", outputs); err != nil {
			return err
		}
	}
	return a.Printf("story:     tradewind explain %s%s\n", d.ID, a.stateHint(s.state))
}

// stateHint is the flag that a suggested command needs to find the same folder.
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
