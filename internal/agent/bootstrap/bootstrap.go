// Package bootstrap writes the script that a new machine runs when it boots: it downloads the agent from the URL that
// the broker names, checks its digest, and starts it with its token. cloud-init runs the script as root, on images
// with bash, curl and sha256sum.
//
// If one call creates all machines of a cluster, they share one script, and each machine takes the token of its rank:
// its launch index on EC2, or the number at the end of its name on Google Cloud. If each machine is created by its
// own call, its script contains only its own token. If a cluster is so large that its tokens do not fit, the script
// contains one token for all machines, and each machine sends its rank to the broker, which verifies it by the
// machine's identity. The tokens are the only secrets in the script: each is for one node of one job and for its
// agent's first call, and expires. The machine has no identity in the cloud and no permissions. The token is passed
// in files that only root can read, not on the command line.
//
// A machine that cannot start its agent, or whose agent has ended, powers off, which terminates it. From then on it
// costs nothing, and the broker learns of its end from the cloud.
package bootstrap

import (
	"bytes"
	"cmp"
	"compress/gzip"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/tradewind-broker/tradewind/internal/agent/wire"

	"github.com/tradewind-broker/tradewind/internal/base/lazyregexp"
)

// MaxBytes is the maximum size of user data on EC2, before base64 (EC2 User Guide, "User data considerations").
const MaxBytes = 16 << 10

// Errors of Script, wrapped with detail.
var (
	// ErrTooLarge means that the tokens of all machines do not fit.
	ErrTooLarge = errors.New("bootstrap: does not fit in user data")
	// ErrInvalid means that a value is missing or has characters that the script cannot contain.
	ErrInvalid = errors.New("bootstrap: invalid")
)

// Environment variables that a rehearsal sets. A real machine has none of them.
const (
	// EnvRoot is a prefix for all paths. If it is set, the agent runs in the script's own process, and the script
	// does not power the machine off.
	EnvRoot = "TRADEWIND_ROOT"
	// EnvSystemd is "yes" if systemd-run and systemctl in the PATH are to start the agent although EnvRoot is set.
	EnvSystemd = "TRADEWIND_SYSTEMD"
	// EnvMetadata is the URL of the metadata service.
	EnvMetadata = "AWS_EC2_METADATA_SERVICE_ENDPOINT"
)

// Machine describes the machines of a cluster, or one of them, to Script.
type Machine struct {
	// Cloud selects the metadata service from which the machine learns its identity: aws (also if empty), gcp or
	// azure. Other clouds have none.
	Cloud    string
	Endpoint string   // the broker's base URL
	Tokens   []string // by rank
	// Any is one token for all machines, for clusters whose tokens do not fit into a script. It is empty for others.
	SharedToken string
	// Own is the rank of the only machine that uses the script, which then contains no other machine's token. If nil,
	// all machines use the script and learn their rank from the metadata service.
	OnlyRank *int
	SHA256   string // of the agent's program, hexadecimal
	// Mailbox is the place of the messages to a broker without an address (mailbox.Address). It is empty if the
	// broker has an address. With it, Program is the URL of the agent's program.
	Mailbox, Program string
	// Environment has additional variables for the agent.
	Environment map[string]string
}

//go:embed boot.sh
var script string

// mark is replaced in boot.sh by the values.
const mark = "#VALUES#\n"

var (
	validDigest = lazyregexp.New(`^[0-9a-f]{64}$`)
	validCloud  = lazyregexp.New(`^[a-z]{0,20}$`)
	validName   = lazyregexp.New(`^[A-Za-z_][A-Za-z0-9_]*$`)
)

// Script returns the user data of a cluster's machines, at most MaxBytes: a script, which is compressed if it would
// otherwise not fit.
func Script(m Machine) ([]byte, error) {
	if err := m.check(); err != nil {
		return nil, err
	}
	out, err := m.write(m.Tokens, "")
	if errors.Is(err, ErrTooLarge) && m.OnlyRank == nil && m.SharedToken != "" {
		return m.write(nil, m.SharedToken)
	}
	return out, err
}

