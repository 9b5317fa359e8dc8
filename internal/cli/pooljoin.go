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
	"github.com/tradewind-broker/tradewind/internal/cli/command"
	"github.com/tradewind-broker/tradewind/internal/cli/text"
	"github.com/tradewind-broker/tradewind/pkg/catalog/accel"
)

// joinFlags are what a machine says of itself.
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
		Use: "join POOL", Short: "Lend this machine to a pool until stopped",
		Long: "Lends this machine to a pool: it is told of with its processors, memory and GPUs (as nvidia-smi lists them),\n" +
			"and runs the tasks that the broker places on it, as the user who runs this command and without a fence between\n" +
			"them. Ctrl-C has them save their work, which goes on elsewhere, and takes the machine out of the pool; a\n" +
			"second one ends them at once. Started again on the same folder after it was killed, it finds what still runs.\n" +
			"\n" +
			"On the broker's own computer nothing else is needed. Elsewhere --endpoint names the broker and --token-file\n" +
			"the token that `tradewind pool add` wrote; it is needed once.",
		Example: "  tradewind pool join lab\n  tradewind pool join lab --name m1 --cpus 8 --memory 30 --label arch=arm64\n" +
			"  tradewind pool join lab --gpu V100:2 --type dgx\n" +
			"  tradewind pool join lab --endpoint https://abc.execute-api.us-east-1.amazonaws.com --token-file " +
			"lab.token",
		Args: command.Args(1, 1), ValidArgsFunction: a.completePool(&f.state, false),
	}
	a.brokerFlags(c, &f.state)
	fs := c.Flags()
	fs.StringVar(&f.name, "name", "", "the machine's name in the pool (default: this computer's)")
	fs.StringVar(&f.kind, "type", "", "what tasks may ask for as its instance type (default: machine)")
	fs.Float64Var(&f.cpus, "cpus", 0, "vCPUs for tasks (default: all)")
	fs.Float64Var(&f.memory, "memory", 0, "memory for tasks, `GIB` (default: all)")
	fs.StringVar(&f.gpu, "gpu", "",
		"accelerators for tasks, with their number: V100:2; none (default: all that nvidia-smi lists)")
	fs.StringToStringVar(&f.labels, "label", nil, "what else is to be known of it, `NAME=VALUE`; arch is known")
	fs.StringVar(&f.tokenFile, "token-file", "", "`FILE` with the token to join with; - is standard input")
	_ = c.MarkFlagFilename("token-file")
	fs.StringVar(&f.dir, "dir", "", "folder of what runs here (default: in the state folder)")
	_ = c.MarkFlagDirname("dir")
	f.output = command.OutputFlag(c)
	c.RunE = func(c *cobra.Command, given []string) error { return a.joinPool(c, given[0], &f) }
	return c
}

// PoolJoined is what `pool join -o json` prints when the machine is in its pool.
type PoolJoined struct {
	Pool     string            `json:"pool"`
	Machine  string            `json:"machine"`
	Type     string            `json:"type,omitempty"`
	Endpoint string            `json:"endpoint"`
	Dir      string            `json:"dir"` // of what runs there
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
	cfg.Tell = func(e pool.Event) { a.tellMachine(&cfg, f.output, e) }
	m, err := pool.Open(cfg)
	if err != nil {
		return explainJoin(&cfg, err)
	}
	a.Stop.OnLeave(func() {
		ctx, cancel := context.WithTimeout(context.Background(), killWithin)
		defer cancel()
		_ = m.Kill(ctx) // what it cannot end the next one on the folder does
	})
	err = m.Run(ctx)
	return errors.Join(explainJoin(&cfg, err), m.Close())
}

// killWithin is how long a second interrupt waits for what runs.
const killWithin = 20 * time.Second

// machineConfig says what the machine is and where it joins.
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
		return cfg, command.BadInput("it has up to 63 letters, digits, and after the first also . _ and -",
			"--name: %q is no name of a machine", cfg.Name)
	}
	if cfg.Capacity, err = a.capacity(ctx, c, f); err != nil {
		return cfg, err
	}
	where, err := a.joinWhere(ctx, &cfg, f)
	if err != nil {
		return cfg, err
	}
	cfg.Dir = cmp.Or(f.dir, filepath.Join(absolute(f.state), "pools", name, where, cfg.Name))
	return cfg, nil
}

