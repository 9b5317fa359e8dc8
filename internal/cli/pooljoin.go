package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tradewind-broker/tradewind/internal/agent/pool"
	"github.com/tradewind-broker/tradewind/internal/agent/proc"
	"github.com/tradewind-broker/tradewind/internal/agent/token"
	"github.com/tradewind-broker/tradewind/internal/agent/wire"
	"github.com/tradewind-broker/tradewind/internal/catalog/accel"
	"github.com/tradewind-broker/tradewind/internal/cli/command"
	"github.com/tradewind-broker/tradewind/internal/cli/text"
)

// joinFlags describe the joining machine.
type joinFlags struct {
	state, name, kind, gpu string
	cpus, memory           float64
	labels                 map[string]string
	tokenFile, dir         string
	output                 *command.Choice
}

func (a *app) poolJoinCommand() *cobra.Command {
	var f joinFlags
	c := &cobra.Command{
		Use:   "join POOL",
		Short: "Lend this machine to a pool until stopped",
		Long: "Lends this machine to a pool. The machine offers its processors, memory and GPUs (those that\n" +
			"nvidia-smi lists), and runs the tasks that the broker places on it. Tasks run as the user who runs\n" +
			"this command, and are not isolated from each other. On Ctrl-C the machine leaves the pool: its tasks\n" +
			"save their work and resume elsewhere. A second Ctrl-C kills them at once. If this command was killed,\n" +
			"start it again with the same folder: it finds the tasks that still run.\n" +
			"\n" +
			"On the computer of the broker you need no flags. On any other machine, name the broker with\n" +
			"--endpoint, and the join token that `tradewind pool add` wrote with --token-file. A machine needs this\n" +
			"token only the first time.",
		Example: "  tradewind pool join lab\n  tradewind pool join lab --name m1 --cpus 8 --memory 30 --label arch=arm64\n" +
			"  tradewind pool join lab --gpu V100:2 --type dgx\n" +
			"  tradewind pool join lab --endpoint https://abc.execute-api.us-east-1.amazonaws.com --token-file " +
			"lab.token",
		Args:              command.Args(1, 1),
		ValidArgsFunction: a.completePool(&f.state, false),
	}
	a.brokerFlags(c, &f.state)
	fs := c.Flags()
	fs.StringVar(&f.name, "name", "", "name of the machine in the pool (default: this computer's name)")
	fs.StringVar(&f.kind, "type", "", "instance type with which tasks can ask for this machine (default: machine)")
	fs.Float64Var(&f.cpus, "cpus", 0, "vCPUs for tasks (default: all)")
	fs.Float64Var(&f.memory, "memory", 0, "memory for tasks, `GIB` (default: all)")
	fs.StringVar(&f.gpu, "gpu", "",
		"accelerators for tasks, such as V100:2, or none (default: all that nvidia-smi lists)")
	fs.StringToStringVar(&f.labels, "label", nil, "label `NAME=VALUE` of the machine; the label arch is set "+
		"automatically")
	fs.StringVar(&f.tokenFile, "token-file", "", "`FILE` with the join token; - is standard input")
	_ = c.MarkFlagFilename("token-file")
	fs.StringVar(&f.dir, "dir", "", "folder for the tasks (default: in the state folder)")
	_ = c.MarkFlagDirname("dir")
	f.output = command.OutputFlag(c)
	c.RunE = func(c *cobra.Command, given []string) error { return a.joinPool(c, given[0], &f) }
	return c
}

// PoolJoined is the output of `pool join -o json`, printed when the machine is in its pool.
type PoolJoined struct {
	Pool     string            `json:"pool"`
	Machine  string            `json:"machine"`
	Type     string            `json:"type,omitempty"`
	Endpoint string            `json:"endpoint"`
	Dir      string            `json:"dir"` // folder of its tasks
	PID      int               `json:"pid"`
	Capacity wire.PoolCapacity `json:"capacity"`
	Labels   map[string]string `json:"labels,omitempty"`
}

func (a *app) joinPool(c *cobra.Command, name string, f *joinFlags) error {
	if err := proc.Supported(); err != nil {
		return err
	}
	ctx, cancel := a.Stop.Context(c.Context())
	defer cancel()
	cfg, err := a.machineConfig(ctx, c, name, f)
	if err != nil {
		return err
	}
	cfg.OnEvent = func(e pool.Event) { a.printPoolEvent(&cfg, f.output, e) }
	m, err := pool.Open(cfg)
	if err != nil {
		return explainJoin(&cfg, err)
	}
	a.Stop.OnLeave(func() {
		ctx, cancel := context.WithTimeout(context.Background(), killWithin)
		defer cancel()
		_ = m.Kill(ctx) // the next process on this folder ends the rest
	})
	err = m.Run(ctx)
	return errors.Join(explainJoin(&cfg, err), m.Close())
}

// killWithin is how long a second interrupt waits for the running tasks to end.
const killWithin = 20 * time.Second

