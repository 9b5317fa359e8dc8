// Package stack is Tradewind's deployment on AWS as CDK constructs: one table, one
// event bus, a queue with its dead-letter queue and a function for each function
// of the broker, two buckets, an HTTP API, schedules, and what watches them.
//
// Which function there is, is not written down here: queues follow
// events.Functions, so that a new function is deployed by being declared.
// Roles are written out statement by statement (permissions.go)
// rather than granted by the CDK's helpers, whose grants are wider than what the
// adapters call.
package stack

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/internal/secret"
	"github.com/tradewind-broker/tradewind/pkg/cloud/driver"
)

// Config is what a deployment can be told.
type Config struct {
	Name         string // prefix of everything
	Architecture string // of the functions: arm64 or x86_64
	Assets       string // folder with lambda/<function>/bootstrap and agent/<arch>/tradewind-agent
	Out          string // folder of the cloud assembly
	KeepData     bool   // the table and the buckets outlive the stack
	Alarms       bool
	LogDays      int      // one of the retentions that CloudWatch knows
	DataBuckets  []string // that tasks may read and write besides their own
	// Secrets are paths, such as /team/, below which jobs may refer to parameters and secrets, besides /NAME/secrets/.
	Secrets []string
	// MakeBuckets are names, or beginnings of names that end in a star, of buckets that are made when jobs ask for them.
	// They are data buckets, too.
	MakeBuckets []string
	// Regions are further ones in which machines are bought: EventBridge tells of an interruption in the machine's own
	// region only. Account and Region say where this deployment is, for them.
	Regions         []string
	Account, Region string
	// Clouds are those beside AWS to buy on, each with its settings as driver.ParseSettings reads them.
	Clouds  map[string]string
	Webhook string // https URL for news; none when empty
	Traces  string // https URL of a collector of OpenTelemetry, by OTLP; none when empty
	// TraceHeaders is the SSM parameter with the headers that it wants, NAME=VALUE by comma; none when empty.
	TraceHeaders string
	Announce     []string // types of events that are put on the event bus for others
	Unproven     bool     // machines need not prove which one they are
	Policy       bool     // sessions follow policyKey of the work bucket
	// AgentsCall is how often agents that work call, 1s to 5m; 0 is 5m.
	AgentsCall time.Duration
}

// Default is the configuration without any flag.
func Default() Config {
	return Config{Name: "tradewind", Architecture: "arm64", Assets: "../dist", Out: "cdk.out", KeepData: true,
		Alarms: true, LogDays: 30, Announce: events.Announced()}
}

// retentions are the spans that CloudWatch Logs keeps logs for, days.
var retentions = []int{1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731}

var (
	namePattern      = regexp.MustCompile(`^[a-z][a-z0-9-]{1,18}[a-z0-9]$`)
	bucketPattern    = regexp.MustCompile(`^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$`)
	pathPattern      = regexp.MustCompile(`^(/[A-Za-z0-9_.-]+)+/$`)
	parameterPattern = regexp.MustCompile(`^(/[A-Za-z0-9_.-]+)+$`)
	makePattern      = regexp.MustCompile(`^([a-z0-9][a-z0-9.-]{1,61}[a-z0-9]|[a-z0-9][a-z0-9.-]{3,60}\*)$`)
	regionPattern    = regexp.MustCompile(`^[a-z]{2}(-[a-z]+)+-[0-9]$`)
)