// machineName is what machines can be called.
var machineName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$`)

// hostName is this computer's name, without its domain, as far as a machine may be called so.
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
		return "", command.BadInput("--name names it", "this computer has no name that a machine can have")
	}
	return short[:min(len(short), 63)], nil
}

// capacity is what there is for tasks, as far as no flag says otherwise.
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
				"--gpu says what there is without asking, as in --gpu V100:2 or --gpu none", "%v", err)
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
		return has, command.BadInput("", "--cpus %s is not above 0", text.Number(has.CPUs))
	case !(has.MemoryGiB > 0):
		return has, command.BadInput("--memory says how much",
			"it has no memory for tasks, or how much cannot be found out")
	}
	return has, nil
}

// joinWhere finds the broker and what there is to join with, and returns the folder below the pool's where machines of
// that broker are kept.
func (a *app) joinWhere(ctx context.Context, cfg *pool.Config, f *joinFlags) (string, error) {
	if f.tokenFile != "" {
		cfg.Invite = func(context.Context) (string, error) { return a.readJoinToken(f.tokenFile, cfg.Pool) }
	}
	s, err := a.remote(ctx)
	if err != nil {
		var known *command.Failure
		if f.tokenFile == "" || a.endpoint == "" || errors.As(err, &known) && known.Code == command.ExitBadInput {
			return "", err
		}
		s = nil // no credentials of a user are needed where there is a token
	}
	switch {
	case s != nil:
		cfg.Endpoint = s.running.URL
	case err != nil: // by the endpoint alone
		if cfg.Endpoint, _, err = readEndpoint(a.endpoint, ""); err != nil {
			return "", err
		}
	default:
		if s, err = a.running(ctx, f.state, "place tasks on this machine"); err != nil {
			return "", err
		}
		cfg.Endpoint, cfg.Broker = s.running.URL, s.state
	}
	if cfg.Invite == nil {
		cfg.Invite = func(ctx context.Context) (string, error) {
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

// readJoinToken reads the token to join a pool with.
func (a *app) readJoinToken(file, pool string) (string, error) {
	from := a.In
	if file != "-" {
		f, err := os.Open(file) //nolint:gosec // whatever the user names
		if err != nil {
			return "", command.Because(err, command.ExitBadInput, "`tradewind pool add` writes it, where the broker is",
				"the token to join with: %v", err)
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
		return "", command.BadInput("`tradewind pool add "+pool+"` writes one", "%s holds no token to join with", file)
	case claims.Pool != pool:
		return "", command.BadInput("`tradewind pool add "+pool+"` writes one", "the token in %s is of pool %s", file,
			text.Clean(claims.Pool))
	}
	return secret, nil
}

// tellMachine tells a person what happens, and whoever reads the output that the machine is in its pool.
func (a *app) tellMachine(cfg *pool.Config, output *command.Choice, e pool.Event) {
	what := func(e pool.Event) string { return cmp.Or(e.Cluster, "an agent") }
	switch e.Kind {
	case pool.Joined:
		a.announceMachine(cfg, output)
	case pool.Began:
		a.Tell("runs %s: %s", what(e), amounts(e.Hold))
	case pool.Ended:
		a.Tell("ended %s", what(e))
	case pool.Failed:
		a.Tell("%s: %v", what(e), e.Err)
	case pool.Draining:
		a.Tell("draining: nothing new comes")
	case pool.Undrained:
		a.Tell("back to work")
	case pool.Unreachable:
		a.Tell("the broker does not answer, what runs goes on meanwhile: %v", text.Clean(e.Err.Error()))
	case pool.Reached:
		a.Tell("the broker answers again")
	case pool.Leaving:
		wait := ""
		if e.Running > 0 {
			wait = ": " + text.Count(e.Running, "task") + " to save first; interrupt again to leave at once"
		}
		a.Tell("leaving pool %s%s", cfg.Pool, wait)
	}
}

func (a *app) announceMachine(cfg *pool.Config, output *command.Choice) {
	if output.JSON() {
		_ = a.PrintJSON(PoolJoined{
			Pool: cfg.Pool, Machine: cfg.Name, Type: cfg.Type, Endpoint: cfg.Endpoint, Dir: absolute(cfg.Dir),
			PID: os.Getpid(), Capacity: cfg.Capacity, Labels: cfg.Labels,
		}) // a machine works on when nobody listens
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

// amounts writes what a machine has, or a task holds of it.
func amounts(c wire.PoolCapacity) string {
	s := fmt.Sprintf("%s vCPU, %s GiB", text.Tenth(c.CPUs), text.Tenth(c.MemoryGiB))
	if c.Accelerators > 0 {
		s += ", " + text.Tenth(c.Accelerators) + " " + text.Clean(c.Accelerator)
	}
	return s
}

// explainJoin says what to do about why a machine is not in its pool.
func explainJoin(cfg *pool.Config, err error) error {
	add := "`tradewind pool add " + cfg.Pool + "`, where the broker is, writes a new token"
	switch {
	case err == nil:
		return nil
	case errors.Is(err, pool.ErrInUse):
		return command.Because(err, command.ExitBadInput, "--name joins this computer as another machine",
			"%s/%s is this computer already, by another process", cfg.Pool, cfg.Name)
	case errors.Is(err, pool.ErrRefused):
		return command.Because(err, command.ExitFailed, add, "%v", err)
	case errors.Is(err, pool.ErrTaken):
		return command.Because(err, command.ExitBadInput, "--name joins it as another machine", "%v", err)
	case errors.Is(err, pool.ErrRemoved):
		return command.Because(err, command.ExitFailed, "`tradewind pool join "+cfg.Pool+"` joins anew", "%v", err)
	case errors.Is(err, pool.ErrReport):
		return command.Because(err, command.ExitBadInput, "", "%v", err)
	}
	return err
}
