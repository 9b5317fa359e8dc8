package host_test

import (
	"context"
	"errors"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/internal/agent/wire"
	"github.com/tradewind-broker/tradewind/internal/base/freeport"
	"github.com/tradewind-broker/tradewind/internal/broker"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/internal/cloud/driver"
	"github.com/tradewind-broker/tradewind/internal/cloud/lambdalabs"
	"github.com/tradewind-broker/tradewind/internal/cloudkit"
	"github.com/tradewind-broker/tradewind/internal/emulator/lambdacloud"
	"github.com/tradewind-broker/tradewind/internal/host"
	"github.com/tradewind-broker/tradewind/internal/identity"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/dag"
	"github.com/tradewind-broker/tradewind/pkg/dag/native"
)

// bought is an emulated account whose machines boot on this computer, and the options of a host that buys there.
type bought struct {
	account *lambdacloud.Cloud
	options host.Options
}

func newBought(t *testing.T) bought {
	t.Helper()
	account := lambdacloud.New(lambdacloud.Config{Dir: t.TempDir(), Fault: func(err error) { t.Error(err) }})
	server := httptest.NewServer(account)
	t.Cleanup(server.Close)
	t.Cleanup(account.Close)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	program := filepath.Join(folder, runtime.GOARCH, "tradewind-agent")
	if err := os.MkdirAll(filepath.Dir(program), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(program, []byte("#!/bin/sh\nexec '"+self+"' agent\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	agents, programs, err := cloudkit.FindAgents(filepath.Join(folder, "none"), folder)
	if err != nil {
		t.Fatal(err)
	}
	kit := cloudkit.Kit{
		Name: "lambda", Ready: func(cloudkit.Settings, cloudkit.Lookup) error { return nil },
		Open: func(_ context.Context, r cloudkit.Request) (*cloudkit.Opened, error) {
			c := lambdalabs.New(lambdalabs.Config{Deployment: r.Deployment, Endpoint: server.URL, LaunchEvery: -1, Agents: r.Agents,
				Graves: r.Graves, Regions: r.Settings.Regions, Log: r.Log,
				Key: func(context.Context) (string, error) { return lambdacloud.DefaultKey, nil }})
			return &cloudkit.Opened{Cloud: c, Checker: c, Regions: r.Settings.Regions,
				Refresh: func(ctx context.Context, s driver.Snapshots) (driver.Refreshed, error) {
					one := lambdalabs.Refresher{Source: c, Snapshots: s, Now: time.Now}
					res, err := one.Refresh(ctx)
					return driver.Refreshed{Offers: res.Offers}, err
				}}, nil
		},
	}
	const address = "127.0.0.1:0"
	return bought{account, host.Options{
		State: t.TempDir(), TimeScale: 1, Addr: address, Agents: agents, Programs: programs, PublicURL: "https://not.yet.known",
		Clouds: []host.Bought{{Kit: kit, Settings: cloudkit.Settings{Regions: []string{"us-east-1", "us-west-2"}}}},
	}}
}

func job(t *testing.T, text string) *dag.Job {
	t.Helper()
	spec, err := native.Parse("job.yaml", []byte("apiVersion: tradewind/v1\nname: job\n"+text))
	if err != nil {
		t.Fatal(err)
	}
	return spec
}

func TestPublicURL(t *testing.T) {
	for text, want := range map[string]string{
		"https://b.example": "https://b.example", "https://b.example:8443/": "https://b.example:8443", "http://127.0.0.1:80": "http://127.0.0.1:80",
		"http://localhost:8080": "http://localhost:8080", "http://[::1]:8080": "http://[::1]:8080",
		"http://tradewind.batch.svc": "http://tradewind.batch.svc", "http://x.svc": "", "http://a.b.svc.example.com": "",
		"": "", "b.example": "", "http://b.example": "", "http://10.0.0.1": "", "https://b.example/x": "", "https://u:p@b.example": "",
		"ftp://b.example": "", "https://b.example?x=y": "", "https://": "",
	} {
		got, err := host.PublicURL(text)
		if got != want || (want == "") != errors.Is(err, host.ErrPublicURL) {
			t.Errorf("%q: %q, %v", text, got, err)
		}
	}
}

func TestPlansUseOnlyBuyableOffers(t *testing.T) {
	spec := job(t, "tasks: {a: {run: x, time: 1h, resources: {cpus: 2+}}}")
	for _, c := range []struct {
		others bool
		want   string
	}{{false, "lambda/us-"}, {true, ""}} {
		b := newBought(t)
		b.options.PlayOthers = c.others
		h, err := host.Open(t.Context(), b.options)
		if err != nil {
			t.Fatal(err)
		}
		plan, err := h.Broker().Users.DryRun(t.Context(), spec)
		if err != nil {
			t.Fatal(err)
		}
		offer := plan.Offers[plan.Choice[0]].ID
		if !strings.HasPrefix(offer, c.want) || c.others == strings.HasPrefix(offer, "lambda/") {
			t.Errorf("others are played: %v; planned on %s", c.others, offer)
		}
		if err := h.Close(); err != nil {
			t.Error(err)
		}
	}
}

// The broker's folder of agents has only one architecture. No machine of another architecture may be planned.
func TestPlansOnlyMachinesWithAgent(t *testing.T) {
	b := newBought(t)
	b.options.Agents = driver.Agents{"amd64": b.options.Agents[runtime.GOARCH]}
	h, err := host.Open(t.Context(), b.options)
	if err != nil {
		t.Fatal(err)
	}
	plan, err := h.Broker().Users.DryRun(t.Context(), job(t, "tasks: {a: {run: x, resources: {accelerators: \"GH200:1\"}}}"))
	if err != nil {
		t.Fatal(err)
	}
	if plan.Status != record.PlanInfeasible || !strings.Contains(plan.Message, "no agent for arm64 machines") {
		t.Errorf("%s: %s", plan.Status, plan.Message)
	}
	if err := h.Close(); err != nil {
		t.Error(err)
	}
}

// A killed host has left machines in a cloud. A host without that cloud would never find them, so it must refuse the
// state folder.
func TestOpenRejectsFolderWithUnendedMachines(t *testing.T) {
	b := newBought(t)
	open := func(o host.Options) error {
		h, err := host.Open(t.Context(), o)
		if err != nil {
			return err
		}
		return h.Close() // ends the host without a clean end, as if it had been killed
	}
	if err := open(b.options); err != nil {
		t.Fatal(err)
	}
	without, renamed := b.options, b.options
	without.Clouds, renamed.Deployment = nil, "another"
	for name, o := range map[string]host.Options{"without the cloud": without, "under another name": renamed} {
		if err := open(o); !errors.Is(err, host.ErrUnended) || !strings.Contains(err.Error(), "lambda") && !strings.Contains(err.Error(), "tradewind-") {
			t.Errorf("%s: %v", name, err)
		}
	}
	passive := without
	passive.Passive = true
	if err := open(passive); err != nil {
		t.Errorf("reading: %v", err)
	}
	_, stop := serve(t, b.options)
	stop()
	if err := open(without); err != nil {
		t.Errorf("after a clean end: %v", err)
	}
	if err := open(b.options); err != nil {
		t.Fatal(err)
	}
	if err := host.Forget(b.options.State, "lambda"); err != nil {
		t.Fatal(err)
	}
	if err := open(without); err != nil {
		t.Errorf("after Forget: %v", err)
	}
}

func TestDeploymentNameIsStable(t *testing.T) {
	dir := t.TempDir()
	first, err := host.DeploymentOf(dir)
	again, err2 := host.DeploymentOf(dir)
	other, err3 := host.DeploymentOf(t.TempDir())
	if errors.Join(err, err2, err3) != nil || first != again || first == other || !strings.HasPrefix(first, "tradewind-") {
		t.Errorf("%q %q %q", first, again, other)
	}
}

// A cloud takes a machine without notice: the machine must be replaced. If the cloud has no capacity left, another
// location must be tried.
func TestReplacesPreemptedBoughtMachine(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for a preemption")
	}
	t.Parallel()
	b := newBought(t)
	h := serveBought(t, b)
	b.account.SetOutOfStock("", "us-east-1", true)
	marks := t.TempDir()
	submitted, err := h.Broker().Users.Submit(t.Context(), broker.Submission{Spec: job(t, `
tasks:
  a:
    run: 'touch "`+marks+`/begun"; while [ -e "`+marks+`/wait" ]; do sleep 0.05; done; echo done >"$TRADEWIND_OUTPUT/out.txt"'
    time: 1h
    resources: {cpus: 2+}
`)})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(marks, "wait"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	begun := filepath.Join(marks, "begun")
	until(t, func() bool { _, err := os.Stat(begun); return err == nil })
	if err := b.account.Preempt(b.account.LiveMachines()[0]); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(marks, "wait")); err != nil {
		t.Fatal(err)
	}
	d := await(t, h.Broker(), submitted.ID)
	if d.State != apitypes.JobSucceeded || len(b.account.Bills()) != 2 || d.SpentUSD <= 0 {
		t.Errorf("%s after %d machines, %.4f USD: %s\n%+v", d.State, len(b.account.Bills()), d.SpentUSD, d.Reason, outcomes(d))
	}
	for _, bill := range b.account.Bills() {
		if bill.Region != "us-west-2" {
			t.Errorf("a machine was bought where there was none: %+v", bill)
		}
	}
}

// A cloud reports new offers. The broker must plan on them without a restart, and also after one. If the cloud does
// not answer, its old offers must stay.
func TestPlansWithRefreshedOffers(t *testing.T) {
	b := newBought(t)
	const gone = "tasks: {a: {run: x, time: 1h, resources: {accelerators: 'V100:8'}}}"
	before, err := host.Open(t.Context(), b.options)
	if err != nil {
		t.Fatal(err)
	}
	cheap := "tasks: {a: {run: x, time: 1h, resources: {accelerators: 'A10:1'}}}"
	plan, err := before.Broker().Users.DryRun(t.Context(), job(t, cheap))
	if err != nil || plan.Offers[plan.Choice[0]].Offer.USDPerHour == 0.75 {
		t.Fatalf("%+v %v: the test does not test", plan, err)
	}
	if err := before.Close(); err != nil {
		t.Fatal(err)
	}
	h, stop := serve(t, b.options)
	today := func(h *host.Host) bool {
		plan, err := h.Broker().Users.DryRun(t.Context(), job(t, cheap))
		return err == nil && plan.Offers[plan.Choice[0]].Offer.USDPerHour == 0.75
	}
	until(t, func() bool { return today(h) })
	stop()
	b.account.Revoke(true)
	again, err := host.Open(t.Context(), b.options)
	if err != nil {
		t.Fatal(err)
	}
	if !today(again) {
		t.Error("after a restart the prices are the old ones")
	}
	if plan, err := again.Broker().Users.DryRun(t.Context(), job(t, gone)); err != nil || len(plan.Offers) == 0 {
		t.Errorf("the offers that are still sold: %+v %v", plan, err)
	}
	if err := again.Close(); err != nil {
		t.Error(err)
	}
}

// unproven is a cloud whose machines must prove their identity.
type unproven struct{}

func (unproven) Verify(context.Context, string, string) (wire.Machine, error) {
	return wire.Machine{}, identity.ErrInvalid
}

// The machines of a cloud can prove their identity. A machine without a proof must get no work.
func TestBoughtMachineMustProveIdentity(t *testing.T) {
	b := newBought(t)
	open := b.options.Clouds[0].Kit.Open
	b.options.Clouds[0].Kit.Open = func(ctx context.Context, r cloudkit.Request) (*cloudkit.Opened, error) {
		o, err := open(ctx, r)
		if err == nil {
			o.Verifier = unproven{}
		}
		return o, err
	}
	h := serveBought(t, b)
	submitted, err := h.Broker().Users.Submit(t.Context(), broker.Submission{Spec: job(t, "tasks: {a: {run: x, time: 1h, resources: {cpus: 2+}}}")})
	if err != nil {
		t.Fatal(err)
	}
	until(t, func() bool {
		d, err := h.Broker().Views.JobDetail(t.Context(), submitted.ID)
		return err == nil && len(d.Attempts) > 0 && strings.Contains(d.Attempts[len(d.Attempts)-1].Doubt, "did not prove its identity")
	})
	if err := h.Broker().Users.Cancel(t.Context(), submitted.ID, "seen"); err != nil {
		t.Error(err)
	}
}

// serveBought serves a host at an address that the bought machines can reach.
func serveBought(t *testing.T, b bought) *host.Host {
	t.Helper()
	b.options.Addr = freeAddress(t)
	b.options.PublicURL = "http://" + b.options.Addr
	h, _ := serve(t, b.options)
	return h
}

func freeAddress(t *testing.T) string {
	t.Helper()
	address, err := freeport.Address()
	if err != nil {
		t.Fatal(err)
	}
	return address
}

func outcomes(d *apitypes.JobDetail) (all []apitypes.Outcome) {
	for _, a := range d.Attempts {
		all = append(all, a.Outcome)
	}
	return all
}

// until waits for a change that another process makes.
func until(t *testing.T, ok func() bool) {
	t.Helper()
	for !ok() {
		select {
		case <-t.Context().Done():
			t.Fatal(t.Context().Err())
		case <-time.After(20 * time.Millisecond):
		}
	}
}
