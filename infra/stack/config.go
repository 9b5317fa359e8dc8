// Package stack is Tradewind's deployment on AWS as CDK constructs: one table, one event bus, a Lambda function with a
// queue and a dead-letter queue for each function of the broker, two buckets, an HTTP API, schedules, and monitoring.
//
// The list of functions is not repeated here: queues follow events.Functions, so declaring a function there deploys it.
// Roles are written out statement by statement (permissions.go), because the CDK's grant helpers allow more than the
// adapters call.
package stack

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/internal/cloud/driver"
	"github.com/tradewind-broker/tradewind/internal/secret"
	"github.com/tradewind-broker/tradewind/pkg/dag"
)

// Config is the configuration of a deployment.
type Config struct {
	Name         string // prefix of everything
	Architecture string // of the functions: arm64 or x86_64
	Assets       string // folder with lambda/<function>/bootstrap and agent/<arch>/tradewind-agent
	Out          string // output folder of the cloud assembly
	KeepData     bool   // keep the table and the buckets when the stack is deleted
	Alarms       bool
	AllAlarms    bool // also those that cost money
	LogDays      int  // one of CloudWatch's retention periods
	// PlannerMemory is the memory of the function that plans, in MiB; 0 means that of sizeOf.
	PlannerMemory int
	DataBuckets   []string // additional buckets that tasks may read and write
	// Secrets are additional paths, such as /team/, below which jobs may refer to parameters and secrets.
	// /NAME/secrets/ is always allowed.
	Secrets []string
	// KMSKeys are the ARNs of the customer keys that the deployment may use through EC2, S3, Systems Manager and
	// Secrets Manager.
	KMSKeys []string
	// MakeBuckets are names, or prefixes that end in a star, of buckets that the broker creates when jobs request them.
	// They are data buckets, too.
	MakeBuckets []string
	// Regions are additional regions in which machines are bought; each needs a stack because EventBridge reports an
	// interruption only in the machine's region. Account and Region say where this deployment is, for these stacks.
	Regions         []string
	Account, Region string
	// Clouds are the clouds to buy on in addition to AWS, each with its settings as driver.ParseSettings reads them.
	Clouds map[string]string
	// Services are the managed services of AWS that the deployment buys for Spark tasks: emr, emr-serverless.
	Services []string
	Webhook  string // https URL for news; empty for none
	// MailFrom is the address, verified in SES, from which jobs notify people; empty means that no e-mail is sent.
	MailFrom string
	Traces   string // https URL of an OpenTelemetry collector (OTLP); empty for none
	// TraceHeaders is the SSM parameter with the collector's headers, comma-separated NAME=VALUE; empty for none.
	TraceHeaders string
	Announce     []string // types of events that are published on the event bus for other consumers
	Unproven     bool     // accept machines that do not prove their identity
	Policy       bool     // sessions follow policyKey of the work bucket
	// Keep is how long finished jobs are kept whose file and queues say nothing; empty means forever.
	Keep string
	// LimitMachines is how many machines may be bought at the same time, LimitUSD what they may cost in an hour, in
	// USD. Zero means no limit.
	LimitMachines int
	LimitUSD      float64
	// AgentsCall is how often agents with running tasks call, 1s to 5m; 0 means 5m.
	AgentsCall time.Duration
}

// Default is the configuration without flags.
func Default() Config {
	return Config{Name: "tradewind", Architecture: "arm64", Assets: "../dist", Out: "cdk.out", KeepData: true,
		Alarms: true, LogDays: 30, Announce: events.Announced()}
}

// Lambda's limits of a function's memory, in MiB; new accounts have 3008 at most. The planner needs a quarter of a GiB.
const minMemory, maxMemory = 256, 10240

// retentions are the retention periods of CloudWatch Logs in days.
var retentions = []int{1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731}

