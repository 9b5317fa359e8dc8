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

	"github.com/tradewind-broker/tradewind/internal/agent/attest"
	"github.com/tradewind-broker/tradewind/internal/agent/hostnames"
	"github.com/tradewind-broker/tradewind/internal/agent/notices"
	"github.com/tradewind-broker/tradewind/internal/agent/proc"
	"github.com/tradewind-broker/tradewind/internal/base/files"
)

// The environment variables of the agent's program. The token comes from a file that is removed after it was read, or
// from standard input. It does not come from the command line, which every user of the machine can see, or from the
// environment.
const (
	EnvEndpoint  = "TRADEWIND_ENDPOINT"     // the broker's base URL
	EnvTokenFile = "TRADEWIND_TOKEN_FILE"   // "-" is standard input
	EnvRank      = "TRADEWIND_MACHINE_RANK" // the machine's rank in its cluster, if the token is for all of them
	EnvDir       = "TRADEWIND_DIR"          // the agent's directory; the current one when empty
	EnvAddress   = "TRADEWIND_ADDRESS"      // where other nodes can reach this one
	EnvSole      = "TRADEWIND_SOLE"         // "1": only this task uses the machine
	EnvOnce      = "TRADEWIND_ONCE"         // "1": the agent ends after its attempt
	EnvIsolate   = "TRADEWIND_ISOLATE"      // "1": the agent of a worker runs each task as another user
	EnvSetups    = "TRADEWIND_SETUPS"       // the folder of a worker for the files of setups
	EnvHold      = "TRADEWIND_HOLD_FD"      // a file descriptor to keep open while any process runs
	EnvIdentity  = "TRADEWIND_IDENTITY"     // a file to which the agent writes its proc.Identity
	EnvBoot      = "TRADEWIND_BOOT"         // boot time of a simulated machine, before the agent starts: "1.5s"
	EnvDebug     = "TRADEWIND_DEBUG"        // "1": log more
	EnvHosts     = "TRADEWIND_HOSTS_FILE"   // the file with the machine's names; /etc/hosts when empty
	// EnvMailbox is a file with a mailbox.Address, if the broker has no address. The agent removes it.
	EnvMailbox = "TRADEWIND_MAILBOX_FILE"
	// EnvAway is the maximum time for which a broker without an address is away, for an agent whose calls another
	// agent relays.
	EnvAway   = "TRADEWIND_AWAY"
	EnvInside = "TRADEWIND_INSIDE" // the container image that the agent itself runs in
)

// Exit codes of the program.
const (
	ExitDone        = 0
	ExitFailed      = 1
	ExitFinished    = 10 // ErrOver
	ExitRefused     = 11 // ErrRefused
	ExitUnreachable = 12 // ErrUnreachable
	ExitStopped     = 143
)

// maxToken is the maximum number of bytes read of a token file.
const maxToken = 16 << 10

