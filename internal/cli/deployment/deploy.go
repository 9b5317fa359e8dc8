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
	"github.com/tradewind-broker/tradewind/internal/base/fault"
	"github.com/tradewind-broker/tradewind/internal/broker/session"
	"github.com/tradewind-broker/tradewind/internal/cli/command"
	"github.com/tradewind-broker/tradewind/internal/cli/text"
	"github.com/tradewind-broker/tradewind/internal/deploy"
	"github.com/tradewind-broker/tradewind/pkg/dag"
)

// deployOptions are the flags of deploy aws.
type deployOptions struct {
	settings                         deploy.Settings
	limit                            command.Limit
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

// Command is the deploy command. clouds are the clouds that machines can be bought on.
func Command(in *command.App, clouds []string) *cobra.Command {
	a := app{in, clouds}
	c := &cobra.Command{
		Use:   "deploy",
		Short: "Deploy the broker to AWS or Kubernetes, or remove it",
		Long: "Deploys the broker to an AWS account, as functions that run on events and cost nothing while idle, or to a\n" +
			"Kubernetes cluster, as one process with a volume.",
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
		Use:   "aws",
		Short: "Deploy to the AWS account of the current credentials, or update the deployment",
		Long: "Builds the functions, the agents and a CloudFormation template, and creates or updates the stack\n" +
			"--name. If this fails, CloudFormation rolls back. The command needs Go, Node, AWS credentials, and a\n" +
			"clone of Tradewind's repository, in the current folder or a parent (or --source). It refuses changes\n" +
			"that would replace or remove the table or a bucket.",
		Example: "  tradewind deploy aws                               # into the region of the profile\n" +
			"  tradewind deploy aws --diff                        # only show what would change\n" +
			"  tradewind deploy aws --region eu-west-1 --regions us-east-1,us-west-2 --data-buckets imagenet-mini\n" +
			"  export TRADEWIND_ENDPOINT=$(tradewind deploy aws -o json | jq -r .outputs.Api)\n" +
			"  tradewind deploy aws --destroy                     # records and files stay",
		Args: command.Args(0, 0),
	}
	f := c.Flags()
	f.BoolVar(&o.diff, "diff", false, "show what would change, and change nothing")
	f.BoolVar(&o.destroy, "destroy", false,
		"delete the deployment; the table and the buckets stay unless it was deployed\nwith --keep-data=false")
	f.BoolVar(&o.yes, "yes", false, "do not ask before destroying")
	f.StringVar(&o.settings.Name, "name", "tradewind", "name of the deployment, and prefix of all its resources")
	f.StringVar(&o.settings.Region, "region", "", "region to deploy to (default: that of the profile or environment)")
	f.StringSliceVar(&o.others, "regions", nil, "additional regions to buy machines in")
	f.StringArrayVar(&o.settings.Clouds, "cloud", nil,
		"additional cloud to buy on, with its settings: gcp:project=P, azure:subscription=S, lambda")
	f.StringSliceVar(&o.settings.Services, "services", nil,
		"managed services that run Spark tasks, separated by commas: emr, emr-serverless; their\n"+
			"roles are created (default: none)")
	f.StringSliceVar(&o.settings.Secrets, "secrets", nil,
		"additional path prefixes, such as /team/, of parameters and secrets that jobs may use")
	f.StringSliceVar(&o.dataBuckets, "data-buckets", nil, "additional buckets that tasks may read, write and mount")
	f.StringSliceVar(&o.settings.KMSKeys, "kms-keys", nil,
		"ARNs of your KMS keys that encrypt volumes, data buckets or secrets; the\n"+
			"deployment may use them for these only")
	f.StringSliceVar(&o.makeBuckets, "make-buckets", nil,
		"buckets that jobs may create; a name may end in a star")
	f.Var(&o.architectures, "architecture", "processor architecture of the functions")
	command.CompleteChoice(c, "architecture", &o.architectures)
	f.IntVar(&o.settings.LogDays, "log-days", 30, "days to keep logs")
	f.IntVar(&o.settings.PlannerMemory, "planner-memory", 512,
		"memory in MiB of the function that plans jobs; raise it if a job is too large\n"+
			"to plan. More memory also means more processor time")
	f.BoolVar(&o.keepData, "keep-data", true, "keep the table and the buckets when the stack is deleted")
	f.BoolVar(&o.alarms, "alarms", true,
		"create ten alarms, which are free: for dead letters that stop a job, and for the relay")
	f.BoolVar(&o.settings.AllAlarms, "all-alarms", false,
		"also create alarms for all dead letters, old messages, a missing reconcile,\n"+
			"throttles, errors and lost machines: about 3.50 USD a month")
	f.StringSliceVar(&o.announce, "announce", shortEventNames(events.Announced()),
		"types of events to put on the event bus for your own rules, at a millionth of a dollar for each event; "+
			"all, none")
	f.StringVar(&o.settings.Webhook, "webhook", "", "https URL to post job events to")
	f.StringVar(&o.settings.MailFrom, "mail-from", "",
		"sender of e-mail that jobs ask for, verified in Amazon SES in the deployment's region\n(default: send none)")
	f.StringVar(&o.settings.Traces, "traces", "",
		"https URL of an OpenTelemetry collector that gets a trace of each finished job")
	f.StringVar(&o.settings.TraceHeaders, "trace-headers", "",
		"SSM parameter, such as /team/otlp, with headers for the collector: comma-separated NAME=VALUE")
	f.DurationVar(&o.settings.AgentsCall, "agents-call", 5*time.Minute,
		"time between two calls of a working agent, 1s to 5m. With a shorter time, exec\n"+
			"and shell start sooner; a call costs two millionths of a dollar")
	f.StringVar(&o.settings.Keep, "keep", "",
		"how long to keep finished jobs: 90d, or forever (default); keep in a job file or of a queue overrides it")
	o.limit.Flags(f)
	f.BoolVar(&o.settings.Unproven, "unproven-machines", false,
		"accept machines that do not prove their identity")
	f.StringVar(&o.policy, "policy", "", "file with the scheduling policy")
	_ = c.MarkFlagFilename("policy", "yaml", "yml")
	f.StringVar(&o.profile, "profile", "", "AWS profile (default: $AWS_PROFILE)")
	f.StringVar(&o.endpoint, "endpoint-url", "", "URL of an emulator to use instead of AWS")
	f.StringVar(&o.source, "source", "", "clone of the repository (default: the current folder or a parent)")
	f.StringVar(&o.assembly, "assembly", "",
		"folder with a synthesised template (the output of infra), to deploy without building")
	f.StringVar(&o.assets, "assets", "", "with --assembly: folder with the agents, as agent/ARCH/tradewind")
	for _, name := range []string{"source", "assembly", "assets"} {
		_ = c.MarkFlagDirname(name)
	}
	o.output = command.OutputFlag(c)
	c.RunE = func(c *cobra.Command, _ []string) error {
		ctx, cancel := a.Stop.Context(c.Context())
		defer cancel()
		if o.settings.AgentsCall < time.Second || o.settings.AgentsCall > 5*time.Minute {
			return command.BadInput("", "--agents-call %v must be between 1s and 5m", o.settings.AgentsCall)
		}
		for _, name := range o.settings.Services {
			if dag.ServiceCloud(name) != "aws" {
				return command.BadInput("emr, emr-serverless; services of other clouds are settings of --cloud",
					"--services: AWS has no service %q that runs Spark tasks", name)
			}
		}
		if _, err := dag.ParseKeep(o.settings.Keep); err != nil {
			return command.BadInput("", "--keep: %v", err)
		}
		if o.settings.MailFrom != "" {
			if err := dag.CheckAddress(o.settings.MailFrom); err != nil {
				return command.BadInput("", "--mail-from: %v", err)
			}
		}
		o.settings.Architecture, o.settings.DropData, o.settings.NoAlarms = o.architectures.Value,
			!o.keepData, !o.alarms
		o.settings.LimitMachines, o.settings.LimitUSD = o.limit.Machines, float64(o.limit.USDPerHour.Value)
		o.settings.DataBuckets, o.settings.MakeBuckets, o.settings.Regions = o.dataBuckets, o.makeBuckets, o.others
		return a.deployAWS(ctx, o)
	}
	return c
}

// shortEventNames returns the short names of event types, as in docs/events.md.
func shortEventNames(types []string) []string {
	out := make([]string, len(types))
	for i, typ := range types {
		out[i] = events.ShortName(typ)
	}
	return out
}

// eventTypes returns the event types of short names, or of "all" and "none".
func eventTypes(names []string) ([]string, error) {
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
			return nil, command.BadInput(
				fault.OneOf(name, shortEventNames(known)),
				"--announce: unknown event %q",
				name,
			)
		}
		types = append(types, typ)
	}
	return types, nil
}

