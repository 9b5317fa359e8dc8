package kits_test

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

	"github.com/tradewind-broker/tradewind/internal/base/clock"
	"github.com/tradewind-broker/tradewind/internal/broker"
	"github.com/tradewind-broker/tradewind/internal/cloudkit"
	"github.com/tradewind-broker/tradewind/internal/cloudkit/kits"
	"github.com/tradewind-broker/tradewind/internal/emulator/arm"
	"github.com/tradewind-broker/tradewind/internal/emulator/gce"
	"github.com/tradewind-broker/tradewind/internal/emulator/lambdacloud"
	"github.com/tradewind-broker/tradewind/internal/host"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/dag/native"
)

const anywhere = `apiVersion: tradewind/v1
name: anywhere
tasks:
  a:
    run: sleep 60
    time: 1h
    resources:
      anyOf:
        - {cloud: gcp, instanceType: n2-standard-4, market: on-demand}
        - {cloud: azure, instanceType: Standard_D4s_v3, market: on-demand}
        - {cloud: lambda, accelerators: "A10:1"}
`

// One cloud has a wrong setup. The job must continue in another cloud after one new plan, and the failed attempt must
// show the first cloud's message.
func TestJobContinuesOnAnotherCloudIfOneIsNotReady(t *testing.T) {
	if testing.Short() {
		t.Skip("waits until a cloud is blocked, on four accounts")
	}
	for name, c := range map[string]struct {
		spoil func(google *gce.Cloud, azure *arm.Server, settings map[string]cloudkit.Settings)
		on    string // the cloud that refuses
		says  string
	}{
		"a missing project": {func(_ *gce.Cloud, _ *arm.Server, s map[string]cloudkit.Settings) {
			g := s["gcp"]
			g.Project = "nope"
			s["gcp"] = g
		}, "gcp", "'projects/nope' was not found"},
		"a disabled API": {func(g *gce.Cloud, _ *arm.Server, _ map[string]cloudkit.Settings) {
			g.Disable("compute.googleapis.com", true)
		}, "gcp", "Compute Engine API has not been used in project demo"},
		"a subscription without rights": {func(_ *gce.Cloud, a *arm.Server, _ map[string]cloudkit.Settings) {
			a.Deny("*")
		}, "azure", "does not have authorization"},
		"a clock that is wrong by ten minutes": {func(_ *gce.Cloud, a *arm.Server, _ map[string]cloudkit.Settings) {
			a.Skew(10 * time.Minute)
		}, "azure", "The access token expiry UTC time"},
	} {
		t.Run(name, func(t *testing.T) {
			google, err := gce.New(gce.Config{})
			if err != nil {
				t.Fatal(err)
			}
			azure, gpus := arm.New(arm.Config{}), lambdacloud.New(lambdacloud.Config{})
			serve := func(s *httptest.Server) string { t.Cleanup(s.Close); return s.URL }
			key := filepath.Join(t.TempDir(), "key")
			if err := os.WriteFile(key, []byte(lambdacloud.DefaultKey), 0o600); err != nil {
				t.Fatal(err)
			}
			settings := map[string]cloudkit.Settings{
				"gcp": {Project: "demo", Regions: []string{"us-central1"}, Endpoint: serve(httptest.NewServer(google))},
				"azure": {Subscription: arm.DefaultSubscription, Regions: []string{"eastus"},
					Endpoint: serve(httptest.NewServer(azure))},
				"lambda": {KeyFile: key, Regions: []string{"us-east-1"}, Endpoint: serve(httptest.NewServer(gpus))},
			}
			c.spoil(google, azure, settings)
			o := options(t)
			for _, k := range kits.All() {
				if s, chosen := settings[k.Name]; chosen && (k.Name == c.on || k.Name == "lambda") {
					o.Clouds = append(o.Clouds, host.Bought{Kit: k, Settings: s})
				}
			}
			h, err := host.Open(t.Context(), o)
			if err != nil {
				t.Fatal(err)
			}
			ctx, stop := context.WithCancel(t.Context())
			over := make(chan error, 1)
			go func() { over <- h.Serve(ctx) }()
			defer func() { stop(); <-over; _ = h.Close() }()
			spec, err := native.Parse("job.yaml", []byte(anywhere))
			if err != nil {
				t.Fatal(err)
			}
			submitted, err := h.Broker().Users.Submit(t.Context(), broker.Submission{Spec: spec})
			if err != nil {
				t.Fatal(err)
			}
			within, cancel := context.WithTimeout(t.Context(), 3*time.Minute) // ends a test that hangs
			defer cancel()
			var d *apitypes.JobDetail
			for len(gpus.LiveMachines()) == 0 {
				if d, err = h.Broker().Views.JobDetail(t.Context(), submitted.ID); err != nil || d.State.Finished() {
					t.Fatalf("%+v, %v", d, err)
				}
				if err := clock.Pause(within, 20*time.Millisecond); err != nil {
					t.Fatalf("no machine on another cloud: %s %s\n%+v", d.State, d.Reason, d.Attempts)
				}
			}
			if d, err = h.Broker().Views.JobDetail(t.Context(), submitted.ID); err != nil || len(d.Attempts) < 2 {
				t.Fatalf("%+v, %v", d, err)
			}
			first := d.Attempts[0]
			if first.Offer.Cloud != c.on || !strings.Contains(first.Reason, c.says) {
				t.Errorf("on %s: %s", first.Offer.Cloud, first.Reason)
			}
		})
	}
}

// options returns the options of a host whose machines never boot.
func options(t *testing.T) host.Options {
	t.Helper()
	folder := t.TempDir()
	program := filepath.Join(folder, runtime.GOARCH, "tradewind-agent")
	err := errors.Join(os.MkdirAll(filepath.Dir(program), 0o700), os.WriteFile(program, []byte("#!/bin/sh\n"), 0o600))
	if err != nil {
		t.Fatal(err)
	}
	agents, programs, err := cloudkit.FindAgents(filepath.Join(folder, "none"), folder)
	if err != nil {
		t.Fatal(err)
	}
	return host.Options{State: t.TempDir(), TimeScale: 1, Addr: "127.0.0.1:0", Agents: agents, Programs: programs,
		PublicURL: "https://broker.example"}
}
