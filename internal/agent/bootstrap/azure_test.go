package bootstrap_test

import (
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/internal/agent"
	"github.com/tradewind-broker/tradewind/internal/agent/attest"
	"github.com/tradewind-broker/tradewind/internal/agent/bootstrap"
	"github.com/tradewind-broker/tradewind/internal/agent/bootstrap/imdstest"
	"github.com/tradewind-broker/tradewind/internal/agent/notices"
	"github.com/tradewind-broker/tradewind/internal/agent/proc"
	"github.com/tradewind-broker/tradewind/internal/base/clock"
	"github.com/tradewind-broker/tradewind/internal/identity"
)

// onAzure returns an Azure machine of rank 2, its metadata service, and the service's address.
func onAzure(t *testing.T) (*machine, *imdstest.AzureMachine, string) {
	t.Helper()
	m, rank := newMachine(t, stub), 2
	m.told.Cloud, m.told.OnlyRank = "azure", &rank
	authority, err := imdstest.NewAzureAuthority()
	if err != nil {
		t.Fatal(err)
	}
	issuers := httptest.NewServer(authority)
	t.Cleanup(issuers.Close)
	authority.Issuers = issuers.URL
	service := &imdstest.AzureMachine{
		VMID: "02aab8a4-74ef-476e-8182-f6d2ba4166a6", Name: "tw-1-2", Address: "127.0.0.7", Region: "westeurope",
		Subscription: "8d10da13-8125-4ba9-a717-bf7490507b3d", Signer: authority,
	}
	server := httptest.NewServer(service)
	t.Cleanup(server.Close)
	return m, service, server.URL
}

func (m *machine) bootAzure(metadata string) (string, error) {
	m.Helper()
	script, err := bootstrap.Plain(m.script())
	if err != nil {
		m.Fatal(err)
	}
	file := filepath.Join(m.TempDir(), "script")
	if err := os.WriteFile(file, script, 0o600); err != nil {
		m.Fatal(err)
	}
	cmd := exec.CommandContext(m.Context(), "bash", file)
	cmd.Env = []string{bootstrap.EnvRoot + "=" + m.root, notices.EnvURL + "=" + metadata, "TRADEWIND_PAUSE=0",
		"PATH=" + m.path, "HOME=" + m.root}
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func TestAzureMachineStartsAgentWithVMID(t *testing.T) {
	m, service, url := onAzure(t)
	out, err := m.bootAzure(url)
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, want := range []string{
		"token: two\n", proc.MachineEnv + "=" + service.VMID + "\n", agent.EnvAddress + "=127.0.0.7\n",
		notices.EnvCloud + "=azure\n", attest.EnvCloud + "=azure\n",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in:\n%s", want, out)
		}
	}
	if script := string(m.script()); strings.Contains(script, "zero") || strings.Contains(script, "'one'") {
		t.Error("the script contains the tokens of other machines")
	}
}

func TestAzureMachineWithoutMetadataPowersOff(t *testing.T) {
	m, _, _ := onAzure(t)
	if out, err := m.bootAzure("http://127.0.0.1:1"); err == nil || !strings.Contains(out, "metadata does not answer") {
		t.Errorf("%v\n%s", err, out)
	}
}

// The agent must get a proof that names the machine from the metadata service, and turn a scheduled event into a
// notice.
func TestMetadataServiceProvesAndWarns(t *testing.T) {
	_, service, url := onAzure(t)
	ask, err := attest.New(attest.Config{Cloud: "azure", URL: url})
	if err != nil {
		t.Fatal(err)
	}
	proof, err := ask(t.Context(), "nonce")
	if err != nil {
		t.Fatal(err)
	}
	cfg, err := identity.LocalAzure([]byte(service.Signer.Certificates()))
	if err != nil {
		t.Fatal(err)
	}
	check, err := identity.NewAzure(cfg)
	if err != nil {
		t.Fatal(err)
	}
	who, err := check.Verify(t.Context(), proof.Document, "nonce")
	if err != nil || who.ID != service.VMID || who.Account != service.Subscription {
		t.Errorf("%+v, %v", who, err)
	}
	at := time.Now().Add(time.Minute).UTC().Truncate(time.Second)
	service.Schedule("Freeze", at) // a Freeze only pauses the machine for seconds
	service.Schedule("Redeploy", at)
	watch, err := notices.New("azure", notices.Config{URL: url, Clock: clock.System()})
	if err != nil {
		t.Fatal(err)
	}
	told := make(chan notices.Notice, 1)
	go watch.Watch(t.Context(), func(n notices.Notice) { told <- n })
	if n := <-told; n.Kind != notices.Interruption || !n.At.Equal(at) {
		t.Errorf("%+v, announced for %v", n, at)
	}
}