func (a app) deployAWS(ctx context.Context, o *deployOptions) error {
	switch {
	case o.diff && o.destroy:
		return command.BadInput("leave out one of them", "--diff changes nothing, and --destroy deletes everything")
	case (o.assembly == "") != (o.assets == ""):
		return command.BadInput(
			"`make synth` creates infra/cdk.out and dist",
			"--assembly and --assets need each other",
		)
	}
	policy, err := a.deployedPolicy(o)
	if err != nil {
		return err
	}
	if o.settings.Announce, err = eventTypes(o.announce); err != nil {
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
	if err := a.deployStacks(ctx, t, o, assembly, assets, policy, d); err != nil {
		return explainDeploy(err)
	}
	if o.diff {
		return a.printDiff(d, o.output)
	}
	if d.Outputs, err = t.Outputs(ctx, d.Name); err != nil {
		return explainDeploy(err)
	}
	if d.Stacks[0].New {
		a.Tell("S3 reports files in a new bucket from about %s on: put job files there after that, "+
			"or use `tradewind submit`", a.Now().Add(bucketReports).Local().Format("15:04"))
	}
	return a.printDeployment(d, o.output)
}

// deployStacks deploys the stacks of an assembly, or finds what would change, and adds the change sets to d.
func (a app) deployStacks(ctx context.Context, t *deploy.Target, o *deployOptions, assembly *deploy.Assembly,
	assets string, policy []byte, d *Deployment) error {
	dropped, before, err := existing(ctx, t, o, assembly)
	if err != nil {
		return err
	}
	for i, s := range assembly.Stacks {
		at := t.In(s.Region)
		var set *deploy.ChangeSet
		var err error
		if o.diff {
			set, err = at.Diff(ctx, s)
		} else {
			agents := assets
			if i > 0 { // other regions have no bucket for agents
				agents = ""
			}
			set, err = at.Deploy(ctx, s, agents)
		}
		// CloudFormation may have put a busy deployment to sleep, also when it has rolled back.
		if !o.diff && i == 0 && set != nil && !set.New && !set.Empty() {
			if err := at.Reconcile(ctx, s.Name); err != nil {
				a.Tell("warning: %s", strings.TrimPrefix(err.Error(), "deploy: "))
			}
		}
		if err == nil && i == 0 && policy != nil && !o.diff {
			err = at.PutPolicy(ctx, at.WorkBucket(s.Name), policy)
		}
		if err != nil {
			return err
		}
		d.Stacks = append(d.Stacks, set)
		for _, w := range at.Warnings(ctx, d.Name) {
			a.Tell("warning: %s", w)
		}
	}
	return a.tidy(ctx, t, o, d, dropped, before)
}

// existing returns the regions that the deployment drops, and its present template. It fails if machines run in these
// regions, unless nothing would be changed.
func existing(ctx context.Context, t *deploy.Target, o *deployOptions,
	assembly *deploy.Assembly) (dropped []string, before string, err error) {
	name := assembly.Stacks[0].Name
	if dropped, err = t.Dropped(ctx, assembly); err != nil {
		return nil, "", err
	}
	if !o.diff {
		if err := t.CheckDropped(ctx, name, dropped); err != nil {
			return nil, "", err
		}
	}
	before, err = t.Template(ctx, name)
	if errors.Is(err, deploy.ErrNoStack) {
		err = nil
	}
	return dropped, before, err
}

// tidy removes the parts that the deployment does not need any more: the stacks of dropped regions and old binaries.
// before is the template that it had until now. With --diff it only adds the stacks to d.
func (a app) tidy(ctx context.Context, t *deploy.Target, o *deployOptions, d *Deployment, dropped []string,
	before string) error {
	for _, region := range dropped {
		d.Stacks = append(d.Stacks, deploy.DropSet(d.Name, region))
		if o.diff {
			continue
		}
		if err := t.Drop(ctx, d.Name, region); err != nil {
			return err
		}
	}
	if o.diff {
		return nil
	}
	if err := t.Prune(ctx, d.Name, before, a.Now()); err != nil { // the deployment works without it
		a.Tell("warning: old binaries stay: %s", strings.TrimPrefix(err.Error(), "deploy: "))
	}
	return nil
}

// Deployment is the output of `deploy aws -o json`.
type Deployment struct {
	Name    string              `json:"name"`
	Account string              `json:"account"`
	Region  string              `json:"region"`
	Stacks  []*deploy.ChangeSet `json:"stacks"`            // with their changes, applied or planned
	Outputs map[string]string   `json:"outputs,omitempty"` // of the first stack, after it was deployed
	Removed bool                `json:"removed,omitempty"`
}

// target returns where to deploy.
func (a app) target(ctx context.Context, o *deployOptions) (*deploy.Target, error) {
	load := []func(*config.LoadOptions) error{config.WithSharedConfigProfile(o.profile),
		config.WithLogger(logging.Nop{})}
	if o.settings.Region != "" {
		load = append(load, config.WithRegion(o.settings.Region))
	}
	cfg, err := config.LoadDefaultConfig(ctx, load...)
	if err != nil {
		return nil, command.Because(err, command.ExitBadInput, "--profile names another profile",
			"cannot read the AWS configuration: %v", err)
	}
	if o.endpoint != "" {
		cfg.BaseEndpoint = aws.String(o.endpoint)
	}
	t, err := deploy.Open(ctx, cfg)
	if err != nil {
		return nil, explainDeploy(err)
	}
	t.Progress = a.printStep
	a.Tell("account %s, region %s", t.Account, t.Region)
	return t, nil
}

// printStep prints a step. For a changing resource it only prints the end.
func (a app) printStep(s deploy.Step) {
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

// assemble reads the synthesised template, or builds it.
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
	b := &deploy.Builder{Source: root, Version: a.Version, Progress: a.printStep}
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

// destroyAWS deletes the stacks of a deployment, those of other regions first. If the first stack is already deleted,
// it still removes the rest, because the call that deleted the stack may have stopped there.
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
		if err := t.In(region).Destroy(ctx, deploy.NoticesStack(name, region), name); err != nil &&
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
	return a.Printf("deleted %s; its table and buckets stay if it was deployed to keep them\n", name)
}

// confirm asks the user at the terminal.
func (a app) confirm(o *deployOptions, name string, t *deploy.Target) error {
	if o.yes {
		return nil
	}
	if command.Terminal(a.In) == nil || command.Terminal(a.Err) == nil {
		return command.BadInput(
			"--yes confirms it",
			"%s in %s of account %s would be deleted, but there is no terminal to confirm it",
			name,
			t.Region,
			t.Account,
		)
	}
	_, _ = fmt.Fprintf(a.Err, "delete %s in %s of account %s? Type its name to confirm: ", name, t.Region, t.Account)
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
		{Name: "RESOURCE", Flexible: true}, {Name: "PROPERTIES", Flexible: true}}}
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
		a.Tell("nothing to change")
	}
	t := &text.Table{Columns: []text.Column{{Name: "OUTPUT"}, {Name: "VALUE", Flexible: true}}}
	for _, k := range slices.Sorted(maps.Keys(d.Outputs)) {
		t.Row(text.Clean(k), text.Clean(d.Outputs[k]))
	}
	if err := a.PrintTable(t); err != nil {
		return err
	}
	if api := d.Outputs["Api"]; api != "" {
		a.Tell("\nexport %s=%s   # then `tradewind submit` and other commands use it", command.EnvEndpoint, api)
	}
	if dags := d.Outputs["DagBucket"]; dags != "" {
		a.Tell("aws s3 cp job.yaml s3://%s/   # or put a file there", dags)
	}
	return nil
}

// bucketReports is how long after its creation a bucket begins to report files (Amazon S3 User Guide, "Enabling Amazon
// EventBridge": around five minutes).
const bucketReports = 6 * time.Minute

// explainDeploy adds a hint to an error of package deploy.
func explainDeploy(err error) error {
	code, hint := command.ExitFailed, ""
	switch {
	case errors.Is(err, deploy.ErrNoCredentials):
		hint = "`aws configure`, --profile, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY provide credentials"
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
		code, hint = command.ExitBadInput, "name the deployment with --name and --region"
	case errors.Is(err, deploy.ErrMachines):
		hint = "`tradewind cancel` ends their jobs"
	case errors.Is(err, deploy.ErrUndeleted): // it names the next steps
	case errors.Is(err, deploy.ErrData):
		hint = "docs/aws.md describes how to move a deployment's data"
	case errors.Is(err, deploy.ErrBusy):
		hint = "wait for it to end"
	}
	var known *command.Failure
	if errors.As(err, &known) || errors.Is(err, context.Canceled) {
		return err
	}
	return command.Because(err, code, hint, "%s", strings.TrimPrefix(err.Error(), "deploy: "))
}

// deployedPolicy reads and checks the scheduling policy before anything is changed; nil means the default policy.
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
