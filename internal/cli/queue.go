package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tradewind-broker/tradewind/internal/cli/command"
	"github.com/tradewind-broker/tradewind/internal/cli/text"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/dag"
)

func (a *app) queueCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "queue", Short: "List queues, set their quotas and shares, explain why a job waits",
		Long: "Jobs wait in queues. The quota of a queue limits what its tasks may use at the same time: the number\n" +
			"of tasks with machines, vCPUs and other resources. Child queues share the quota of their parent, by\n" +
			"weight or by deserved amounts. See docs/scheduling.md.",
		Example: "  tradewind queue list\n  tradewind queue set research --max-running 20 --max-vcpu 256\n" +
			"  tradewind queue create vision --parent research --weight 3\n  tradewind queue explain last",
	}
	command.Group(c)
	c.AddCommand(a.queueListCommand(), a.queueCreateCommand(), a.queueSetCommand(), a.queueExplainCommand(),
		PolicyCommand(a.App))
	return c
}

func (a *app) queueListCommand() *cobra.Command {
	var state string
	c := &cobra.Command{
		Use: "list", Short: "List queues with their quotas and usage",
		Long:    "Lists the queues that were configured or used, with their quotas and usage.",
		Example: "  tradewind queue list\n  tradewind queue list -o json",
		Args:    command.Args(0, 0),
	}
	a.brokerFlags(c, &state)
	output := command.OutputFlag(c)
	c.RunE = func(c *cobra.Command, _ []string) error {
		return a.reading(c, state, func(ctx context.Context, s *conn) error { return a.listQueues(ctx, s, output) })
	}
	return c
}

func (a *app) listQueues(ctx context.Context, s *conn, output *command.Choice) error {
	list, err := s.Queues(ctx)
	if err != nil {
		return err
	}
	if output.JSON() {
		return a.PrintJSON(list)
	}
	if len(list.Queues) == 0 {
		a.Tell("no queue has been used yet in %s", s.state)
		return nil
	}
	return a.PrintTable(Table(list.Queues...))
}

func (a *app) queueSetCommand() *cobra.Command {
	return a.queueSettingsCommand(&cobra.Command{
		Use:   "set NAME",
		Short: "Create a queue or change its quota and share",
		Long: "Creates a queue, or changes its settings; settings without a flag stay unchanged. Running tasks keep\n" +
			"their machines.",
		Example: "  tradewind queue set research --max-running 20\n  tradewind queue set research --max-vcpu 0   # no limit\n" +
			"  tradewind queue set vision --parent research --deserved 96 --guaranteed 32\n" +
			"  tradewind queue set research --max usd-per-month=500",
	}, false)
}

func (a *app) queueCreateCommand() *cobra.Command {
	return a.queueSettingsCommand(&cobra.Command{
		Use: "create NAME", Short: "Create a queue",
		Long: "Creates a queue with its quota and share. Exits with code 2 if the queue exists.",
		Example: "  tradewind queue create research --max-vcpu 256\n" +
			"  tradewind queue create vision --parent research --weight 3 --preempt",
	}, true)
}

// queueSettingsCommand completes the create or the set command.
func (a *app) queueSettingsCommand(c *cobra.Command, create bool) *cobra.Command {
	var state string
	var q apitypes.QueueQuota
	c.Args = command.Args(1, 1)
	a.brokerFlags(c, &state)
	f := c.Flags()
	Count(f, &q.MaxRunning, "max-running", "maximum tasks that hold machines at once; 0 means no limit")
	Amount(f, &q.MaxVCPU, "max-vcpu", "maximum vCPUs that they hold; 0 means no limit")
	f.StringVar(&q.Parent, "parent", "", "parent queue, whose quota all its child queues share; empty means none")
	Count(f, &q.Weight, "weight", "its weight among its siblings; 0 means 1")
	var of limits
	f.Var(&of.most, "max", "maximum that tasks of the queue may have at the same time: vcpus, memory (GiB) or an "+
		"accelerator, as in memory=512,A100=8; or may cost in a calendar month (UTC): usd-per-month=500; "+
		"0 means no limit")
	f.Var(&of.deserved, "deserved",
		"share of the parent's quota that the queue can take back from other child queues: vCPUs, or like --max; "+
			"0 means its share by weight")
	f.Var(&of.guaranteed, "guaranteed", "amount that is reserved for the queue even while unused: vCPUs, or like --max")
	f.BoolVar(&q.Preempt, "preempt", false,
		"jobs with a higher priority may take machines from jobs with a lower one, which save their work first")
	f.BoolVar(&q.Closed, "closed", false, "start no tasks of the queue")
	f.Var(&keep{into: &q.Keep}, "keep",
		"how long to keep finished jobs of the queue: 90d, or forever; empty means as the parent queue, else as the "+
			"broker")
	f.StringVar(&q.Description, "description", "", "description for people")
	output := command.OutputFlag(c)
	c.RunE = func(c *cobra.Command, given []string) error {
		if err := CheckTexts(given[0], q.Parent, q.Description); err != nil {
			return err
		}
		return a.reading(c, state, func(ctx context.Context, s *conn) error {
			return a.setQueue(ctx, s, given[0], q, of, f.Changed, create, output)
		})
	}
	return c
}

