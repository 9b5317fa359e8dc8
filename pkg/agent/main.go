package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/tradewind-broker/tradewind/internal/atomicfile"
	"github.com/tradewind-broker/tradewind/pkg/agent/notices"
	"github.com/tradewind-broker/tradewind/pkg/agent/proc"
	"github.com/tradewind-broker/tradewind/pkg/agent/prove"
)

// The environment that the program on a machine is started with. The token comes by a file that is removed once it was
// read, or by standard input: not by the command line, which is for everyone to see, nor by the environment.
const (
	EnvEndpoint  = "TRADEWIND_ENDPOINT"     // the broker's base URL
	EnvTokenFile = "TRADEWIND_TOKEN_FILE"   // "-" is standard input
	EnvRank      = "TRADEWIND_MACHINE_RANK" // which machine of its cluster this is, where the token is for all
	EnvDir       = "TRADEWIND_DIR"          // the agent's directory; the current one when empty
	EnvAddress   = "TRADEWIND_ADDRESS"      // where other nodes reach this one
	EnvSole      = "TRADEWIND_SOLE"         // "1": the machine is the task's alone
	EnvHold      = "TRADEWIND_HOLD_FD"      // a descriptor to keep open while anything runs
	EnvIdentity  = "TRADEWIND_IDENTITY"     // a file to write the process's proc.Identity to
	EnvDebug     = "TRADEWIND_DEBUG"        // "1": log more
	EnvInside    = "TRADEWIND_INSIDE"       // the container image that the agent itself runs in
)

// Exit codes of the program.
const (
	ExitDone        = 0
	ExitFailed      = 1
	ExitOver        = 10 // ErrOver
	ExitRefused     = 11 // ErrRefused
	ExitUnreachable = 12 // ErrUnreachable
	ExitStopped     = 143
)

// maxToken bounds what is read of a token file.
const maxToken = 16 << 10

// Main is the whole program: it configures an agent from environ, runs it until SIGTERM or SIGINT, and returns the exit
// code. The caller has called proc.Reexec.
func Main(environ []string, version string) int {
	proc.Shield()
	level := slog.LevelInfo
	if lookup(environ, EnvDebug) == "1" {
		level = slog.LevelDebug
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: level}))
	cfg, err := FromEnvironment(environ, os.Stdin)
	if err != nil {
		log.Error("cannot start", "err", err)
		return ExitFailed
	}
	cfg.Version, cfg.Logger = version, log
	ctx, stop := signal.NotifyContext(context.Background(), stops(environ)...)
	defer stop()
	if cfg.Notices, err = watch(ctx, environ, log); err != nil {
		log.Error("cannot start", "err", err)
		return ExitFailed
	}
	if cfg.Prove, err = prover(environ, cfg.Endpoint); err != nil {
		log.Error("cannot start", "err", err)
		return ExitFailed
	}
	if err = Run(ctx, cfg); err != nil {
		log.Info("exit", "reason", err)
	}
	return ExitCode(err)
}

// stops are the signals at which the agent ends. In a pod SIGTERM is a notice, after which there is time to save.
func stops(environ []string) []os.Signal {
	if lookup(environ, notices.EnvCloud) == notices.Kubernetes {
		return []os.Signal{syscall.SIGINT}
	}
	return []os.Signal{syscall.SIGTERM, syscall.SIGINT}
}

// watch asks the machine's cloud whether the machine is about to be taken, where environ names one.
func watch(ctx context.Context, environ []string, log *slog.Logger) (<-chan time.Duration, error) {
	w, err := notices.FromEnvironment(func(name string) string {
		return lookup(environ, name)
	}, notices.Config{Log: log})
	if err != nil || w == nil {
		return nil, err
	}
	return notices.Leads(ctx, w, time.Now, log), nil
}

// prover asks the machine's cloud which machine it is, where environ names one.
func prover(environ []string, endpoint string) (prove.Func, error) {
	get := func(name string) string { return lookup(environ, name) }
	cloud := get(prove.EnvCloud)
	if cloud == "" {
		return nil, nil
	}
	f, err := prove.New(prove.Config{Cloud: cloud, URL: notices.MetadataURL(cloud, get), File: get(prove.EnvFile),
		Audience: endpoint})
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrConfig, prove.EnvCloud, err)
	}
	return f, nil
}

// ExitCode is the program's exit code for what Run returned.
func ExitCode(err error) int {
	switch {
	case err == nil:
		return ExitDone
	case errors.Is(err, ErrOver):
		return ExitOver
	case errors.Is(err, ErrRefused):
		return ExitRefused
	case errors.Is(err, ErrUnreachable):
		return ExitUnreachable
	case errors.Is(err, context.Canceled):
		return ExitStopped
	}
	return ExitFailed
}

// FromEnvironment makes a configuration of environ. Once it has the token, it leaves word of this process where
// EnvIdentity says.
func FromEnvironment(environ []string, stdin io.Reader) (Config, error) {
	get := func(name string) string { return lookup(environ, name) }
	cfg := Config{
		Endpoint: get(EnvEndpoint), Dir: get(EnvDir), Address: get(EnvAddress), Machine: get(proc.MachineEnv),
		Sole: get(EnvSole) == "1", Environ: environ,
	}
	if cfg.Dir == "" {
		cfg.Dir = "."
	}
	if fd := get(EnvHold); fd != "" {
		n, err := strconv.ParseUint(fd, 10, 16)
		if err != nil || n < 3 {
			return cfg, fmt.Errorf("%w: %s=%q", ErrConfig, EnvHold, fd)
		}
		proc.CloseOnExec(uintptr(n))
		cfg.Hold = os.NewFile(uintptr(n), "hold")
	}
	var err error
	if rank := get(EnvRank); rank != "" {
		if cfg.Rank, err = strconv.Atoi(rank); err != nil || cfg.Rank < 0 {
			return cfg, fmt.Errorf("%w: %s=%q", ErrConfig, EnvRank, rank)
		}
	}
	if cfg.Token, err = readToken(get(EnvTokenFile), stdin); err != nil {
		return cfg, err
	}
	if file := get(EnvIdentity); file != "" {
		err = writeIdentity(file)
	}
	return cfg, err
}

// readToken reads a token and removes the file it came in.
func readToken(file string, stdin io.Reader) (string, error) {
	from := stdin
	switch file {
	case "":
		return "", fmt.Errorf("%w: %s is not set", ErrConfig, EnvTokenFile)
	case "-":
	default:
		f, err := os.Open(file) //nolint:gosec // named by whoever started the machine
		if err != nil {
			return "", fmt.Errorf("%w: %w", ErrConfig, err)
		}
		defer os.Remove(file) //nolint:errcheck // the token expires
		defer f.Close()       //nolint:errcheck // only read
		from = f
	}
	b, err := io.ReadAll(io.LimitReader(from, maxToken))
	if err != nil {
		return "", fmt.Errorf("%w: token: %w", ErrConfig, err)
	}
	token := strings.TrimSpace(string(b))
	if token == "" { // whoever was to write it has died
		return "", fmt.Errorf("%w: no token came", ErrConfig)
	}
	return token, nil
}

// writeIdentity tells whoever reads file which process this is.
func writeIdentity(file string) error {
	id, err := proc.Identify(os.Getpid())
	if err != nil {
		return err
	}
	b, err := json.Marshal(id)
	if err != nil {
		return err
	}
	return atomicfile.Write(file, 0o600, b)
}
