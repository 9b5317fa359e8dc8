package deployment

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/aws/smithy-go/logging"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/spf13/cobra"

	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/internal/cli/command"
	"github.com/tradewind-broker/tradewind/internal/cli/text"
	"github.com/tradewind-broker/tradewind/internal/deploy"
	"github.com/tradewind-broker/tradewind/internal/fault"
	"github.com/tradewind-broker/tradewind/pkg/broker/session"
)

// deployOptions are the flags of deploy aws.
type deployOptions struct {
	settings                         deploy.Settings
	diff, destroy, yes               bool
	source, assembly                 string
	assets, policy                   string
	profile, endpoint                string
	keepData, alarms                 bool
	output                           *command.Choice
	architectures                    command.Choice
	dataBuckets, makeBuckets, others []string
	announce                         []string
}

// Command is the command deploy. clouds are those that machines can be bought on.
func Command(in *command.App, clouds []string) *cobra.Command {
	a := app{in, clouds}
	c := &cobra.Command{
		Use: "deploy", Short: "Put the broker into a cloud or a cluster, or take it out",
		Long: "Puts the broker into an account of AWS, as functions that run when something happens and cost nothing while\n" +
			"nothing does, or into a cluster of Kubernetes, as one process with a volume.",
		Example: "  tradewind deploy aws --diff\n  tradewind deploy aws\n" +
			"  tradewind deploy kubernetes --image IMAGE --dry-run",
	}
	command.Group(c)
	c.AddCommand(a.deployAWSCommand(), a.deployKubernetesCommand())
	return c
}

func (a app) deployAWSCommand() *cobra.Command {
	o := &deployOptions{architectures: command.NewChoice("arm64", "arm64", "x86_64")}
	c := &cobra.Command{
		Use: "aws", Short: "Deploy to the AWS account of the current credentials, or bring what is there up to date",
		Long: "Builds the functions and agents, synthesises the template, and brings the CloudFormation stack of that name to it:\n" +
			"made where it is not there, changed where it differs, rolled back where that fails. It needs a clone of\n" +
			"Tradewind's repository around the current folder (or --source), Go, Node, and AWS credentials. A change that would\n" +
			"replace or remove the table or a bucket is refused.",
		Example: "  tradewind deploy aws                               # into the region of the profile\n" +
			"  tradewind deploy aws --diff                        # only say what would change\n" +
			"  tradewind deploy aws --region eu-west-1 --regions us-east-1,us-west-2 --data-buckets imagenet-mini\n" +
			"  export TRADEWIND_ENDPOINT=$(tradewind deploy aws -o json | jq -r .outputs.Api)\n" +
			"  tradewind deploy aws --destroy                     # records and files stay",
		Args: command.Args(0, 0),
	}
	f := c.Flags()
	f.BoolVar(&o.diff, "diff", false, "say what would change, and change nothing")
	f.BoolVar(&o.destroy, "destroy", false,
		"delete the deployment; the table and the buckets stay unless it was made with\n--keep-data=false")
	f.BoolVar(&o.yes, "yes", false, "do not ask before destroying")
	f.StringVar(&o.settings.Name, "name", "tradewind", "name of the deployment, the prefix of everything in it")
	f.StringVar(&o.settings.Region, "region", "", "region to deploy to (default: that of the profile or environment)")
	f.StringSliceVar(&o.others, "regions", nil, "further regions to buy machines in")
	f.StringArrayVar(&o.settings.Clouds, "cloud", nil,
		"further cloud to buy on, with its settings: gcp:project=P, azure:subscription=S, lambda")
	f.StringSliceVar(&o.settings.Secrets, "secrets", nil,
		"further paths, such as /team/, below which jobs may refer to parameters and secrets")
	f.StringSliceVar(&o.dataBuckets, "data-buckets", nil, "further buckets that tasks may read, write and mount")
	f.StringSliceVar(&o.makeBuckets, "make-buckets", nil,
		"buckets that are made when jobs ask for them; a name may end in a star")
	f.Var(&o.architectures, "architecture", "of the functions")
	command.CompleteChoice(c, "architecture", &o.architectures)
	f.IntVar(&o.settings.LogDays, "log-days", 30, "days that logs are kept")
	f.BoolVar(&o.keepData, "keep-data", true, "keep the table and the buckets when the stack is deleted")
	f.BoolVar(&o.alarms, "alarms", true,
		"alarms for dead letters that stop a job, and for the relay: ten, as many as are free")
	f.StringSliceVar(&o.announce, "announce", short(events.Announced()),
		"events that are put on the event bus for rules of yours, a millionth of a dollar each; all, none")
	f.StringVar(&o.settings.Webhook, "webhook", "", "https URL that news of jobs are posted to")
	f.StringVar(&o.settings.Traces, "traces", "",
		"https URL of a collector of OpenTelemetry, which each job that is over is sent to as a trace")
	f.StringVar(&o.settings.TraceHeaders, "trace-headers", "",
		"SSM parameter, such as /team/otlp, with the headers that the collector wants: NAME=VALUE by comma")
	f.DurationVar(&o.settings.AgentsCall, "agents-call", 5*time.Minute,
		"how often agents that work call, 1s to 5m: how soon people get onto their machines, two\n"+
			"millionths of a dollar a call")
	f.BoolVar(&o.settings.Unproven, "unproven-machines", false,
		"take machines at their word where they do not prove which one they are")
	f.StringVar(&o.policy, "policy", "", "file with the scheduling policy that sessions follow")
	_ = c.MarkFlagFilename("policy", "yaml", "yml")
	f.StringVar(&o.profile, "profile", "", "AWS profile (default: $AWS_PROFILE)")
	f.StringVar(&o.endpoint, "endpoint-url", "", "URL of an emulator that stands in for AWS")
	f.StringVar(&o.source, "source", "", "clone of the repository (default: the one around the current folder)")
	f.StringVar(&o.assembly, "assembly", "",
		"folder that infra synthesised into, to deploy as it is instead of building")
	f.StringVar(&o.assets, "assets", "", "folder with agent/ARCH/tradewind that goes with --assembly")
	for _, name := range []string{"source", "assembly", "assets"} {
		_ = c.MarkFlagDirname(name)
	}
	o.output = command.OutputFlag(c)
	c.RunE = func(c *cobra.Command, _ []string) error {
		ctx, cancel := a.Stop.Context(c.Context())
		defer cancel()
		if o.settings.AgentsCall < time.Second || o.settings.AgentsCall > 5*time.Minute {
			return command.BadInput("", "--agents-call %v: between 1s and 5m", o.settings.AgentsCall)
		}
		o.settings.Architecture, o.settings.DropData, o.settings.NoAlarms = o.architectures.Value,
			!o.keepData, !o.alarms
		o.settings.DataBuckets, o.settings.MakeBuckets, o.settings.Regions = o.dataBuckets, o.makeBuckets, o.others
		return a.deployAWS(ctx, o)
	}
	return c
}

