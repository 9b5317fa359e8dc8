// Command infra synthesises Tradewind's deployment on AWS into a cloud assembly:
// the CloudFormation template and the Lambda binaries it refers to.
//
//	cd infra && go run . -assets ../dist
//
// It needs node (the CDK's constructs are TypeScript) but neither the cdk
// command nor the network. `tradewind deploy aws` runs it; so can
// `cdk --app "go run ."`, with credentials of one's own.
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
	var data, made, regions, announce, secrets string
	f := flag.NewFlagSet("infra", flag.ContinueOnError)
	f.StringVar(&cfg.Name, "name", cfg.Name, "name of the deployment, the prefix of everything in it")
	f.StringVar(&cfg.Architecture, "architecture", cfg.Architecture, "of the Lambda functions: arm64 or x86_64")
	f.StringVar(&cfg.Assets, "assets", cfg.Assets,
		"folder with lambda/<function>/bootstrap and agent/<arch>/tradewind-agent")
	f.StringVar(&cfg.Out, "out", cfg.Out, "folder to synthesise into")
	f.BoolVar(&cfg.KeepData, "keep-data", cfg.KeepData, "keep the table and the buckets when the stack is deleted")
	f.BoolVar(&cfg.Alarms, "alarms", cfg.Alarms,
		"alarms for dead letters that stop a job, and for the relay: ten, as many as are free")
	f.IntVar(&cfg.LogDays, "log-days", cfg.LogDays, "days that logs are kept")
	f.StringVar(&data, "data-buckets", "", "further buckets, by comma, that tasks may read, write and mount")
	f.StringVar(&made, "make-buckets", "",
		"buckets, by comma, that are made when jobs ask for them; a name may end in a star")
	f.StringVar(&secrets, "secrets", "",
		"further paths, by comma, such as /team/, below which jobs may refer to parameters and secrets")
	f.StringVar(&regions, "regions", "",
		"further regions, by comma, to buy machines in; each gets a stack that passes its spot notices on")
	f.StringVar(&cfg.Account, "account", "", "account of the deployment; needed with -regions alone")
	f.StringVar(&cfg.Region, "region", "", "region of the deployment; needed with -regions alone")
	f.Func("cloud", "further cloud to buy on, with its settings: gcp:project=P, azure:subscription=S, lambda; again for more",
		func(text string) error {
			name, settings, _ := strings.Cut(text, ":")
			if cfg.Clouds == nil {
				cfg.Clouds = map[string]string{}
			}
			cfg.Clouds[name] = settings
			return nil
		})
	f.StringVar(&announce, "announce", strings.Join(cfg.Announce, ","),
		"types of events, by comma, that are put on the event bus for rules of yours, or none")
	f.StringVar(&cfg.Webhook, "webhook", "", "https URL that news of jobs are posted to")
	f.StringVar(&cfg.Traces, "traces", "", "https URL of a collector of OpenTelemetry")
	f.StringVar(&cfg.TraceHeaders, "trace-headers", "", "SSM parameter with the collector's headers")
	f.BoolVar(&cfg.Unproven, "unproven-machines", false,
		"take machines at their word where they do not prove which one they are")
	f.DurationVar(&cfg.AgentsCall, "agents-call", 0,
		"how often agents that work call, 1s to 5m: how soon people get onto their machines; 5m if 0")
	f.BoolVar(&cfg.Policy, "policy", false,
		"sessions follow the scheduling policy in policy/scheduling.yaml of the work bucket")
	if err := f.Parse(args); err != nil {
		return err
	}
	if f.NArg() > 0 {
		return fmt.Errorf("unknown argument %q", f.Arg(0))
	}
	cfg.DataBuckets, cfg.MakeBuckets = list(data), list(made)
	cfg.Regions, cfg.Announce = list(regions), list(announce)
	cfg.Secrets = list(secrets)
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
