package bootstrap_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/internal/agent"
	"github.com/tradewind-broker/tradewind/internal/agent/bootstrap"
	"github.com/tradewind-broker/tradewind/internal/agent/bootstrap/imdstest"
	"github.com/tradewind-broker/tradewind/internal/agent/notices"
	"github.com/tradewind-broker/tradewind/internal/agent/proc"
	"github.com/tradewind-broker/tradewind/internal/agent/token"
	"github.com/tradewind-broker/tradewind/internal/agent/wire"
)

// stub is an agent that prints its configuration.
const stub = `#!/bin/sh
[ $# = 0 ] || exit 2
echo "arguments: $0 $*"
echo "mode: $(stat -c %a "$TRADEWIND_TOKEN_FILE")"
echo "token: $(cat "$TRADEWIND_TOKEN_FILE")"
echo "commands: $(tr '\0' ' ' </proc/$$/cmdline)"
env | grep -E '^(TRADEWIND_|EXTRA)' | sort
pwd
`

// machine is the environment of a boot script on a new machine, and the broker that serves the agent.
type machine struct {
	*testing.T
	root     string
	imds     *imdstest.Machine
	metadata string
	path     string // PATH
	told     bootstrap.Machine

	program  string // content at the agent's URL
	location string // the agent's URL; if empty, the broker returns none
	asked    []string
}

func newMachine(t *testing.T, program string) *machine {
	t.Helper()
	sum := sha256.Sum256([]byte(program))
	m := &machine{T: t, root: t.TempDir(), program: program, path: commands(t), imds: &imdstest.Machine{
		ID: "i-0abc", LaunchIndex: 1, Address: "127.0.0.9", Region: "us-east-1",
	}}
	server := httptest.NewServer(m.imds)
	t.Cleanup(server.Close)
	m.metadata = server.URL
	store := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "" {
			t.Error("the store was sent the token")
		}
		if r.URL.Query().Get("signature") != "a b\"'$c" {
			t.Errorf("the store was asked for %s", r.URL)
		}
		_, _ = io.WriteString(w, m.program)
	}))
	t.Cleanup(store.Close)
	m.location = store.URL + "/program?signature=a+b%22%27%24c"
	broker := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		m.asked = append(m.asked, r.URL.Path+" "+r.Header.Get("Authorization"))
		if m.location == "" {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		w.Header().Set("Location", m.location)
		w.WriteHeader(http.StatusTemporaryRedirect)
	}))
	t.Cleanup(broker.Close)
	m.told = bootstrap.Machine{
		Endpoint: broker.URL, Tokens: []string{"zero", "one", "two"}, SHA256: hex.EncodeToString(sum[:]),
		Environment: map[string]string{"EXTRA": "a 'b' $c"},
	}
	return m
}

