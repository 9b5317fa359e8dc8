// Package bootstrap writes what a new machine is told to do when it boots: fetch the agent from where the broker says,
// check its digest, and start it with its token. It is a shell script that cloud-init runs as root, for images with
// bash, curl and sha256sum.
//
// One script serves all machines of a cluster where they are made by one call: each takes the token of its rank, which
// is its launch index on EC2 and the number at the end of its name on Google Cloud. Where each machine is made by a
// call of its own it is told its own token alone. A cluster so large that the tokens of all do not fit has one for all
// of them, and each machine tells the broker its rank, which it proves by which machine it is. The tokens are the only
// secrets in it: they are for one node of one job, for its agent's first call, and expire. The machine has no identity
// of its own in the cloud, and no rights; the token goes through files that only root can read, not through the process
// list.
//
// A machine that cannot start its agent, or whose agent has ended, powers off, which terminates it. That costs nothing
// more, and the broker learns it from the cloud.
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
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/tradewind-broker/tradewind/pkg/agent/wire"
)

// MaxBytes is the most that EC2 takes as user data, before base64 (EC2 User Guide, "User data considerations").
const MaxBytes = 16 << 10

// Errors of Script, wrapped with detail.
var (
	// ErrTooLarge: the tokens of so many machines do not fit.
	ErrTooLarge = errors.New("bootstrap: does not fit in user data")
	// ErrInvalid: a value is missing, or cannot stand in a script.
	ErrInvalid = errors.New("bootstrap: invalid")
)

// Environment variables that a rehearsal sets; a real machine has none of them.
const (
	// EnvRoot is put before every path; the agent then runs in the script's own process, and nothing is powered off.
	EnvRoot = "TRADEWIND_ROOT"
	// EnvMetadata is where the machine asks who it is.
	EnvMetadata = "AWS_EC2_METADATA_SERVICE_ENDPOINT"
)

// Machine is what the machines of a cluster are told, or one of them.
type Machine struct {
	// Cloud is whose metadata service tells the machine who it is: aws (also when empty), gcp or azure. Others have
	// none.
	Cloud    string
	Endpoint string   // the broker's base URL
	Tokens   []string // by rank
	// Any is a token for all of them, for a script that has no room for so many; empty where there is none.
	Any string
	// Own says that the script is for the machine of this rank alone: it holds no other's token. Nil is for all of
	// them, where the metadata service tells the rank.
	Own    *int
	SHA256 string // of the agent's program, hexadecimal
	// Environment of the agent, beside its own variables.
	Environment map[string]string
}

//go:embed boot.sh
var script string

// where boot.sh wants its values.
const mark = "#VALUES#\n"

var (
	validDigest = regexp.MustCompile(`^[0-9a-f]{64}$`)
	validCloud  = regexp.MustCompile(`^[a-z]{0,20}$`)
	validName   = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
)

// Script returns the user data of a cluster's machines, at most MaxBytes: a script, compressed where it would not
// fit.
func Script(m Machine) ([]byte, error) {
	if err := m.check(); err != nil {
		return nil, err
	}
	out, err := m.write(m.Tokens, "")
	if errors.Is(err, ErrTooLarge) && m.Own == nil && m.Any != "" {
		return m.write(nil, m.Any)
	}
	return out, err
}

// write is the script with these tokens, or with one for all ranks.
func (m Machine) write(tokens []string, anyRank string) ([]byte, error) {
	var b strings.Builder
	for _, v := range [][2]string{
		{"endpoint", strings.TrimSuffix(m.Endpoint, "/")}, {"program", wire.PathProgram + m.SHA256},
		{"sha256", m.SHA256}, {"cloud", cmp.Or(m.Cloud, "aws")}, {"rank", m.rank()},
		{"machines", strconv.Itoa(len(m.Tokens))}, {"any", anyRank},
	} {
		fmt.Fprintf(&b, "%s=%s\n", v[0], quote(v[1]))
	}
	b.WriteString("tokens=(\n")
	for rank, t := range tokens {
		if m.Own != nil && rank != *m.Own {
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

// rank is the one that the script is for, empty where the machine finds it out.
func (m Machine) rank() string {
	if m.Own == nil {
		return ""
	}
	return strconv.Itoa(*m.Own)
}

func (m Machine) check() error {
	if !validCloud.MatchString(m.Cloud) {
		return fmt.Errorf("%w: cloud %q", ErrInvalid, m.Cloud)
	}
	if own := m.Own; own == nil && m.Cloud != "" && m.Cloud != "aws" && m.Cloud != "gcp" {
		return fmt.Errorf("%w: a machine of %s cannot find out its rank", ErrInvalid, m.Cloud)
	} else if own != nil && (*own < 0 || *own >= len(m.Tokens)) {
		return fmt.Errorf("%w: rank %d of %d", ErrInvalid, *own, len(m.Tokens))
	}
	if m.Endpoint == "" || !printable(m.Endpoint) {
		return fmt.Errorf("%w: endpoint %q", ErrInvalid, m.Endpoint)
	}
	if !validDigest.MatchString(m.SHA256) {
		return fmt.Errorf("%w: SHA-256 %q", ErrInvalid, m.SHA256)
	}
	if len(m.Tokens) == 0 {
		return fmt.Errorf("%w: no tokens", ErrInvalid)
	}
	if !printable(m.Any) {
		return fmt.Errorf("%w: token of all ranks", ErrInvalid)
	}
	for rank, t := range m.Tokens {
		if t == "" || !printable(t) {
			return fmt.Errorf("%w: token of rank %d", ErrInvalid, rank) // which is not for an error's text
		}
	}
	for name, v := range m.Environment {
		if !validName.MatchString(name) || !printable(v) {
			return fmt.Errorf("%w: environment %q", ErrInvalid, name)
		}
	}
	return nil
}

// printable says whether s is one line of ASCII.
func printable(s string) bool {
	return strings.IndexFunc(s, func(r rune) bool { return r < ' ' || r > '~' }) < 0
}

// quote makes a word of the shell, taken as it stands.
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

// Plain returns the script of user data as cloud-init reads it: decompressed where it is compressed.
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
