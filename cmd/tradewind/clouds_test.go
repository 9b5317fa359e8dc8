package main

import (
	"bufio"
	"encoding/json"
	"io"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/tradewind-broker/tradewind/internal/base/freeport"
	"github.com/tradewind-broker/tradewind/internal/emulator/lambdacloud"
)

// buildAgent builds the agent for machines that boot on this computer, like `make agent`.
func buildAgent(t *testing.T) (folder string) {
	t.Helper()
	folder = t.TempDir()
	program := filepath.Join(folder, runtime.GOARCH, "tradewind-agent")
	cmd := exec.Command("go", "build", "-o", program, "../tradewind-agent")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return folder
}

// freeAddress returns an unused loopback address.
func freeAddress(t *testing.T) string {
	t.Helper()
	address, err := freeport.Address()
	if err != nil {
		t.Fatal(err)
	}
	return address
}

// up starts a broker. stop interrupts the broker, which must end without an error.
func (s *shell) up(flags string) (stop func()) {
	s.t.Helper()
	cmd := s.command("tradewind up -o json " + flags)
	var errs strings.Builder
	cmd.Stderr = &errs
	stdout, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		s.t.Fatal(err)
	}
	lines := bufio.NewScanner(stdout)
	for lines.Scan() && !strings.Contains(lines.Text(), `"dashboard"`) {
	}
	if err := lines.Err(); err != nil {
		s.t.Fatal(err)
	}
	var once bool
	stop = func() {
		if once {
			return
		}
		once = true
		_ = cmd.Process.Signal(syscall.SIGINT)
		_, _ = io.Copy(io.Discard, stdout)
		if err := cmd.Wait(); err != nil {
			s.t.Errorf("up: %v\n%s", err, errs.String())
		}
	}
	s.t.Cleanup(stop)
	return stop
}

const bought = `apiVersion: tradewind/v1
name: bought
tasks:
  make: {run: 'echo "$TRADEWIND_MACHINE" >/dev/null; seq 1 10 >"$TRADEWIND_OUTPUT/numbers.txt"', time: 5m, resources: {cpus: 2+}}
  read: {after: [make], run: 'wc -l <"$TRADEWIND_INPUTS/make/numbers.txt"; sed s/^/number-/ "$TRADEWIND_INPUTS/make/numbers.txt" >"$TRADEWIND_OUTPUT/out.txt"', time: 5m, resources: {cpus: 2+}}
`

// testLambdaCloud buys on Lambda's cloud with a broker on the user's computer. Machines must run the real boot
// script, download the real agent from the broker, and exchange data through the broker.
func testLambdaCloud(t *testing.T, s *shell) {
	const key = "secret_of_this_test_0123456789"
	disks := t.TempDir()
	account := lambdacloud.New(lambdacloud.Config{Key: key, Dir: disks, Fault: func(err error) { t.Error(err) }})
	server := httptest.NewServer(account)
	t.Cleanup(server.Close)
	t.Cleanup(account.Close)
	keyFile := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(keyFile, []byte(key+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "bought.yaml")
	if err := os.WriteFile(file, []byte(bought), 0o600); err != nil {
		t.Fatal(err)
	}
	s.env = append(s.env, "LAMBDA_API_URL="+server.URL)
	agents, address := buildAgent(t), freeAddress(t)
	flags := "--clouds lambda --agents " + agents + " --addr " + address

	if _, errs, code := s.run("tradewind up " + flags); code != 2 || !strings.Contains(errs, "--public-url") {
		t.Errorf("without an address: exit %d\n%s", code, errs)
	}
	flags += " --public-url http://" + address
	if _, errs, code := s.run("tradewind up " + flags); code != 2 || !strings.Contains(errs, "cloud add lambda --key-file") {
		t.Errorf("without a key: exit %d\n%s", code, errs)
	}
	s.must("tradewind cloud add lambda --regions us-east-1 --key-file " + keyFile)
	stop := s.up(flags)
	id := strings.TrimSpace(s.must("tradewind submit " + file))
	if _, errs, code := s.run("tradewind status -w " + id); code != 0 {
		for _, i := range account.Bills() {
			console, _ := os.ReadFile(account.Console(i.ID))
			t.Logf("machine %s:\n%s", i.Name, console)
		}
		t.Fatalf("exit %d\n%s\n%s", code, errs, s.must("tradewind explain "+id))
	}
	if log := s.must("tradewind logs " + id + " read"); strings.TrimSpace(log) != "10" {
		t.Errorf("log %q", log)
	}
	var status struct {
		SpentUSD float64
		TaskList []struct{ Offer string }
	}
	if err := json.Unmarshal([]byte(s.must("tradewind status -o json "+id)), &status); err != nil {
		t.Fatal(err)
	}
	if len(status.TaskList) != 2 || !strings.HasPrefix(status.TaskList[0].Offer, "lambda/us-east-1/") || status.SpentUSD <= 0 {
		t.Errorf("%+v", status)
	}
	var check struct {
		Clouds []struct {
			Name     string
			Machines int
		}
		Public struct{ Answers bool }
	}
	if err := json.Unmarshal([]byte(s.must("tradewind cloud check -o json")), &check); err != nil {
		t.Fatal(err)
	}
	if !check.Public.Answers {
		t.Errorf("%+v", check)
	}
	stop()
	if left := account.LiveMachines(); len(left) > 0 {
		t.Errorf("machines %v are left", left)
	}
	bills := account.Bills()
	var billed float64
	for _, b := range bills {
		billed += b.USD
		noSecret(t, account.UserData(b.ID), key)
	}
	if len(bills) != 2 || billed <= 0 {
		t.Errorf("bills %+v", bills)
	}
	noSecret(t, s.must("tradewind explain "+id), key)
	// the folder of the broker (records, events, logs, outputs), and the machines' folder
	for _, folder := range []string{s.stateFolder(), disks} {
		err := filepath.WalkDir(folder, func(path string, d os.DirEntry, err error) error {
			if err != nil || !d.Type().IsRegular() {
				return err
			}
			body, err := os.ReadFile(path)
			noSecret(t, string(body), key)
			return err
		})
		if err != nil {
			t.Error(err)
		}
	}
	s.must("tradewind cloud remove lambda")
}

// killable starts a broker that the test kills.
func (s *shell) killable(flags string) *exec.Cmd {
	s.t.Helper()
	cmd := s.command("tradewind up -o json " + flags)
	stdout, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		s.t.Fatal(err)
	}
	lines := bufio.NewScanner(stdout)
	for lines.Scan() && !strings.Contains(lines.Text(), `"dashboard"`) {
	}
	go func() { _, _ = io.Copy(io.Discard, stdout) }()
	s.t.Cleanup(func() { _ = cmd.Process.Kill() })
	return cmd
}

// stateFolder returns the state folder that the environment names.
func (s *shell) stateFolder() string {
	for _, kv := range slices.Backward(s.env) {
		if dir, ok := strings.CutPrefix(kv, "TRADEWIND_STATE="); ok {
			return dir
		}
	}
	s.t.Fatal("no state folder")
	return ""
}

func noSecret(t *testing.T, text, secret string) {
	t.Helper()
	if strings.Contains(text, secret) {
		t.Error("the API key is where it should not be")
	}
}
