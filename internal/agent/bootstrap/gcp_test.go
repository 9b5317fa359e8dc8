package bootstrap_test

import (
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tradewind-broker/tradewind/internal/agent"
	"github.com/tradewind-broker/tradewind/internal/agent/attest"
	"github.com/tradewind-broker/tradewind/internal/agent/bootstrap"
	"github.com/tradewind-broker/tradewind/internal/agent/bootstrap/imdstest"
	"github.com/tradewind-broker/tradewind/internal/agent/notices"
	"github.com/tradewind-broker/tradewind/internal/agent/proc"
	"github.com/tradewind-broker/tradewind/internal/identity"
)

// A machine of Google Cloud must find its ID, its address, and its rank, which is at the end of its name.
func TestGoogleMachineFindsItsIdentity(t *testing.T) {
	for name, want := range map[string]string{"tw-job-0123-1": "token: one\n", "tw-job-0123-010": "token: ten\n"} {
		m := newMachine(t, stub)
		service := httptest.NewServer(&imdstest.GoogleMachine{ID: "4815162342", Name: name, Address: "127.0.0.7",
			Zone: "us-central1-a"})
		t.Cleanup(service.Close)
		m.told.Cloud = "gcp"
		m.told.Tokens = []string{"0", "one", "2", "3", "4", "5", "6", "7", "8", "9", "ten"}
		m.told.Environment["GCE_METADATA_HOST"] = strings.TrimPrefix(service.URL, "http://")
		out, err := m.boot(m.script())
		if err != nil {
			t.Fatalf("%s: %v\n%s", name, err, out)
		}
		for _, want := range []string{want, proc.MachineEnv + "=4815162342\n", agent.EnvAddress + "=127.0.0.7\n",
			notices.EnvCloud + "=gcp\n", attest.EnvCloud + "=gcp\n"} {
			if !strings.Contains(out, want) {
				t.Errorf("%s: no %q in:\n%s", name, want, out)
			}
		}
	}
}

func TestGoogleMachineWithoutRankPowersOff(t *testing.T) {
	for _, name := range []string{"tw-job-0123-3", "by-hand"} {
		m := newMachine(t, stub)
		service := httptest.NewServer(&imdstest.GoogleMachine{ID: "1", Name: name, Address: "127.0.0.7"})
		t.Cleanup(service.Close)
		m.told.Cloud = "gcp"
		m.told.Environment["GCE_METADATA_HOST"] = strings.TrimPrefix(service.URL, "http://")
		if out, err := m.boot(m.script()); err == nil || strings.Contains(out, "token:") {
			t.Errorf("%s: %v\n%s", name, err, out)
		}
	}
}

// The broker must accept a proof that the metadata server has signed.
func TestGoogleMachineProvesItsIdentity(t *testing.T) {
	authority, err := imdstest.NewGoogleAuthority()
	if err != nil {
		t.Fatal(err)
	}
	keys := httptest.NewServer(authority)
	t.Cleanup(keys.Close)
	service := httptest.NewServer(&imdstest.GoogleMachine{
		ID: "4815162342", Project: "demo", Zone: "us-central1-a", ServiceAccount: "machines@demo", Signer: authority,
	})
	t.Cleanup(service.Close)
	ask, err := attest.New(attest.Config{Cloud: "gcp", URL: service.URL, Audience: "https://broker.example"})
	if err != nil {
		t.Fatal(err)
	}
	proof, err := ask(t.Context(), "nonce")
	if err != nil {
		t.Fatal(err)
	}
	v, err := identity.NewGoogle(identity.GoogleConfig{Audience: "https://broker.example", Keys: keys.URL})
	if err != nil {
		t.Fatal(err)
	}
	m, err := v.Verify(t.Context(), proof.Document, "nonce")
	if err != nil || m.ID != "4815162342" || m.Account != "demo" || m.Region != "us-central1" {
		t.Errorf("%+v %v", m, err)
	}
}

// A preemption on Google Cloud shuts the machine down, which stops all systemd units at once. The agent's unit must
// stop before the network and the container engine, systemd must wait for the agent longer than the 30 seconds until
// the power is cut, and an inhibitor must delay the shutdown while the agent runs, for the 5 seconds of
// logind.conf(5)'s InhibitDelayMaxSec. Sources: systemd.unit(5) (units are stopped in the inverse of their start-up
// order); Google's own google-shutdown-scripts.service is After=network-online.target, too.
func TestGoogleUnitStopsBeforeNetworkAndEngine(t *testing.T) {
	m := newMachine(t, stub)
	service := httptest.NewServer(&imdstest.GoogleMachine{ID: "4815162342", Name: "tw-job-0123-1",
		Address: "127.0.0.7"})
	t.Cleanup(service.Close)
	m.told.Cloud = "gcp"
	m.told.Environment["GCE_METADATA_HOST"] = strings.TrimPrefix(service.URL, "http://")
	m.told.Environment[bootstrap.EnvSystemd] = "yes"
	for name, script := range map[string]string{
		"systemctl":       "#!/bin/sh\nexit 1\n",
		"systemd-inhibit": "#!/bin/sh\nexit 1\n",
		"systemd-run":     "#!/bin/sh\necho unit begins\nfor word; do echo \"word: $word\"; done\n",
	} {
		if err := os.WriteFile(filepath.Join(m.path, name), []byte(script), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	out, err := m.boot(m.script())
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	units := strings.Split(out, "unit begins\n")[1:]
	if len(units) != 2 {
		t.Fatalf("%d units, want the agent and the inhibitor:\n%s", len(units), out)
	}
	for i, want := range [][]string{
		{"--unit=tradewind-agent", "--property=After=network-online.target", "--property=After=docker.service",
			"--property=After=containerd.service", "--property=TimeoutStopSec=45", "--property=KillMode=mixed"},
		{"--unit=tradewind-inhibit", "--property=BindsTo=tradewind-agent.service",
			"--property=After=tradewind-agent.service", "systemd-inhibit", "--what=shutdown", "--mode=delay"},
	} {
		for _, word := range want {
			if !strings.Contains(units[i], "word: "+word+"\n") {
				t.Errorf("unit %d: no %q in:\n%s", i, word, units[i])
			}
		}
	}
}
