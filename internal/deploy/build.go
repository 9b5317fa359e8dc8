package deploy

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// Settings of a deployment; infra/ checks them. Zero values are infra's defaults.
type Settings struct {
	Name         string // prefix of everything
	Architecture string // of the functions: arm64 or x86_64
	DropData     bool   // deleting the stack deletes the table and the buckets
	NoAlarms     bool
	AllAlarms    bool // also those that cost money
	LogDays      int
	// PlannerMemory is the memory of the function that plans, in MiB.
	PlannerMemory int
	DataBuckets   []string      // that tasks may read, write and mount in addition to their own
	MakeBuckets   []string      // that jobs may create; a name may end in a star
	Secrets       []string      // paths below which jobs may refer to secrets, in addition to /NAME/secrets/
	KMSKeys       []string      // ARNs of the customer keys that encrypt volumes, data buckets and secrets
	Regions       []string      // additional regions in which to buy machines
	Clouds        []string      // additional clouds on which to buy: NAME:SETTINGS, as for driver.ParseSettings
	Services      []string      // managed services of AWS that run Spark tasks
	Announce      []string      // event types to put on the event bus; nil for the default of infra/
	Webhook       string        // https URL for news
	MailFrom      string        // sender of e-mail, verified in SES
	Traces        string        // https URL of an OpenTelemetry collector
	TraceHeaders  string        // SSM parameter with its headers
	Unproven      bool          // machines need not prove their identity
	Keep          string        // how long finished jobs are kept, as in a job file; empty is forever
	LimitMachines int           // bought machines at the same time; 0 is no limit
	LimitUSD      float64       // limit of the cost of machines, in USD an hour; 0 means none
	AgentsCall    time.Duration // how often working agents call, 1s to 5m
	Policy        bool          // sessions use the policy that PutPolicy writes
	// Account and Region say where it is deployed; required with Regions.
	Account, Region string
}

// Errors of Build.
var (
	ErrNoSource = errors.New("deploy: not in a clone of Tradewind's repository")
	ErrNoTool   = errors.New("deploy: a tool is missing")
	ErrBuild    = errors.New("deploy: the build failed")
)

// module is the line by which a clone of the repository is recognised.
const module = "module github.com/tradewind-broker/tradewind\n"

// FindSource returns the clone of the repository that contains a folder, or ErrNoSource.
func FindSource(dir string) (string, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	for at := dir; ; at = filepath.Dir(at) {
		raw, err := os.ReadFile(filepath.Join(at, "go.mod")) //nolint:gosec // only its first line is read
		if err == nil && bytes.HasPrefix(raw, []byte(module)) {
			if _, err := os.Stat(filepath.Join(at, "infra", "main.go")); err == nil {
				return at, nil
			}
		}
		if filepath.Dir(at) == at {
			return "", fmt.Errorf("%w: %s", ErrNoSource, dir)
		}
	}
}

// Builder builds a deployment from a clone of the repository. It runs go and, through the CDK, node.
type Builder struct {
	Source  string
	Version string    // version of the agents
	Log     io.Writer // output of the tools; discarded when nil
	// Progress is called for each step; may be nil.
	Progress func(Step)
}

// Assets returns the folder of the built binaries.
func (b *Builder) Assets() string { return filepath.Join(b.Source, "dist") }

// Build builds the functions and the agents, synthesises the template, and returns the assembly. It returns ErrNoTool,
// ErrBuild with the output of the tool, or ErrAssembly.
func (b *Builder) Build(ctx context.Context, s Settings) (*Assembly, error) {
	for _, tool := range []string{"go", "node"} {
		if _, err := exec.LookPath(tool); err != nil {
			return nil, fmt.Errorf("%w: %s", ErrNoTool, tool)
		}
	}
	arch := "arm64"
	if s.Architecture == "x86_64" {
		arch = "amd64"
	}
	dist, out := b.Assets(), filepath.Join(b.Source, "infra", "cdk.out")
	lambdas := []string{
		"go",
		"run",
		"./internal/lambdabuild/build-functions",
		"-arch",
		arch,
		"-out",
		filepath.Join(dist, "lambda"),
	}
	if err := b.run(ctx, "functions", b.Source, nil, lambdas...); err != nil {
		return nil, err
	}
	for _, arch := range Archs() {
		binary := filepath.Join(dist, "agent", arch, "tradewind-agent")
		env := []string{"GOOS=linux", "GOARCH=" + arch, "CGO_ENABLED=0"}
		if err := b.run(ctx, "agent for "+arch, b.Source, env, "go", "build", "-trimpath", "-ldflags",
			"-s -w -X main.version="+b.Version, "-o", binary, "./cmd/tradewind-agent"); err != nil {
			return nil, err
		}
	}
	if err := b.rclone(ctx, s); err != nil {
		return nil, err
	}
	// Remove earlier templates, which would be deployed as well.
	if err := os.RemoveAll(out); err != nil {
		return nil, err
	}
	quiet := []string{"JSII_SILENCE_WARNING_END_OF_LIFE_NODE_VERSION=1", "JSII_SILENCE_WARNING_UNTESTED_NODE_VERSION=1"}
	synth := append([]string{"go", "run", ".", "-assets", dist, "-out", out}, s.flags()...)
	if err := b.run(ctx, "template", filepath.Join(b.Source, "infra"), quiet, synth...); err != nil {
		return nil, err
	}
	return ReadAssembly(out)
}

