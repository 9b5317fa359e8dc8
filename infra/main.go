// Command infra synthesises Tradewind's AWS deployment into a cloud assembly: the CloudFormation template and the
// Lambda binaries it refers to.
//
//	cd infra && go run . -assets ../dist
//
// It needs node (the CDK's constructs are TypeScript), but neither the cdk command nor network access.
// `tradewind deploy aws` runs it. You can also run it with `cdk --app "go run ."` and your own credentials.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"

	"github.com/aws/jsii-runtime-go"

	"github.com/tradewind-broker/tradewind/infra/stack"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		if !errors.Is(err, flag.ErrHelp) {
			fmt.Fprintln(os.Stderr, "infra:", err)
		}
		os.Exit(2)
	}
}

func run(args []string) error {
	defer jsii.Close()
	cfg := stack.Default()
	var data, made, regions, announce, secrets, keys, services string
	f := flag.NewFlagSet("infra", flag.ContinueOnError)
	f.StringVar(&cfg.Name, "name", cfg.Name, "name of the deployment and prefix of all its resources")
	f.StringVar(&cfg.Architecture, "architecture", cfg.Architecture, "architecture of the Lambda functions: arm64 or x86_64")
	f.StringVar(&cfg.Assets, "assets", cfg.Assets,
		"folder with lambda/<function>/bootstrap and agent/<arch>/tradewind-agent")
	f.StringVar(&cfg.Out, "out", cfg.Out, "folder to synthesise into")
	f.BoolVar(&cfg.KeepData, "keep-data", cfg.KeepData, "keep the table and the buckets when the stack is deleted")
	f.BoolVar(&cfg.Alarms, "alarms", cfg.Alarms,
		"create alarms for dead letters that stop a job and for the relay: ten, the number that is free")
	f.BoolVar(&cfg.AllAlarms, "all-alarms", false,
		"create alarms for all dead letters, old messages, a missing reconcile, throttles, errors and lost machines; "+
			"they cost money")
	f.IntVar(&cfg.LogDays, "log-days", cfg.LogDays, "days that logs are kept")
	f.IntVar(&cfg.PlannerMemory, "planner-memory", 0,
		"memory of the function that plans jobs, in MiB, 256 to 10240; processor time is in proportion; 0 means 512")
	f.StringVar(&data, "data-buckets", "", "comma-separated additional buckets that tasks may read, write and mount")
	f.StringVar(&made, "make-buckets", "",
		"comma-separated buckets that the broker creates when jobs request them; a name may end in a star")
	f.StringVar(&secrets, "secrets", "",
		"comma-separated additional paths, such as /team/, below which jobs may refer to parameters and secrets")
	f.StringVar(&keys, "kms-keys", "",
		"comma-separated ARNs of the customer keys that encrypt volumes, data buckets and secrets")
	f.StringVar(&regions, "regions", "",
		"comma-separated additional regions to buy machines in; each gets a stack that forwards its spot notices")
	f.StringVar(&cfg.Account, "account", "", "account of the deployment; needed only with -regions")
	f.StringVar(&cfg.Region, "region", "", "region of the deployment; needed only with -regions")
	f.Func("cloud", "additional cloud to buy on, with its settings: gcp:project=P, azure:subscription=S, lambda; repeatable",
		func(text string) error {
			name, settings, _ := strings.Cut(text, ":")
			if cfg.Clouds == nil {
				cfg.Clouds = map[string]string{}
			}
			cfg.Clouds[name] = settings
			return nil
		})
	f.StringVar(&services, "services", "",
		"comma-separated managed services of AWS to buy for Spark tasks: emr, emr-serverless; the stack creates their roles")
	f.StringVar(&announce, "announce", strings.Join(cfg.Announce, ","),
		"comma-separated event types to publish on the event bus for your rules, or none")
	f.StringVar(&cfg.Webhook, "webhook", "", "https URL to post job news to")
	f.StringVar(&cfg.MailFrom, "mail-from", "", "sender of e-mail that jobs ask for, verified in SES")
	f.StringVar(&cfg.Traces, "traces", "", "https URL of an OpenTelemetry collector")
	f.StringVar(&cfg.TraceHeaders, "trace-headers", "", "SSM parameter with the collector's headers")
	f.BoolVar(&cfg.Unproven, "unproven-machines", false,
		"accept machines that cannot prove their identity")
	f.StringVar(&cfg.Keep, "keep", "", "how long finished jobs are kept: 90d, or forever (default)")
	f.IntVar(&cfg.LimitMachines, "limit-machines", 0, "how many machines may be bought at the same time; 0 is no limit")
	f.Float64Var(&cfg.LimitUSD, "limit-usd-per-hour", 0, "what bought machines may cost in an hour, USD; 0 is no limit")
	f.DurationVar(&cfg.AgentsCall, "agents-call", 0,
		"how often agents with running tasks call, 1s to 5m: limits how fast users get a shell on a machine; 0 means 5m")
	f.BoolVar(&cfg.Policy, "policy", false,
		"scheduling sessions follow the policy in policy/scheduling.yaml of the work bucket")
	if err := f.Parse(args); err != nil {
		return err
	}
	if f.NArg() > 0 {
		return fmt.Errorf("unknown argument %q", f.Arg(0))
	}
	cfg.DataBuckets, cfg.MakeBuckets = list(data), list(made)
	cfg.Regions, cfg.Announce = list(regions), list(announce)
	cfg.Secrets, cfg.KMSKeys, cfg.Services = list(secrets), list(keys), list(services)
	if announce == "none" {
		cfg.Announce = nil
	}
	if err := cfg.Validate(); err != nil {
		return err
	}
	stack.Synthesise(cfg)
	return nil
}

func list(s string) []string {
	return strings.FieldsFunc(s, func(r rune) bool { return r == ',' || r == ' ' })
}