// short are the short names of types of events, as docs/events.md has them.
func short(types []string) []string {
	out := make([]string, len(types))
	for i, typ := range types {
		out[i] = events.ShortName(typ)
	}
	return out
}

// announced are the types of events of their short names, or of all and none.
func announced(names []string) ([]string, error) {
	if slices.Equal(names, []string{"none"}) {
		return names, nil
	}
	known := slices.Sorted(maps.Keys(events.Routes()))
	if slices.Equal(names, []string{"all"}) {
		return known, nil
	}
	var types []string
	for _, name := range names {
		typ, ok := events.TypeOf(name)
		if !ok {
			return nil, command.BadInput(fault.OneOf(name, short(known)), "--announce: there is no event %q", name)
		}
		types = append(types, typ)
	}
	return types, nil
}

func (a app) deployAWS(ctx context.Context, o *deployOptions) error {
	switch {
	case o.diff && o.destroy:
		return command.BadInput("leave out one of them", "--diff changes nothing, and --destroy deletes all")
	case (o.assembly == "") != (o.assets == ""):
		return command.BadInput("`make synth` fills infra/cdk.out and dist", "--assembly and --assets go together")
	}
	policy, err := a.deployedPolicy(o)
	if err != nil {
		return err
	}
	if o.settings.Announce, err = announced(o.announce); err != nil {
		return err
	}
	t, err := a.target(ctx, o)
	if err != nil {
		return err
	}
	if o.destroy {
		return a.destroyAWS(ctx, t, o)
	}
	assembly, assets, err := a.assemble(ctx, t, o)
	if err != nil {
		return err
	}
	d := &Deployment{Name: assembly.Stacks[0].Name, Account: t.Account, Region: t.Region, Stacks: []*deploy.ChangeSet{}}
	for i, s := range assembly.Stacks {
		at := t.In(s.Region)
		var set *deploy.ChangeSet
		if o.diff {
			set, err = at.Diff(ctx, s)
		} else {
			agents := assets
			if i > 0 { // the others have no bucket for them
				agents = ""
			}
			set, err = at.Deploy(ctx, s, agents)
		}
		if err == nil && i == 0 && policy != nil && !o.diff {
			err = at.PutPolicy(ctx, at.WorkBucket(s.Name), policy)
		}
		if err != nil {
			return explainDeploy(err)
		}
		d.Stacks = append(d.Stacks, set)
	}
	if o.diff {
		return a.printDiff(d, o.output)
	}
	if d.Outputs, err = t.Outputs(ctx, d.Name); err != nil {
		return explainDeploy(err)
	}
	return a.printDeployment(d, o.output)
}