// machineConfig returns the machine's configuration from its flags.
func (a *app) machineConfig(ctx context.Context, c *cobra.Command, name string,
	f *joinFlags) (cfg pool.Config, err error) {
	cfg = pool.Config{Pool: name, Name: f.name, Type: f.kind, Labels: map[string]string{"arch": runtime.GOARCH},
		Command: a.Agent(ctx), Environ: a.Environ, Log: a.logger(slog.LevelError)}
	for k, v := range f.labels {
		cfg.Labels[k] = v
	}
	if cfg.Name == "" {
		if cfg.Name, err = hostName(); err != nil {
			return cfg, err
		}
	}
	if !machineName.MatchString(cfg.Name) {
		return cfg, command.BadInput("use up to 63 letters, digits, and (not first) . _ and -",
			"--name: invalid machine name %q", cfg.Name)
	}
	if cfg.Capacity, err = a.capacity(ctx, c, f); err != nil {
		return cfg, err
	}
	where, err := a.joinTarget(ctx, &cfg, f)
	if err != nil {
		return cfg, err
	}
	cfg.Dir = cmp.Or(f.dir, filepath.Join(absolute(f.state), "pools", name, where, cfg.Name))
	return cfg, nil
}

// machineName matches valid machine names.
var machineName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$`)

// hostName returns this computer's name without its domain and without characters that machine names cannot have.
func hostName() (string, error) {
	full, err := os.Hostname()
	short, _, _ := strings.Cut(full, ".")
	short = strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_' {
			return r
		}
		return -1
	}, short)
	if short = strings.TrimLeft(short, "-_"); err != nil || short == "" {
		return "", command.BadInput("name it with --name", "this computer has no name that is a valid machine name")
	}
	return short[:min(len(short), 63)], nil
}

// capacity returns the capacity for tasks: that of this computer, unless flags override it.
func (a *app) capacity(ctx context.Context, c *cobra.Command, f *joinFlags) (wire.PoolCapacity, error) {
	computer := pool.ThisComputer()
	set := c.Flags().Changed
	if set("gpu") {
		computer.SMI = ""
	}
	found, err := computer.Take(ctx)
	if err != nil {
		return wire.PoolCapacity{},
			command.Because(err, command.ExitFailed,
				"--gpu sets it without detection, as in --gpu V100:2 or --gpu none", "%v", err)
	}
	a.Warn(found.Notes)
	has := wire.PoolCapacity{CPUs: found.CPUs, MemoryGiB: found.MemoryGiB, Accelerator: found.Accelerator,
		Accelerators: float64(found.Accelerators)}
	if set("cpus") {
		has.CPUs = f.cpus
	}
	if set("memory") {
		has.MemoryGiB = f.memory
	}
	if set("gpu") && f.gpu != "none" && f.gpu != "" {
		spec, err := accel.Parse(f.gpu)
		if err != nil {
			return has, command.BadInput("as in --gpu V100:2", "--gpu: %v", err)
		}
		has.Accelerator, has.Accelerators = spec.Name, spec.Count
	}
	switch {
	case !(has.CPUs > 0):
		return has, command.BadInput("", "--cpus %s must be above 0", text.Number(has.CPUs))
	case !(has.MemoryGiB > 0):
		return has, command.BadInput("set it with --memory",
			"the memory for tasks is 0 or cannot be detected")
	}
	return has, nil
}

// joinTarget finds the broker and the token source, and returns the name of the subfolder of the pool's folder for
// machines of that broker.
func (a *app) joinTarget(ctx context.Context, cfg *pool.Config, f *joinFlags) (string, error) {
	if f.tokenFile != "" {
		cfg.JoinToken = func(context.Context) (string, error) { return a.readJoinToken(f.tokenFile, cfg.Pool) }
	}
	s, err := a.remote(ctx)
	if err != nil {
		var known *command.Failure
		if f.tokenFile == "" || a.endpoint == "" || errors.As(err, &known) && known.Code == command.ExitBadInput {
			return "", err
		}
		s = nil // with a token, no user credentials are needed
	}
	switch {
	case s != nil:
		cfg.Endpoint = s.running.URL
	case err != nil: // use the endpoint without credentials
		if cfg.Endpoint, _, err = readEndpoint(a.endpoint, ""); err != nil {
			return "", err
		}
	default:
		if s, err = a.running(ctx, f.state, "place tasks on this machine"); err != nil {
			return "", err
		}
		cfg.Endpoint, cfg.Broker = s.running.URL, s.state
	}
	if cfg.JoinToken == nil {
		cfg.JoinToken = func(ctx context.Context) (string, error) {
			token, err := s.Invite(ctx, cfg.Pool)
			if err != nil {
				return "", err
			}
			return token.Token, nil
		}
	}
	if cfg.Broker != "" {
		return "machines", nil
	}
	u, err := url.Parse(cfg.Endpoint)
	if err != nil {
		return "", err
	}
	return "machines-" + strings.NewReplacer(":", "-", "[", "", "]", "").Replace(u.Host), nil
}

const maxTokenBytes = 16 << 10

// readJoinToken reads a join token from a file.
func (a *app) readJoinToken(file, pool string) (string, error) {
	from := a.In
	if file != "-" {
		f, err := os.Open(file) //nolint:gosec // the user names the file
		if err != nil {
			return "", command.Because(
				err,
				command.ExitBadInput,
				"`tradewind pool add` writes it on the broker's computer",
				"the join token: %v",
				err,
			)
		}
		defer f.Close() //nolint:errcheck // only read
		from = f
	}
	b, err := io.ReadAll(io.LimitReader(from, maxTokenBytes))
	if err != nil {
		return "", err
	}
	secret := strings.TrimSpace(string(b))
	claims, err := token.ReadPool(secret)
	switch {
	case err != nil || claims.Machine != "":
		return "", command.BadInput("`tradewind pool add "+pool+"` writes one", "%s contains no join token", file)
	case claims.Pool != pool:
		return "", command.BadInput("`tradewind pool add "+pool+"` writes one", "the token in %s is for pool %s", file,
			text.Clean(claims.Pool))
	}
	return secret, nil
}

// printPoolEvent prints the machine's events for a person, and the joined machine on standard output.
func (a *app) printPoolEvent(cfg *pool.Config, output *command.Choice, e pool.Event) {
	what := func(e pool.Event) string { return cmp.Or(e.Cluster, "an agent") }
	switch e.Kind {
	case pool.Joined:
		a.announceMachine(cfg, output)
	case pool.AgentStarted:
		a.Tell("running %s: %s", what(e), amounts(e.Hold))
	case pool.AgentEnded:
		a.Tell("ended %s", what(e))
	case pool.AgentFailed:
		a.Tell("%s: %v", what(e), e.Err)
	case pool.Draining:
		a.Tell("draining: no new tasks are placed here")
	case pool.Resumed:
		a.Tell("accepting tasks again")
	case pool.Unreachable:
		a.Tell("the broker does not answer; running tasks continue: %v", text.Clean(e.Err.Error()))
	case pool.Reached:
		a.Tell("the broker answers again")
	case pool.Leaving:
		wait := ""
		if e.Running > 0 {
			wait = ": saving " + text.Count(e.Running, "task") + " first; interrupt again to leave at once"
		}
		a.Tell("leaving pool %s%s", cfg.Pool, wait)
	}
}

func (a *app) announceMachine(cfg *pool.Config, output *command.Choice) {
	if output.JSON() {
		_ = a.PrintJSON(PoolJoined{
			Pool: cfg.Pool, Machine: cfg.Name, Type: cfg.Type, Endpoint: cfg.Endpoint, Dir: absolute(cfg.Dir),
			PID: os.Getpid(), Capacity: cfg.Capacity, Labels: cfg.Labels,
		}) // the machine works even if no one reads the output
		return
	}
	style := a.Style(a.Out)
	t := text.Table{Bare: true, Columns: []text.Column{{}, {}}}
	for _, row := range [][2]string{
		{"machine", cfg.Pool + "/" + cfg.Name}, {"has", amounts(cfg.Capacity)}, {"folder", absolute(cfg.Dir)},
		{"leave", "Ctrl-C"},
	} {
		t.Rows = append(t.Rows, []text.Cell{{Text: row[0], Tone: text.Faint}, {Text: row[1]}})
	}
	_ = a.PrintLines(t.Lines(0, style))
}

// amounts renders the capacity of a machine, or the part of it that a task holds.
func amounts(c wire.PoolCapacity) string {
	s := fmt.Sprintf("%s vCPU, %s GiB", text.Tenth(c.CPUs), text.Tenth(c.MemoryGiB))
	if c.Accelerators > 0 {
		s += ", " + text.Tenth(c.Accelerators) + " " + text.Clean(c.Accelerator)
	}
	return s
}

// explainJoin adds a hint to an error that kept the machine out of its pool.
func explainJoin(cfg *pool.Config, err error) error {
	add := "`tradewind pool add " + cfg.Pool + "` on the broker's computer writes a new token"
	switch {
	case err == nil:
		return nil
	case errors.Is(err, pool.ErrInUse):
		return command.Because(err, command.ExitBadInput, "use another --name to join as another machine",
			"another process on this computer already runs %s/%s", cfg.Pool, cfg.Name)
	case errors.Is(err, pool.ErrRefused):
		return command.Because(err, command.ExitFailed, add, "%v", err)
	case errors.Is(err, pool.ErrTaken):
		return command.Because(err, command.ExitBadInput, "use another --name to join as another machine", "%v", err)
	case errors.Is(err, pool.ErrRemoved):
		return command.Because(err, command.ExitFailed, "`tradewind pool join "+cfg.Pool+"` joins again", "%v", err)
	case errors.Is(err, pool.ErrReport):
		return command.Because(err, command.ExitBadInput, "", "%v", err)
	}
	return err
}