// keep is a flag that says how long finished jobs are kept.
type keep struct{ into *string }

func (k *keep) String() string {
	if k.into == nil {
		return ""
	}
	return *k.into
}

func (k *keep) Type() string { return "duration" }

func (k *keep) Set(s string) error {
	_, err := dag.ParseKeep(s)
	*k.into = s
	return err
}

// limits are the flags that set amounts of several resources.
type limits struct{ most, deserved, guaranteed Flag }

func (a *app) setQueue(ctx context.Context, s *conn, name string, q apitypes.QueueQuota, of limits,
	set func(string) bool, create bool, output *command.Choice) error {
	list, err := s.Queues(ctx)
	if err != nil {
		return err
	}
	q.Max, q.Deserved, q.Guaranteed = of.most.Amounts, of.deserved.Amounts, of.guaranteed.Amounts
	for _, old := range list.Queues {
		if old.Name != name {
			continue
		}
		if create {
			return command.BadInput("`tradewind queue set "+name+"` changes it", "queue %s already exists", name)
		}
		if set("closed") && !q.Closed && !old.Suspended.Since.IsZero() {
			return command.BadInput("`tradewind resume --queue "+name+"` opens it; nothing was changed",
				"queue %s is %s: set cannot open it", name, old.Suspended.String())
		}
		keepQueueSettings(&q, old, set)
		q.Max, q.DeservedVCPU, q.GuaranteedVCPU = of.most.Over(old.Max), old.DeservedVCPU, old.GuaranteedVCPU
		q.Deserved, q.Guaranteed = of.deserved.Over(old.Deserved), of.guaranteed.Over(old.Guaranteed)
	}
	queue, err := s.SetQueue(ctx, name, q)
	if err != nil {
		return err
	}
	a.WarnNewStateFolder(s.newStateFolder)
	if output.JSON() {
		return a.PrintJSON(queue)
	}
	return a.PrintTable(Table(*queue))
}

// keepQueueSettings copies the old value of every setting whose flag is not given.
func keepQueueSettings(q *apitypes.QueueQuota, old apitypes.Queue, set func(string) bool) {
	keep := func(flag string, leave func()) {
		if !set(flag) {
			leave()
		}
	}
	keep("max-running", func() { q.MaxRunning = old.MaxRunning })
	keep("max-vcpu", func() { q.MaxVCPU = old.MaxVCPU })
	keep("parent", func() { q.Parent = old.Parent })
	keep("weight", func() { q.Weight = old.Weight })
	keep("preempt", func() { q.Preempt = old.Preempt })
	keep("closed", func() { q.Closed = old.Closed })
	keep("keep", func() { q.Keep = old.Keep })
	keep("description", func() { q.Description = old.Description })
}

func (a *app) queueExplainCommand() *cobra.Command {
	var state string
	c := &cobra.Command{
		Use:   "explain JOB",
		Short: "Explain why a job waits",
		Long: "Explains why tasks of a job wait in their queue. Reasons are the quota of the queue or of a parent\n" +
			"queue, capacity that is guaranteed to other queues, the job's budget, a place that is avoided at the\n" +
			"moment, or a plan in progress. The command uses the rules of the scheduler and changes nothing. JOB is\n" +
			"an ID, the beginning of one, or \"last\".",
		Example: "  tradewind queue explain last\n  tradewind queue explain train-infer -o json | jq -r " +
			"'.tasks[].reasons[]'",
		Args:              command.Args(1, 1),
		ValidArgsFunction: a.completeJob(&state, false),
	}
	a.brokerFlags(c, &state)
	output := command.OutputFlag(c)
	c.RunE = func(c *cobra.Command, given []string) error {
		return a.reading(c, state, func(ctx context.Context, s *conn) error {
			return a.explainWaiting(ctx, s, given[0], output)
		})
	}
	return c
}

func (a *app) explainWaiting(ctx context.Context, s *conn, arg string, output *command.Choice) error {
	id, err := a.job(ctx, s, arg)
	if err != nil {
		return err
	}
	why, err := s.WhyWaiting(ctx, id)
	if err != nil {
		return err
	}
	if output.JSON() {
		return a.PrintJSON(why)
	}
	if err := a.Printf("%s in queue %s is %s, %s waiting: %s\n", why.Job, why.Queue, why.State,
		text.Count(why.Waiting, "task"), text.Clean(why.Reason)); err != nil {
		return err
	}
	if len(why.Tasks) == 0 {
		return nil
	}
	t := &text.Table{Columns: []text.Column{
		{Name: "TASK", Flexible: true}, {Name: "SINCE"}, {Name: "AHEAD", Right: true}, {Name: "WHY", Flexible: true},
	}}
	for _, w := range why.Tasks {
		t.Row(text.Clean(w.Task), w.Since.Format(time.DateTime), fmt.Sprint(w.Ahead),
			text.Clean(strings.Join(w.Reasons, "; ")))
	}
	return a.PrintTable(t)
}