// Deployment is what `deploy aws -o json` prints.
type Deployment struct {
	Name    string              `json:"name"`
	Account string              `json:"account"`
	Region  string              `json:"region"`
	Stacks  []*deploy.ChangeSet `json:"stacks"`            // with what was, or would be, changed
	Outputs map[string]string   `json:"outputs,omitempty"` // of the first stack, once it is deployed
	Removed bool                `json:"removed,omitempty"`
}

// target finds out where to deploy.
func (a app) target(ctx context.Context, o *deployOptions) (*deploy.Target, error) {
	load := []func(*config.LoadOptions) error{config.WithSharedConfigProfile(o.profile),
		config.WithLogger(logging.Nop{})}
	if o.settings.Region != "" {
		load = append(load, config.WithRegion(o.settings.Region))
	}
	cfg, err := config.LoadDefaultConfig(ctx, load...)
	if err != nil {
		return nil, command.Because(err, command.ExitBadInput, "--profile names another profile",
			"the configuration of AWS cannot be read: %v", err)
	}
	if o.endpoint != "" {
		cfg.BaseEndpoint = aws.String(o.endpoint)
	}
	t, err := deploy.Open(ctx, cfg)
	if err != nil {
		return nil, explainDeploy(err)
	}
	t.Progress = a.tellStep
	a.Tell("account %s, region %s", t.Account, t.Region)
	return t, nil
}

// tellStep says what happens. Of a resource that changes only the end is worth a line.
func (a app) tellStep(s deploy.Step) {
	if strings.HasSuffix(s.Status, "_IN_PROGRESS") {
		return
	}
	line := fmt.Sprintf("%-15s %s", s.What, s.Name)
	if s.Status != "done" {
		line = fmt.Sprintf("%-15s %-22s %s", s.What, s.Status, s.Name)
	}
	for _, more := range []string{s.Type, s.Reason} {
		if more != "" {
			line += "  " + more
		}
	}
	a.Tell("%s", text.Clean(line))
}

// assemble reads what was synthesised, or builds it.
func (a app) assemble(ctx context.Context, t *deploy.Target, o *deployOptions) (*deploy.Assembly, string, error) {
	if o.assembly != "" {
		assembly, err := deploy.ReadAssembly(o.assembly)
		if err != nil {
			return nil, "", explainDeploy(err)
		}
		return assembly, o.assets, nil
	}
	dir := o.source
	if dir == "" {
		dir = "."
	}
	root, err := deploy.FindSource(dir)
	if err != nil {
		return nil, "", explainDeploy(err)
	}
	b := &deploy.Builder{Source: root, Version: a.Version, Progress: a.tellStep}
	if a.Verbose {
		b.Log = a.Err
	}
	s := o.settings
	s.Account, s.Region = "", ""
	if len(s.Regions) > 0 {
		s.Account, s.Region = t.Account, t.Region
	}
	assembly, err := b.Build(ctx, s)
	if err != nil {
		return nil, "", explainDeploy(err)
	}
	return assembly, b.Assets(), nil
}

// destroyAWS deletes the stacks of a deployment, those of other regions first. Where the first is gone, what lies
// beside it is still removed: the call that deleted it may not have got that far.
func (a app) destroyAWS(ctx context.Context, t *deploy.Target, o *deployOptions) error {
	name := o.settings.Name
	out, err := t.Outputs(ctx, name)
	if err != nil && !errors.Is(err, deploy.ErrNoStack) {
		return explainDeploy(err)
	}
	if err := a.confirm(o, name, t); err != nil {
		return err
	}
	d := &Deployment{Name: name, Account: t.Account, Region: t.Region, Stacks: []*deploy.ChangeSet{}, Removed: true}
	for _, region := range append(strings.FieldsFunc(out["Regions"], func(r rune) bool {
		return r == ','
	}), o.others...) {
		if region == t.Region {
			continue
		}
		if err := t.In(region).Destroy(ctx, name+"-notices-"+region, name); err != nil &&
			!errors.Is(err, deploy.ErrNoStack) {
			return explainDeploy(err)
		}
	}
	if err := t.Destroy(ctx, name, name); err != nil {
		return explainDeploy(err)
	}
	if o.output.JSON() {
		return a.PrintJSON(d)
	}
	return a.Printf("%s is deleted; its table and its buckets are left where it was made to keep them\n", name)
}