// write returns the script with these tokens, or with one token for all ranks.
func (m Machine) write(tokens []string, anyRank string) ([]byte, error) {
	var b strings.Builder
	for _, v := range [][2]string{
		{"endpoint", strings.TrimSuffix(m.Endpoint, "/")}, {"program", wire.PathProgram + m.SHA256},
		{"sha256", m.SHA256}, {"cloud", cmp.Or(m.Cloud, "aws")}, {"rank", m.rank()},
		{"machines", strconv.Itoa(len(m.Tokens))}, {"any", anyRank}, {"mailbox", m.Mailbox}, {"source", m.Program},
	} {
		fmt.Fprintf(&b, "%s=%s\n", v[0], quote(v[1]))
	}
	b.WriteString("tokens=(\n")
	for rank, t := range tokens {
		if m.OnlyRank != nil && rank != *m.OnlyRank {
			t = ""
		}
		b.WriteString(quote(t) + "\n")
	}
	b.WriteString(")\nenvironment=(\n")
	for _, name := range slices.Sorted(maps.Keys(m.Environment)) {
		b.WriteString(quote(name+"="+m.Environment[name]) + "\n")
	}
	b.WriteString(")\n")
	out := []byte(strings.Replace(script, mark, b.String(), 1))
	if len(out) <= MaxBytes {
		return out, nil
	}
	small, err := compress(out)
	if err == nil && len(small) > MaxBytes {
		err = fmt.Errorf("%w: %d machines need %d bytes of %d", ErrTooLarge, len(m.Tokens), len(small), MaxBytes)
	}
	return small, err
}

// rank returns the rank of the machine that the script is for; empty if the machine finds out its rank itself.
func (m Machine) rank() string {
	if m.OnlyRank == nil {
		return ""
	}
	return strconv.Itoa(*m.OnlyRank)
}

func (m Machine) check() error {
	if !validCloud.MatchString(m.Cloud) {
		return fmt.Errorf("%w: cloud %q", ErrInvalid, m.Cloud)
	}
	if own := m.OnlyRank; own == nil && m.Cloud != "" && m.Cloud != "aws" && m.Cloud != "gcp" {
		return fmt.Errorf("%w: a machine of %s cannot find out its rank", ErrInvalid, m.Cloud)
	} else if own != nil && (*own < 0 || *own >= len(m.Tokens)) {
		return fmt.Errorf("%w: rank %d of %d", ErrInvalid, *own, len(m.Tokens))
	}
	if err := m.checkBroker(); err != nil {
		return err
	}
	if !validDigest.MatchString(m.SHA256) {
		return fmt.Errorf("%w: SHA-256 %q", ErrInvalid, m.SHA256)
	}
	if len(m.Tokens) == 0 {
		return fmt.Errorf("%w: no tokens", ErrInvalid)
	}
	if !printable(m.SharedToken) {
		return fmt.Errorf("%w: token of all ranks", ErrInvalid)
	}
	for rank, t := range m.Tokens {
		if t == "" || !printable(t) {
			return fmt.Errorf("%w: token of rank %d", ErrInvalid, rank) // without the token, which is secret
		}
	}
	for name, v := range m.Environment {
		if !validName.MatchString(name) || !printable(v) {
			return fmt.Errorf("%w: environment %q", ErrInvalid, name)
		}
	}
	return nil
}

// checkBroker checks how the machine reaches the broker.
func (m Machine) checkBroker() error {
	if m.Endpoint == "" || !printable(m.Endpoint) {
		return fmt.Errorf("%w: endpoint %q", ErrInvalid, m.Endpoint)
	}
	if !printable(m.Mailbox) || !printable(m.Program) || (m.Mailbox == "") != (m.Program == "") {
		return fmt.Errorf("%w: mailbox", ErrInvalid) // without its key, which is secret
	}
	return nil
}

// printable reports whether s is one line of printable ASCII.
func printable(s string) bool {
	return strings.IndexFunc(s, func(r rune) bool { return r < ' ' || r > '~' }) < 0
}

// quote returns s as one literal word for the shell.
func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

func compress(b []byte) ([]byte, error) {
	var out bytes.Buffer
	z, err := gzip.NewWriterLevel(&out, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	if _, err := z.Write(b); err != nil {
		return nil, err
	}
	if err := z.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// Plain returns the script in user data, decompressed if necessary, as cloud-init reads it.
func Plain(userData []byte) ([]byte, error) {
	if !bytes.HasPrefix(userData, []byte{0x1f, 0x8b}) {
		return userData, nil
	}
	z, err := gzip.NewReader(bytes.NewReader(userData))
	if err != nil {
		return nil, fmt.Errorf("bootstrap: user data: %w", err)
	}
	const most = 1 << 20
	out, err := io.ReadAll(io.LimitReader(z, most))
	if err != nil {
		return nil, fmt.Errorf("bootstrap: user data: %w", err)
	}
	return out, nil
}