var (
	namePattern      = regexp.MustCompile(`^[a-z][a-z0-9-]{1,18}[a-z0-9]$`)
	bucketPattern    = regexp.MustCompile(`^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$`)
	pathPattern      = regexp.MustCompile(`^(/[A-Za-z0-9_.-]+)+/$`)
	parameterPattern = regexp.MustCompile(`^(/[A-Za-z0-9_.-]+)+$`)
	makePattern      = regexp.MustCompile(`^([a-z0-9][a-z0-9.-]{1,61}[a-z0-9]|[a-z0-9][a-z0-9.-]{3,60}\*)$`)
	keyPattern       = regexp.MustCompile(`^arn:aws[a-z-]*:kms:[a-z0-9-]+:[0-9]{12}:key/[A-Za-z0-9-]+$`)
	regionPattern    = regexp.MustCompile(`^[a-z]{2}(-[a-z]+)+-[0-9]$`)
)

// Validate returns an error that names the first flag with an invalid value.
func (c Config) Validate() error {
	switch {
	case !namePattern.MatchString(c.Name):
		// The longest name derived from it is a bucket's: <name>-work-<account>-<region>, at most 63 characters.
		return fmt.Errorf("-name: %q must be 3 to 20 lower-case letters, digits and dashes, and begin with a letter",
			c.Name)
	case c.Architecture != "arm64" && c.Architecture != "x86_64":
		return fmt.Errorf("-architecture: %q is neither arm64 nor x86_64", c.Architecture)
	case !slices.Contains(retentions, c.LogDays):
		return fmt.Errorf("-log-days: %d is not one of %v", c.LogDays, retentions)
	case c.PlannerMemory != 0 && (c.PlannerMemory < minMemory || c.PlannerMemory > maxMemory):
		return fmt.Errorf("-planner-memory: %d is not between %d and %d MiB", c.PlannerMemory, minMemory, maxMemory)
	case len(c.Regions) > 0 && (c.Account == "" || c.Region == ""):
		return errors.New("-regions needs -account and -region")
	case c.AgentsCall != 0 && (c.AgentsCall < time.Second || c.AgentsCall > 5*time.Minute):
		return fmt.Errorf("-agents-call: %v is not between 1s and 5m", c.AgentsCall)
	case c.LimitMachines < 0:
		return fmt.Errorf("-limit-machines: %d is below 0", c.LimitMachines)
	case !(c.LimitUSD >= 0) || math.IsInf(c.LimitUSD, 0):
		return fmt.Errorf("-limit-usd-per-hour: %v is not an amount", c.LimitUSD)
	case c.Webhook != "" && !strings.HasPrefix(c.Webhook, "https://"):
		return fmt.Errorf("-webhook: %q is not an https URL", c.Webhook)
	case c.MailFrom != "" && dag.CheckAddress(c.MailFrom) != nil:
		return fmt.Errorf("-mail-from: %q is not an e-mail address", c.MailFrom)
	case c.Traces != "" && !strings.HasPrefix(c.Traces, "https://"):
		return fmt.Errorf("-traces: %q is not an https URL", c.Traces)
	case c.TraceHeaders != "" && !parameterPattern.MatchString(c.TraceHeaders):
		return fmt.Errorf("-trace-headers: %q is not a parameter name such as /team/otlp", c.TraceHeaders)
	case c.TraceHeaders != "" && c.Traces == "":
		return errors.New("-trace-headers needs -traces")
	}
	for _, typ := range c.Announce {
		if _, ok := events.Routes()[typ]; !ok {
			return fmt.Errorf("-announce: unknown event type %q", typ)
		}
	}
	for _, b := range c.DataBuckets {
		if !bucketPattern.MatchString(b) {
			return fmt.Errorf("-data-buckets: %q is not a bucket name", b)
		}
	}
	for _, path := range c.Secrets {
		if !pathPattern.MatchString(path) {
			return fmt.Errorf("-secrets: %q is not a path such as /team/", path)
		}
		for _, own := range []string{"/" + c.Name + "/token-key", c.lambdaKey()} {
			if strings.HasPrefix(own, path) {
				return fmt.Errorf("-secrets: %q contains the deployment's own key", path)
			}
		}
	}
	for _, k := range c.KMSKeys { // IAM ignores aliases as resources
		if !keyPattern.MatchString(k) {
			return fmt.Errorf("-kms-keys: %q is not the ARN of a key, such as arn:aws:kms:REGION:ACCOUNT:key/ID", k)
		}
	}
	for _, b := range c.MakeBuckets {
		if !makePattern.MatchString(b) {
			return fmt.Errorf("-make-buckets: %q is neither a bucket name nor a prefix of at least four letters with a star", b)
		}
	}
	for _, r := range c.Regions {
		if !regionPattern.MatchString(r) || r == c.Region {
			return fmt.Errorf("-regions: %q is not an additional region", r)
		}
	}
	for i, s := range c.Services {
		if s != emr && s != emrServerless || slices.Contains(c.Services[:i], s) {
			return fmt.Errorf("-services: %q is not one of emr, emr-serverless, each once", s)
		}
	}
	for name, settings := range c.Clouds {
		if !slices.Contains([]string{"gcp", "azure", "lambda"}, name) {
			return fmt.Errorf("-cloud: %q is not one of gcp, azure, lambda", name)
		}
		if err := c.checkCloud(name, settings); err != nil {
			return fmt.Errorf("-cloud %s: %w", name, err)
		}
	}
	for _, fn := range c.functionNames() {
		if _, err := os.Stat(filepath.Join(c.code(fn), "bootstrap")); err != nil {
			return fmt.Errorf("-assets: %w (`make lambda` builds the functions)", err)
		}
	}
	if _, err := c.agentKeys(); err != nil {
		return fmt.Errorf("-assets: %w (`make agent` builds the agents)", err)
	}
	return nil
}