// commands creates a directory with bash, curl and sha256sum, the commands that every system has, and the commands of
// the stub.
func commands(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"bash", "sh", "curl", "mkdir", "chmod", "mv", "rm", "sha256sum", "sleep", "env", "cat", "grep", "sort", "tr", "stat", "pwd"} {
		found, err := exec.LookPath(name)
		if err != nil {
			t.Skipf("no %s here", name)
		}
		if err := os.Symlink(found, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// boot runs the script like cloud-init.
func (m *machine) boot(userData []byte) (out string, err error) {
	m.Helper()
	script, err := bootstrap.Plain(userData)
	if err != nil {
		m.Fatal(err)
	}
	file := filepath.Join(m.TempDir(), "script")
	if err := os.WriteFile(file, script, 0o700); err != nil {
		m.Fatal(err)
	}
	cmd := exec.CommandContext(m.Context(), "bash", file)
	cmd.Env = []string{
		bootstrap.EnvRoot + "=" + m.root, bootstrap.EnvMetadata + "=" + m.metadata, "TRADEWIND_PAUSE=0", "PATH=" + m.path, "HOME=" + m.root,
	}
	b, err := cmd.CombinedOutput()
	return string(b), err
}

func (m *machine) script() []byte {
	m.Helper()
	b, err := bootstrap.Script(m.told)
	if err != nil {
		m.Fatal(err)
	}
	return b
}

func TestMachineDownloadsVerifiesAndStartsAgent(t *testing.T) {
	m := newMachine(t, stub)
	out, err := m.boot(m.script())
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, want := range []string{
		"token: one\n", "mode: 600\n", agent.EnvEndpoint + "=" + m.told.Endpoint + "\n", proc.MachineEnv + "=i-0abc\n",
		agent.EnvAddress + "=127.0.0.9\n", notices.EnvCloud + "=aws\n", "EXTRA=a 'b' $c\n", agent.EnvDir + "=" + m.root + "/var/lib/tradewind/work\n",
		m.root + "/var/lib/tradewind/work\n",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in:\n%s", want, out)
		}
	}
	for line := range strings.Lines(out) {
		if strings.HasPrefix(line, "commands:") && strings.Contains(line, "one ") {
			t.Errorf("the token is in the process list: %s", line)
		}
	}
	if left, _ := filepath.Glob(m.root + "/run/tradewind/curl"); len(left) > 0 {
		t.Errorf("curl's options are left in %v", left)
	}
	if want := wire.PathProgram + m.told.SHA256 + " Bearer one"; !slices.Equal(m.asked, []string{want}) {
		t.Errorf("the broker was asked %q, want %q", m.asked, want)
	}
	if again, err := m.boot(m.script()); err != nil || !strings.Contains(again, "token: one\n") {
		t.Errorf("a second time: %v\n%s", err, again)
	}
	if len(m.asked) != 1 {
		t.Error("an agent that exists was downloaded again")
	}
}

func TestAgentWithWrongDigestIsNotStarted(t *testing.T) {
	m := newMachine(t, stub)
	m.program += "echo changed\n"
	out, err := m.boot(m.script())
	if err == nil || strings.Contains(out, "token:") || !strings.Contains(out, "digest") {
		t.Errorf("%v\n%s", err, out)
	}
	if _, err := os.Stat(m.root + "/run/tradewind/token"); err == nil {
		t.Error("the token is left on the disk")
	}
}

func TestMachineWithoutAgentPowersOff(t *testing.T) {
	for name, spoil := range map[string]func(*machine){
		"no store":    func(m *machine) { m.location = "http://127.0.0.1:1/program" },
		"no answer":   func(m *machine) { m.location = "" },
		"no rank":     func(m *machine) { m.imds.LaunchIndex = 3 },
		"no metadata": func(m *machine) { m.metadata = "http://127.0.0.1:1" },
	} {
		t.Run(name, func(t *testing.T) {
			m := newMachine(t, stub)
			spoil(m)
			began := time.Now()
			out, err := m.boot(m.script())
			var exit *exec.ExitError
			if !errors.As(err, &exit) || exit.ExitCode() != 1 || strings.Contains(out, "token:") {
				t.Errorf("after %v: %v\n%s", time.Since(began), err, out)
			}
		})
	}
}

func TestManyTokensFitCompressed(t *testing.T) {
	m := newMachine(t, stub)
	m.imds.LaunchIndex = 119
	m.told.Tokens = nil
	for rank := range 120 {
		text, err := token.Mint(bytes.Repeat([]byte{7}, 32), wire.Claims{Job: "train-infer-4k7q2abcdef", Cluster: "train-infer-4k7q2abcdef.17.2", Rank: rank, Expires: time.Unix(2e9, 0)})
		if err != nil {
			t.Fatal(err)
		}
		m.told.Tokens = append(m.told.Tokens, text)
	}
	data := m.script()
	if len(data) > bootstrap.MaxBytes {
		t.Errorf("%d bytes", len(data))
	}
	t.Logf("120 machines: %d bytes of user data", len(data))
	if out, err := m.boot(data); err != nil || !strings.Contains(out, "token: "+m.told.Tokens[119]) {
		t.Errorf("%v\n%s", err, out)
	}
	m.told.Tokens = make([]string, 2000)
	for i := range m.told.Tokens {
		sum := sha256.Sum256(fmt.Append(nil, i))
		m.told.Tokens[i] = hex.EncodeToString(sum[:])
	}
	if _, err := bootstrap.Script(m.told); !errors.Is(err, bootstrap.ErrTooLarge) {
		t.Errorf("2000 machines: %v", err)
	}
	// All machines get one shared token, and each sends its rank.
	m.told.SharedToken = "for.all.ranks"
	data, err := bootstrap.Script(m.told)
	if err != nil {
		t.Fatal(err)
	}
	out, err := m.boot(data)
	if err != nil || !strings.Contains(out, "token: for.all.ranks") || strings.Contains(string(data), m.told.Tokens[0]) {
		t.Errorf("%v\n%s", err, out)
	}
	own := 1999
	m.told.OnlyRank = &own
	if data, err = bootstrap.Script(m.told); err != nil || strings.Contains(string(data), m.told.SharedToken) {
		t.Errorf("a machine with its own script: %v", err)
	}
}

func TestScriptRejectsInvalidValues(t *testing.T) {
	good := bootstrap.Machine{Endpoint: "https://a", Tokens: []string{"t"}, SHA256: strings.Repeat("a", 64)}
	if _, err := bootstrap.Script(good); err != nil {
		t.Fatal(err)
	}
	for name, spoil := range map[string]func(*bootstrap.Machine){
		"endpoint": func(m *bootstrap.Machine) { m.Endpoint = "" }, "newline": func(m *bootstrap.Machine) { m.Endpoint = "b\nrm" },
		"digest": func(m *bootstrap.Machine) { m.SHA256 = "abc" }, "tokens": func(m *bootstrap.Machine) { m.Tokens = nil },
		"token": func(m *bootstrap.Machine) { m.Tokens = []string{"a\x00b"} }, "name": func(m *bootstrap.Machine) { m.Environment = map[string]string{"A B": "c"} },
	} {
		m := good
		spoil(&m)
		if _, err := bootstrap.Script(m); !errors.Is(err, bootstrap.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The shell must take every value of the boot script literally.
func FuzzScript(f *testing.F) {
	f.Add("https://a", "token", "it's")
	f.Add("$(touch x)", "`id`", "\\\"'!*~")
	f.Fuzz(func(t *testing.T, endpoint, token, value string) {
		b, err := bootstrap.Script(bootstrap.Machine{
			Endpoint: endpoint, Tokens: []string{token}, SHA256: strings.Repeat("a", 64),
			Environment: map[string]string{"V": value},
		})
		if err != nil {
			return
		}
		values, _, ok := strings.Cut(string(b), "root=")
		if !ok {
			t.Fatal("no script")
		}
		cmd := exec.CommandContext(t.Context(), "bash", "-c", values+"\nprintf '%s\\n' \"$endpoint\" \"${tokens[0]}\" \"${environment[0]}\"")
		out, err := cmd.CombinedOutput()
		if want := strings.TrimSuffix(endpoint, "/") + "\n" + token + "\nV=" + value + "\n"; err != nil || string(out) != want {
			t.Fatalf("%v: %q, want %q", err, out, want)
		}
	})
}

// The machine of a broker without an address must download the agent from the URL in its script, not call the broker,
// and write the address of its mailbox into a file that only root can read.
func TestMachineWithMailboxNeedsNoBroker(t *testing.T) {
	m := newMachine(t, "#!/bin/sh\necho mailbox: $(cat \"$"+agent.EnvMailbox+"\")\nstat -c %a \"$"+agent.EnvMailbox+"\"\n")
	m.told.Mailbox, m.told.Program = "c-1 key https://bucket.example/book?signature=x", m.location
	out, err := m.boot(m.script())
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if !strings.Contains(out, "mailbox: "+m.told.Mailbox+"\n600\n") {
		t.Errorf("the agent printed\n%s", out)
	}
	if len(m.asked) > 0 {
		t.Errorf("the broker was asked for %q", m.asked)
	}
	m.told.Program = ""
	if _, err := bootstrap.Script(m.told); !errors.Is(err, bootstrap.ErrInvalid) {
		t.Errorf("a mailbox without a program: %v", err)
	}
}
