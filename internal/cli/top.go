package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/tradewind-broker/tradewind/internal/cli/command"
	"github.com/tradewind-broker/tradewind/internal/cli/text"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
)

// TopResult is the output of `top -o json`: the current use of unfinished jobs.
type TopResult struct {
	Now       time.Time `json:"now"`
	Simulated bool      `json:"simulated,omitempty"` // nothing is bought for any of them
	Machines  int       `json:"machines"`
	// USDPerHour is the price of these machines.
	USDPerHour float64  `json:"usdPerHour"`
	SpentUSD   float64  `json:"spentUSD"`
	Jobs       []TopJob `json:"jobs"`
	// More is the number of unfinished jobs that were not added up.
	More int `json:"more,omitempty"`
}

// TopJob is an unfinished job.
type TopJob struct {
	ID         string            `json:"id"`
	State      apitypes.JobState `json:"state"`
	Queue      string            `json:"queue"`
	Tasks      int               `json:"tasks"`
	Succeeded  int               `json:"succeeded"`
	Running    int               `json:"running"` // tasks that run now
	Machines   int               `json:"machines"`
	USDPerHour float64           `json:"usdPerHour"`
	SpentUSD   float64           `json:"spentUSD"`
	Simulated  bool              `json:"simulated,omitempty"`
	NoBroker   bool              `json:"noBroker,omitempty"` // as in JobView

	timeScale float64
}

// maxTop is the maximum number of jobs that are added up, because each is one request.
const maxTop = 50

func (a *app) topCommand() *cobra.Command {
	var state string
	c := &cobra.Command{
		Use:   "top",
		Short: "Show the machines and hourly cost of unfinished jobs",
		Long: "Shows the newest 50 unfinished jobs, their machines, and their total cost per hour. On a terminal it\n" +
			"updates this until Ctrl-C; elsewhere it prints it once.",
		Example: "  tradewind top\n  tradewind top -o json | jq .usdPerHour",
		Args:    command.Args(0, 0),
	}
	a.brokerFlags(c, &state)
	output := command.OutputFlag(c)
	c.RunE = func(c *cobra.Command, _ []string) error {
		return a.reading(c, state, func(ctx context.Context, s *conn) error {
			if !output.JSON() {
				return a.repeat(ctx, func() ([]string, error) { return a.topLines(ctx, s) })
			}
			top, err := readTop(ctx, s)
			if err != nil {
				return err
			}
			return a.PrintJSON(top)
		})
	}
	return c
}

// readTop adds up the unfinished jobs.
func readTop(ctx context.Context, s *conn) (*TopResult, error) {
	list, err := s.Jobs(ctx, maxListedJobs)
	if err != nil {
		return nil, err
	}
	top := &TopResult{Now: list.Now, Jobs: []TopJob{}}
	for _, v := range list.Jobs {
		if v.State.Finished() {
			continue
		}
		if len(top.Jobs) == maxTop {
			top.More++
			continue
		}
		d, err := s.Job(ctx, v.ID)
		if err != nil {
			return nil, err
		}
		s.markStopped(&d.JobView)
		j := topJob(d)
		top.Machines += j.Machines
		top.USDPerHour += j.USDPerHour
		top.SpentUSD += j.SpentUSD
		top.Simulated = (top.Simulated || len(top.Jobs) == 0) && j.Simulated
		top.Jobs = append(top.Jobs, j)
	}
	return top, nil
}

// topJob counts the machines of a job's attempts that have been launched and have not ended.
func topJob(d *apitypes.JobDetail) TopJob {
	j := TopJob{ID: d.ID, State: d.State, Queue: d.Queue, Tasks: d.Tasks, Succeeded: d.Succeeded, SpentUSD: d.SpentUSD,
		Simulated: d.Simulated, NoBroker: d.NoBroker, timeScale: d.TimeScale}
	for i := range d.Attempts {
		x := &d.Attempts[i]
		if x.Launched.IsZero() || x.Outcome != "" {
			continue
		}
		rate := x.Offer.USDPerHour
		if x.RateUSD > 0 {
			rate = x.RateUSD // the price now
		}
		n := max(x.Nodes, 1)
		j.Machines += n
		j.USDPerHour += float64(n) * rate
	}
	for i := range d.TaskList {
		if d.TaskList[i].State == "running" {
			j.Running++
		}
	}
	return j
}

// topLines renders the unfinished jobs for people.
func (a *app) topLines(ctx context.Context, s *conn) ([]string, error) {
	top, err := readTop(ctx, s)
	if err != nil {
		return nil, err
	}
	style := a.Style(a.Out)
	if len(top.Jobs) == 0 {
		return []string{"no job is unfinished"}, nil
	}
	if s.passive {
		a.tellNoBroker(s)
	}
	per := text.USD(top.USDPerHour) + " USD"
	if top.Simulated {
		per += " est."
	}
	lines := []string{fmt.Sprintf("%s, %s, %s per hour, %s spent", text.Count(len(top.Jobs)+top.More, "unfinished job"),
		text.Count(top.Machines, "machine"), style.Paint(text.Strong, per), text.Amount(top.SpentUSD, top.Simulated))}
	if top.Simulated {
		lines = append(lines, style.Paint(text.Warn, text.Simulated(top.Jobs[0].timeScale)))
	}
	if top.More > 0 {
		lines = append(lines, fmt.Sprintf("the newest %d are added up", len(top.Jobs)))
	}
	t := text.Table{Columns: []text.Column{
		{Name: "JOB"}, {Name: "STATE"}, {Name: "TASKS", Right: true}, {Name: "RUNNING", Right: true},
		{Name: "MACHINES", Right: true}, {Name: "USD/H", Right: true}, {Name: "SPENT", Right: true},
		{Name: "QUEUE", Optional: 1, Flexible: true},
	}}
	for _, j := range top.Jobs {
		state := apitypes.JobView{State: j.State, NoBroker: j.NoBroker}
		t.Row(j.ID, state.StateText(), fmt.Sprintf("%d/%d", j.Succeeded, j.Tasks), fmt.Sprint(j.Running),
			fmt.Sprint(j.Machines), text.Estimate(j.USDPerHour, j.Simulated),
			spent(apitypes.JobView{SpentUSD: j.SpentUSD, Simulated: j.Simulated}), j.Queue)
	}
	return append(append(lines, ""), t.Lines(command.Width(a.Out), style)...), nil
}