// Main is the whole program: it configures an agent from environ, runs it until a signal of stopSignals, and returns
// the exit code. worker makes the machine a worker; nil if it cannot be one. The caller must have called proc.Reexec.
func Main(environ []string, version string, worker Worker) int {
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
	cfg.Version, cfg.Logger, cfg.Worker = version, log, worker
	ctx, stop := signal.NotifyContext(context.Background(), stopSignals(environ)...)
	defer stop()
	if err := boot(ctx, lookup(environ, EnvBoot)); err != nil {
		log.Error("cannot start", "err", err)
		return ExitCode(err)
	}
	if err := cfg.openMailbox(ctx, lookup(environ, EnvMailbox)); err != nil {
		log.Error("cannot start", "err", err)
		return ExitFailed
	}
	if cfg.Notices, err = watchNotices(ctx, environ, log); err != nil {
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

// boot waits for the boot time of the simulated machine. An empty text means no time.
func boot(ctx context.Context, text string) error {
	if text == "" {
		return nil
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		return fmt.Errorf("%w: %s: %w", ErrConfig, EnvBoot, err)
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// stopSignals returns the signals that end the agent. SIGTERM is not among them on a cloud where it is a notice that
// leaves time to save.
func stopSignals(environ []string) []os.Signal {
	if notices.TermIsNotice(lookup(environ, notices.EnvCloud)) {
		return []os.Signal{syscall.SIGINT}
	}
	return []os.Signal{syscall.SIGTERM, syscall.SIGINT}
}

// watchNotices starts to watch whether the machine's cloud is about to take it. It returns nil if environ names no
// cloud.
func watchNotices(ctx context.Context, environ []string, log *slog.Logger) (<-chan time.Duration, error) {
	w, err := notices.FromEnvironment(func(name string) string {
		return lookup(environ, name)
	}, notices.Config{Log: log})
	if err != nil || w == nil {
		return nil, err
	}
	return notices.Leads(ctx, w, time.Now, log), nil
}

// prover returns a function that requests a proof of the machine's identity from its cloud. It returns nil if environ
// names no cloud.
func prover(environ []string, endpoint string) (attest.Func, error) {
	get := func(name string) string { return lookup(environ, name) }
	cloud := get(attest.EnvCloud)
	if cloud == "" {
		return nil, nil
	}
	f, err := attest.New(attest.Config{Cloud: cloud, URL: notices.MetadataURL(cloud, get), File: get(attest.EnvFile),
		Audience: endpoint})
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrConfig, attest.EnvCloud, err)
	}
	return f, nil
}

// ExitCode returns the program's exit code for an error of Run.
func ExitCode(err error) int {
	switch {
	case err == nil:
		return ExitDone
	case errors.Is(err, ErrFinished):
		return ExitFinished
	case errors.Is(err, ErrRefused):
		return ExitRefused
	case errors.Is(err, ErrUnreachable):
		return ExitUnreachable
	case errors.Is(err, context.Canceled):
		return ExitStopped
	}
	return ExitFailed
}

// FromEnvironment returns the configuration that environ describes. After it has read the token, it writes this
// process's identity to the file that EnvIdentity names.
func FromEnvironment(environ []string, stdin io.Reader) (Config, error) {
	get := func(name string) string { return lookup(environ, name) }
	cfg := Config{
		Endpoint: get(EnvEndpoint), Dir: get(EnvDir), Address: get(EnvAddress), Machine: get(proc.MachineEnv),
		Sole: get(EnvSole) == "1", Once: get(EnvOnce) == "1", Isolate: get(EnvIsolate) == "1",
		Setups:  get(EnvSetups),
		Environ: environ, Hosts: hostnames.File(get(EnvHosts)),
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
	if away := get(EnvAway); away != "" {
		d, err := time.ParseDuration(away)
		if err != nil || d <= 0 {
			return cfg, fmt.Errorf("%w: %s=%q", ErrConfig, EnvAway, away)
		}
		cfg.callSlowly(d)
	}
	if file := get(EnvIdentity); file != "" {
		err = writeIdentity(file)
	}
	return cfg, err
}

// readToken reads a token and removes its file.
func readToken(file string, stdin io.Reader) (string, error) {
	from := stdin
	switch file {
	case "":
		return "", fmt.Errorf("%w: the file of a token or an address is not named", ErrConfig)
	case "-":
	default:
		f, err := os.Open(file) //nolint:gosec // named by the process that started the machine
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
	if token == "" { // the process that should have written it has died
		return "", fmt.Errorf("%w: the token is empty", ErrConfig)
	}
	return token, nil
}

// writeIdentity writes the identity of this process to file.
func writeIdentity(file string) error {
	id, err := proc.Identify(os.Getpid())
	if err != nil {
		return err
	}
	b, err := json.Marshal(id)
	if err != nil {
		return err
	}
	return files.Write(file, 0o600, b)
}