// confirm asks whoever sits at a terminal.
func (a app) confirm(o *deployOptions, name string, t *deploy.Target) error {
	if o.yes {
		return nil
	}
	if command.Terminal(a.In) == nil || command.Terminal(a.Err) == nil {
		return command.BadInput("--yes says that it is meant",
			"%s in %s of account %s would be deleted, and there is nobody to ask", name, t.Region, t.Account)
	}
	_, _ = fmt.Fprintf(a.Err, "delete %s in %s of account %s? Its name deletes it: ", name, t.Region, t.Account)
	answer, err := bufio.NewReader(a.In).ReadString('\n')
	if err != nil || strings.TrimSpace(answer) != name {
		return command.Failed("", "nothing was deleted")
	}
	return nil
}

func (a app) printDiff(d *Deployment, output *command.Choice) error {
	if output.JSON() {
		return a.PrintJSON(d)
	}
	t := &text.Table{Columns: []text.Column{{Name: "STACK", Optional: 1}, {Name: "CHANGE"}, {Name: "TYPE"},
		{Name: "RESOURCE", Flexible: true}, {Name: "OF IT", Flexible: true}}}
	n := 0
	for _, set := range d.Stacks {
		for _, c := range set.Changes {
			n++
			what := c.Action
			if c.Replacement == "True" {
				what = "Replace"
			}
			t.Row(set.Stack, what, c.Type, text.Clean(c.ID), text.Clean(strings.Join(c.Properties, ", ")))
		}
	}
	if n == 0 {
		return a.Printf("nothing would change\n")
	}
	if err := a.PrintTable(t); err != nil {
		return err
	}
	return a.Printf("\n%s would change\n", text.Count(n, "resource"))
}

func (a app) printDeployment(d *Deployment, output *command.Choice) error {
	if output.JSON() {
		return a.PrintJSON(d)
	}
	changed := 0
	for _, s := range d.Stacks {
		changed += len(s.Changes)
	}
	if changed == 0 {
		a.Tell("nothing had changed")
	}
	t := &text.Table{Columns: []text.Column{{Name: "OUTPUT"}, {Name: "VALUE", Flexible: true}}}
	for _, k := range slices.Sorted(maps.Keys(d.Outputs)) {
		t.Row(text.Clean(k), text.Clean(d.Outputs[k]))
	}
	if err := a.PrintTable(t); err != nil {
		return err
	}
	if api := d.Outputs["Api"]; api != "" {
		a.Tell("\nexport %s=%s   # then `tradewind submit` and the like talk to it", command.EnvEndpoint, api)
	}
	if dags := d.Outputs["DagBucket"]; dags != "" {
		a.Tell("aws s3 cp job.yaml s3://%s/   # or drop a file there", dags)
	}
	return nil
}

// explainDeploy says what to do about an error of package deploy.
func explainDeploy(err error) error {
	code, hint := command.ExitFailed, ""
	switch {
	case errors.Is(err, deploy.ErrNoCredentials):
		hint = "`aws configure`, --profile, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY give some"
	case errors.Is(err, deploy.ErrNoRegion):
		code, hint = command.ExitBadInput, "--region names one"
	case errors.Is(err, deploy.ErrNoSource):
		code, hint = command.ExitBadInput, "clone the repository and run it there, or name the clone with --source"
	case errors.Is(err, deploy.ErrNoTool):
		hint = "building needs go (https://go.dev/dl) and node 20 or later (https://nodejs.org); --assembly deploys " +
			"what was built elsewhere"
	case errors.Is(err, deploy.ErrAssembly):
		code, hint = command.ExitBadInput, "`make synth` fills infra/cdk.out"
	case errors.Is(err, deploy.ErrNoStack):
		code, hint = command.ExitBadInput, "--name and --region say which deployment is meant"
	case errors.Is(err, deploy.ErrMachines):
		hint = "`tradewind cancel` ends the jobs they work for"
	case errors.Is(err, deploy.ErrData):
		hint = "docs/aws.md says how to move a deployment's data"
	case errors.Is(err, deploy.ErrBusy):
		hint = "wait for it to end"
	}
	var known *command.Failure
	if errors.As(err, &known) || errors.Is(err, context.Canceled) {
		return err
	}
	return command.Because(err, code, hint, "%s", strings.TrimPrefix(err.Error(), "deploy: "))
}

// deployedPolicy is the policy that a deployment is to follow, which is checked before anything is changed; nil is the
// broker's own.
func (a app) deployedPolicy(o *deployOptions) ([]byte, error) {
	if o.policy == "" {
		return nil, nil
	}
	o.settings.Policy = true
	name, body, err := a.ReadInput(o.policy)
	if err != nil {
		return nil, err
	}
	_, err = session.ReadPolicy(name, body)
	return body, err
}