// checkCloud returns an error if the settings of a cloud are incomplete.
func (c Config) checkCloud(name, settings string) error {
	got, err := driver.ParseSettings(settings)
	if err != nil {
		return err
	}
	needed := map[string][]string{
		"gcp": {"project", "regions"}, "azure": {"subscription", "regions"}, "lambda": {"regions"},
	}[name]
	if name == "gcp" && !c.Unproven { // without it, machines cannot prove their identity
		needed = append(needed, "serviceAccount")
	}
	for _, n := range needed {
		if got[n] == "" {
			return fmt.Errorf("%s= is missing, as in -cloud %s:%s", n, name, strings.Join(needed, "=…,")+"=…")
		}
	}
	if names := got["secrets"]; names != "" {
		if name == "lambda" {
			return errors.New("secrets= is only for gcp and azure")
		}
		if err := secret.CheckNames(strings.Split(names, "+")); err != nil {
			return err
		}
	}
	if _, _, err := driver.DAGPlace(got["dags"]); err != nil {
		return err
	}
	if got["dags"] != "" && (name != "gcp" || got["pushAccount"] == "") {
		return errors.New("dags= is only for gcp and needs pushAccount=, the account with which Pub/Sub announces files to the API")
	}
	stores, err := driver.StoreURLs(name, got)
	if err != nil {
		return err
	}
	if got["services"] != "" && (name != "gcp" || len(stores) == 0 || got["sparkAccount"] == "") {
		return errors.New("services= is only for gcp and needs stores=, the buckets that they read and write, and " +
			"sparkAccount=, the account that they run as")
	}
	if len(stores) == 0 {
		return nil
	}
	for cloud, n := range map[string]string{"gcp": "impersonate", "azure": "storageAccount"} {
		if name == cloud && got[n] == "" {
			return fmt.Errorf("stores= needs %s=, which signs requests for its buckets", n)
		}
	}
	return nil
}

// code is the folder of a function's binary.
func (c Config) code(fn string) string { return filepath.Join(c.Assets, "lambda", fn) }

// agentArchs are the architectures of machines that the broker may buy. Both are needed, because either can be the
// cheapest.
func agentArchs() []string { return []string{"amd64", "arm64"} }

// agentKeys are the keys of the agent's binaries in the work bucket, by architecture. They contain the binary's digest,
// which machines check.
func (c Config) agentKeys() (map[string]string, error) {
	keys := map[string]string{}
	for _, arch := range agentArchs() {
		digest, err := digestOf(filepath.Join(c.Assets, "agent", arch, "tradewind-agent"))
		if err != nil {
			return nil, err
		}
		keys[arch] = prefixAgent + digest + "/tradewind-agent"
	}
	return keys, nil
}

func digestOf(path string) (string, error) {
	f, err := os.Open(path) //nolint:gosec // of the folder that the deployer names
	if err != nil {
		return "", err
	}
	defer f.Close() //nolint:errcheck // only read
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// named is the name of a part of the deployment.
func (c Config) named(part string) string { return c.Name + "-" + part }