// Validate says what of the configuration cannot be deployed.
func (c Config) Validate() error {
	switch {
	case !namePattern.MatchString(c.Name):
		// The longest name made of it is a bucket's: <name>-work-<account>-<region>, 63 characters at most.
		return fmt.Errorf("-name: %q has to be 3 to 20 lower-case letters, digits and dashes, and begin with a letter",
			c.Name)
	case c.Architecture != "arm64" && c.Architecture != "x86_64":
		return fmt.Errorf("-architecture: %q is neither arm64 nor x86_64", c.Architecture)
	case !slices.Contains(retentions, c.LogDays):
		return fmt.Errorf("-log-days: %d is not one of %v", c.LogDays, retentions)
	case len(c.Regions) > 0 && (c.Account == "" || c.Region == ""):
		return errors.New("-regions needs -account and -region")
	case c.AgentsCall != 0 && (c.AgentsCall < time.Second || c.AgentsCall > 5*time.Minute):
		return fmt.Errorf("-agents-call: %v is not between 1s and 5m", c.AgentsCall)
	case c.Webhook != "" && !strings.HasPrefix(c.Webhook, "https://"):
		return fmt.Errorf("-webhook: %q is no https URL", c.Webhook)
	case c.Traces != "" && !strings.HasPrefix(c.Traces, "https://"):
		return fmt.Errorf("-traces: %q is no https URL", c.Traces)
	case c.TraceHeaders != "" && !parameterPattern.MatchString(c.TraceHeaders):
		return fmt.Errorf("-trace-headers: %q is no parameter such as /team/otlp", c.TraceHeaders)
	case c.TraceHeaders != "" && c.Traces == "":
		return errors.New("-trace-headers needs -traces")
	}
	for _, typ := range c.Announce {
		if _, ok := events.Routes()[typ]; !ok {
			return fmt.Errorf("-announce: there is no type of event %q", typ)
		}
	}
	for _, b := range c.DataBuckets {
		if !bucketPattern.MatchString(b) {
			return fmt.Errorf("-data-buckets: %q is no name of a bucket", b)
		}
	}
	for _, path := range c.Secrets {
		if !pathPattern.MatchString(path) {
			return fmt.Errorf("-secrets: %q is no path such as /team/", path)
		}
		for _, own := range []string{"/" + c.Name + "/token-key", c.lambdaKey()} {
			if strings.HasPrefix(own, path) {
				return fmt.Errorf("-secrets: %q has the deployment's own key below it", path)
			}
		}
	}
	for _, b := range c.MakeBuckets {
		if !makePattern.MatchString(b) {
			return fmt.Errorf("-make-buckets: %q is no name of a bucket, nor four letters or more of one and a star", b)
		}
	}
	for _, r := range c.Regions {
		if !regionPattern.MatchString(r) || r == c.Region {
			return fmt.Errorf("-regions: %q is no other region", r)
		}
	}
	for name, settings := range c.Clouds {
		if !slices.Contains([]string{"gcp", "azure", "lambda"}, name) {
			return fmt.Errorf("-cloud: %q is none of gcp, azure, lambda", name)
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

// checkCloud says what the settings of a cloud lack.
func (c Config) checkCloud(name, settings string) error {
	got, err := driver.ParseSettings(settings)
	if err != nil {
		return err
	}
	needed := map[string][]string{
		"gcp": {"project", "regions"}, "azure": {"subscription", "regions"}, "lambda": {"regions"},
	}[name]
	if name == "gcp" && !c.Unproven { // without one its machines have nothing to prove themselves with
		needed = append(needed, "serviceAccount")
	}
	for _, n := range needed {
		if got[n] == "" {
			return fmt.Errorf("%s= is missing, as in -cloud %s:%s", n, name, strings.Join(needed, "=…,")+"=…")
		}
	}
	if names := got["secrets"]; names != "" {
		if name == "lambda" {
			return errors.New("secrets= is of gcp and azure")
		}
		if err := secret.CheckNames(strings.Split(names, "+")); err != nil {
			return err
		}
	}
	if _, _, err := driver.DAGPlace(got["dags"]); err != nil {
		return err
	}
	if got["dags"] != "" && (name != "gcp" || got["pushAccount"] == "") {
		return errors.New("dags= is of gcp and needs pushAccount=, as which Pub/Sub tells the API of files")
	}
	stores, err := driver.StoreURLs(name, got)
	if err != nil || len(stores) == 0 {
		return err
	}
	for cloud, n := range map[string]string{"gcp": "impersonate", "azure": "storageAccount"} {
		if name == cloud && got[n] == "" {
			return fmt.Errorf("stores= needs %s=, by which its buckets are signed for", n)
		}
	}
	return nil
}

// code is the folder of a function's binary.
func (c Config) code(fn string) string { return filepath.Join(c.Assets, "lambda", fn) }

// agentArchs are the architectures of the machines that may be bought. All are needed: what is cheapest may be of
// either.
func agentArchs() []string { return []string{"amd64", "arm64"} }

// agentKeys are where the agent's binaries lie in the work bucket, by architecture: in their names is their digest,
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
