package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/internal/cli/clouds"
	"github.com/tradewind-broker/tradewind/internal/cli/command"
	"github.com/tradewind-broker/tradewind/internal/cli/jobfile"
	"github.com/tradewind-broker/tradewind/internal/cli/planning"
	"github.com/tradewind-broker/tradewind/internal/cli/settings"
	"github.com/tradewind-broker/tradewind/internal/cli/text"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/client"
	"github.com/tradewind-broker/tradewind/pkg/dag"
)

// consent are the flags with which a user accepts the cost of a job, or asks to see its plan without starting it.
type consent struct{ yes, dryRun bool }

func consentFlags(c *cobra.Command) *consent {
	o := &consent{}
	c.Flags().BoolVarP(&o.yes, "yes", "y", false, "start the job without a question, whatever it costs")
	c.Flags().BoolVar(&o.dryRun, "dry-run", false, "show the plan and its cost, and start nothing")
	return o
}

// proposal is a job that is about to be submitted, with the data that decides whether it needs a confirmation.
type proposal struct {
	*consent
	file     *jobfile.File
	settings *settings.Settings
	// buys reports that the broker buys machines. For a remote broker it is a guess until the plan says otherwise.
	buys   bool
	plan   func(ctx context.Context) (*apitypes.PlanView, error)
	output *command.Choice
}

// DryRun is the output of `run --dry-run -o json` and `submit --dry-run -o json`.
type DryRun struct {
	*apitypes.PlanView
	MaximumUSD      *float64 `json:"maximumUSD"` // the budget; null if there is none
	ConfirmAboveUSD float64  `json:"confirmAboveUSD"`
}

// propose applies the user's defaults to a job. named reports that a flag names its clouds.
func (a *app) propose(f *jobfile.File, o *consent, named bool, output *command.Choice) (*proposal, error) {
	if o.yes && o.dryRun {
		return nil, command.BadInput("leave out one of them", "--yes and --dry-run exclude each other")
	}
	s, err := settings.Load(a.Lookup, f.Folder())
	if err != nil {
		return nil, err
	}
	applied, err := f.Default(s, named)
	if err != nil {
		return nil, err
	}
	if len(applied) > 0 {
		a.Tell("defaults: %s", strings.Join(applied, ", "))
	}
	return &proposal{consent: o, file: f, settings: s, output: output}, nil
}

// planOn sets how the proposal is planned: by its broker or, without one, and for a broker that only plans submitted
// jobs, on this computer with a catalogue folder.
func (a *app) planOn(p *proposal, s *conn, state, catalog string, named []string) {
	local := func(ctx context.Context) (*apitypes.PlanView, error) {
		on, err := clouds.Enabling(a.App, a.clouds.Kits, a.brokers.Find)(ctx, absolute(state), named)
		if err != nil {
			return nil, err
		}
		return planning.View(ctx, on, catalog, p.file.Spec, a.Now)
	}
	if p.plan = local; s == nil {
		return
	}
	p.buys = s.remote || len(s.running.Clouds) > 0
	p.plan = func(ctx context.Context) (*apitypes.PlanView, error) {
		body, err := p.file.Upload()
		if err != nil {
			return nil, err
		}
		v, err := s.Plan(ctx, p.file.Path, body)
		if client.Status(err) == http.StatusNotImplemented {
			return local(ctx)
		}
		if err != nil {
			return nil, p.file.AddPosition(err)
		}
		return v, nil
	}
}

// decision is the consequence of the cost of a job.
type decision int

const (
	startJob decision = iota
	askFirst
	refuseJob
)

// decide decides whether a job may start. usd is its expected cost, or infinity if it is unknown; person reports that
// someone can answer a question.
func decide(usd float64, buys, person bool, s *settings.Settings) decision {
	cheap := usd <= float64(s.ConfirmAbove.Is)
	switch {
	case !buys && (cheap || !s.ConfirmAbove.Set()):
		return startJob
	case cheap && (!person || s.Trusted):
		return startJob
	case person:
		return askFirst
	}
	return refuseJob
}

// approve returns whether to submit a job: it shows what the job may cost, and asks or refuses if that is required.
func (a *app) approve(ctx context.Context, p *proposal) (bool, error) {
	free := !p.buys && !p.settings.ConfirmAbove.Set()
	if !p.dryRun && (p.yes || free) {
		if p.buys && p.file.Spec.Budget == 0 {
			a.Tell("%s: maximum cost: %s", p.file.Spec.Name, noBudget)
		}
		return true, nil
	}
	ctx, cancel := a.Stop.Context(ctx)
	defer cancel()
	v, err := p.plan(ctx)
	if err != nil {
		return false, err
	}
	p.buys = p.buys && !v.Simulated
	v.Simulated = !p.buys
	infeasible := v.Status == record.PlanInfeasible
	if infeasible && p.file.Spec.Infeasible != dag.Wait {
		return false, errors.Join(a.showDryRun(p, v), planless(v))
	}
	if p.dryRun {
		return false, a.showDryRun(p, v)
	}
	usd := likelyUSD(v)
	if infeasible {
		usd = math.Inf(1)
	}
	if b := float64(p.file.Spec.Budget); b > 0 {
		usd = min(usd, b)
	}
	switch decide(usd, p.buys, a.Ask != nil, p.settings) {
	case startJob:
		if a.Ask != nil {
			a.showProposal(p, v)
		} else if p.buys {
			a.Tell("%s: cost: %s; maximum: %s", p.file.Spec.Name, expected(v), maximum(p.file.Spec))
		}
		return true, nil
	case askFirst:
		a.showProposal(p, v)
		return a.askToStart(ctx)
	}
	return false, tooExpensive(v, usd, p)
}