// rclone builds the mount program, if the deployment has anything to mount.
func (b *Builder) rclone(ctx context.Context, s Settings) error {
	for _, arch := range Archs() {
		binary := filepath.Join(b.Assets(), "agent", arch, "rclone")
		if len(s.DataBuckets)+len(s.MakeBuckets) == 0 {
			if err := os.RemoveAll(binary); err != nil { // from a deployment with mounts
				return err
			}
			continue
		}
		if err := b.run(ctx, "rclone for "+arch, b.Source, nil, filepath.Join(b.Source, "scripts", "rclone.sh"), arch,
			binary); err != nil {
			return err
		}
	}
	return nil
}

// flags returns the arguments of infra's command.
func (s Settings) flags() []string {
	var out []string
	for _, f := range []struct{ name, value string }{
		{"name", s.Name}, {"architecture", s.Architecture}, {"data-buckets", strings.Join(s.DataBuckets, ",")},
		{"make-buckets", strings.Join(s.MakeBuckets, ",")}, {"secrets", strings.Join(s.Secrets, ",")},
		{"kms-keys", strings.Join(s.KMSKeys, ",")}, {"services", strings.Join(s.Services, ",")},
		{"regions", strings.Join(s.Regions, ",")}, {"webhook", s.Webhook}, {"mail-from", s.MailFrom},
		{"traces", s.Traces}, {"trace-headers", s.TraceHeaders},
		{"announce", strings.Join(s.Announce, ",")}, {"account", s.Account}, {"region", s.Region},
	} {
		if f.value != "" {
			out = append(out, "-"+f.name+"="+f.value)
		}
	}
	for _, cloud := range s.Clouds {
		out = append(out, "-cloud="+cloud)
	}
	if s.LogDays != 0 {
		out = append(out, "-log-days="+strconv.Itoa(s.LogDays))
	}
	if s.PlannerMemory != 0 {
		out = append(out, "-planner-memory="+strconv.Itoa(s.PlannerMemory))
	}
	if s.Keep != "" {
		out = append(out, "-keep="+s.Keep)
	}
	if s.LimitMachines != 0 {
		out = append(out, "-limit-machines="+strconv.Itoa(s.LimitMachines))
	}
	if s.LimitUSD != 0 {
		out = append(out, "-limit-usd-per-hour="+strconv.FormatFloat(s.LimitUSD, 'g', -1, 64))
	}
	if s.AgentsCall != 0 {
		out = append(out, "-agents-call="+s.AgentsCall.String())
	}
	if s.Policy {
		out = append(out, "-policy")
	}
	if s.Unproven {
		out = append(out, "-unproven-machines")
	}
	if s.DropData {
		out = append(out, "-keep-data=false")
	}
	if s.NoAlarms {
		out = append(out, "-alarms=false")
	}
	if s.AllAlarms {
		out = append(out, "-all-alarms")
	}
	return out
}

// maxQuotedOutput is the number of bytes of a failed tool's output that an error includes.
const maxQuotedOutput = 2000

func (b *Builder) run(ctx context.Context, what, dir string, env []string, command ...string) error {
	var said bytes.Buffer
	c := exec.CommandContext(ctx, command[0], command[1:]...) //nolint:gosec // go, with fixed arguments
	c.Dir, c.Env = dir, append(os.Environ(), env...)
	c.Stdout, c.Stderr = &said, &said
	if b.Log != nil {
		w := io.MultiWriter(&said, b.Log)
		c.Stdout, c.Stderr = w, w
	}
	c.WaitDelay = 5 * time.Second
	began := time.Now()
	if err := c.Run(); err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		text := strings.TrimSpace(said.String())
		return fmt.Errorf("%w: %s: %w\n%s", ErrBuild, what, err, text[max(0, len(text)-maxQuotedOutput):])
	}
	if b.Progress != nil {
		b.Progress(Step{At: began, What: "build", Name: what, Status: "done"})
	}
	return nil
}