// showDryRun prints the plan of a job that is not submitted: as JSON, or for people.
func (a *app) showDryRun(p *proposal, v *apitypes.PlanView) error {
	if !p.dryRun {
		return nil
	}
	if !p.output.JSON() {
		if v.Status == record.PlanInfeasible {
			return nil
		}
		return a.PrintLines(append(proposalLines(p, v, a.Style(a.Out)), "dry run: nothing was submitted"))
	}
	out := DryRun{PlanView: v, ConfirmAboveUSD: float64(p.settings.ConfirmAbove.Is)}
	if b := float64(p.file.Spec.Budget); b > 0 {
		out.MaximumUSD = &b
	}
	return a.PrintJSON(out)
}

// planless is the error of a job that has no plan.
func planless(v *apitypes.PlanView) error {
	return &command.Failure{Code: command.ExitInfeasible,
		Text: "infeasible: " + strings.TrimPrefix(text.Clean(v.Message), "no feasible plan: "),
		Hint: "nothing was submitted; with --yes the job waits for places that are only blocked now"}
}

// tooExpensive is the error of a job that needs a yes where no one can be asked.
func tooExpensive(v *apitypes.PlanView, usd float64, p *proposal) error {
	limit := fmt.Sprintf("more than the %s USD that need no confirmation (%s)",
		text.USD(float64(p.settings.ConfirmAbove.Is)), sourceOf(p.settings.ConfirmAbove))
	hint := "--yes starts it, --dry-run shows its plan, and `confirmAbove` in the settings is the limit " +
		"(`tradewind config`)"
	if math.IsInf(usd, 1) {
		return command.BadInput(hint, "%s: no plan is feasible now, so its cost is unknown; nothing was submitted",
			text.Clean(v.Name))
	}
	period := ""
	if servicesUSDPerHour(v) > 0 {
		period = " in a day"
	}
	may := "is expected to cost"
	if v.Status == record.PlanInfeasible {
		may = "has no feasible plan now, and may cost its budget of"
	}
	return command.BadInput(hint, "%s %s %s USD%s, %s; nothing was submitted", text.Clean(v.Name), may, text.USD(usd),
		period, limit)
}

// approveRerun returns whether to submit a job again: it cost, or was planned to cost, about what it will cost now.
func (a *app) approveRerun(ctx context.Context, s *conn, id string, yes bool) (bool, error) {
	if yes || !s.remote && len(s.running.Clouds) == 0 {
		return true, nil
	}
	limits, err := settings.Load(a.Lookup, ".")
	if err != nil {
		return false, err
	}
	d, err := s.Job(ctx, id)
	if err != nil {
		return false, err
	}
	usd := max(d.SpentUSD, d.PlannedUSD)
	what := fmt.Sprintf("%s cost %s USD, and was planned to cost %s USD", id, text.USD(d.SpentUSD),
		text.USD(d.PlannedUSD))
	switch decide(usd, !d.Simulated, a.Ask != nil, limits) {
	case startJob:
		return true, nil
	case askFirst:
		a.Tell("%s", what)
		return a.askToStart(ctx)
	}
	return false, command.BadInput("--yes starts it again, and `confirmAbove` in the settings is the limit "+
		"(`tradewind config`)", "%s, more than the %s USD that need no confirmation (%s); nothing was submitted", what,
		text.USD(float64(limits.ConfirmAbove.Is)), sourceOf(limits.ConfirmAbove))
}

func sourceOf[T any](v settings.Value[T]) string {
	if v.Set() {
		return v.Source
	}
	return "the default"
}

// askToStart asks whether to start the job. An empty answer is a yes, the end of the input a no.
func (a *app) askToStart(ctx context.Context) (bool, error) {
	for {
		got, err := a.Ask(ctx, "Start it? [Y/n] ")
		switch {
		case errors.Is(err, context.Canceled):
			return false, &command.Failure{Code: command.ExitInterrupted, Text: "interrupted: nothing was submitted"}
		case err != nil && !errors.Is(err, io.EOF):
			return false, err
		}
		switch got = strings.ToLower(got); {
		case got == "y" || got == "yes" || got == "" && err == nil:
			return true, nil
		case got == "n" || got == "no" || err != nil:
			return false, command.Failed("", "nothing was submitted")
		}
		a.Tell("answer y or n")
	}
}

// servicesUSDPerHour is the cost of an hour of all services of a plan, which counts one hour of each.
func servicesUSDPerHour(v *apitypes.PlanView) (usd float64) {
	for i := range v.Tasks {
		if v.Tasks[i].Service != "" {
			usd += v.Tasks[i].USD
		}
	}
	return usd
}

// likelyUSD is the expected cost of a plan. Services count for a day: they run until they are cancelled.
func likelyUSD(v *apitypes.PlanView) float64 {
	const hours = 24
	return v.USD + (hours-1)*servicesUSDPerHour(v)
}
