package lambdalabs_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/internal/cloud/lambdalabs"
	"github.com/tradewind-broker/tradewind/internal/emulator/lambdacloud"
	"github.com/tradewind-broker/tradewind/internal/secret"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
)

func (w *world) launch(c *lambdalabs.Cloud, spec cloud.LaunchSpec) []cloud.Machine {
	w.Helper()
	machines, err := c.Launch(w.Context(), spec)
	if err != nil {
		w.Fatal(err)
	}
	return machines
}

func (w *world) living(want ...cloud.Machine) {
	w.Helper()
	var ids []string
	for _, m := range want {
		ids = append(ids, m.ID)
	}
	slices.Sort(ids)
	if have := w.account.LiveMachines(); !slices.Equal(have, ids) {
		w.Errorf("machines %v are running, not %v", have, ids)
	}
}

func code(err error) string {
	var e *cloud.Error
	errors.As(err, &e)
	if e == nil {
		return ""
	}
	return e.Code
}

// Tasks can read the user data of a machine. So it must contain only the machine's own token, and be uncompressed for
// any number of machines.
func TestUserDataContainsOnlyOwnToken(t *testing.T) {
	w := newWorld(t, nil)
	s := spec("many", 3)
	for i := range s.Bootstrap.Tokens {
		s.Bootstrap.Tokens[i] += strings.Repeat("x", 9000) // so long that other clouds' user data would be compressed
	}
	for _, m := range w.launch(w.lambda, s) {
		data := w.account.UserData(m.ID)
		for rank, token := range s.Bootstrap.Tokens {
			if strings.Contains(data, token) != (rank == m.Rank) {
				t.Errorf("rank %d has the token of rank %d, or lacks its own", m.Rank, rank)
			}
		}
		if !strings.HasPrefix(data, "#!/bin/bash") || !strings.Contains(data, "cloud='lambda'") || !strings.Contains(data, digest) {
			t.Errorf("user data %.80q", data)
		}
	}
	if strings.Contains(w.log.String(), "token-many") || strings.Contains(w.log.String(), lambdacloud.DefaultKey) {
		t.Error("the log contains a secret")
	}
}

func TestArmMachineGetsArmAgent(t *testing.T) {
	w := newWorld(t, nil)
	s := spec("arm", 1)
	s.Offer.InstanceType, s.Offer.Region, s.Offer.Accelerator = "gpu_1x_gh200", "us-east-3", "GH200"
	m := w.launch(w.lambda, s)[0]
	if data := w.account.UserData(m.ID); !strings.Contains(data, strings.Repeat("f", 64)) {
		t.Error("the user data names another agent")
	}
	listed, err := w.lambda.Machines(t.Context(), "arm")
	if err != nil || len(listed) != 1 || listed[0].Offer.Accelerator != "GH200" || listed[0].Offer.USDPerHour != 1.49 {
		t.Errorf("%+v %v", listed, err)
	}
}

// Another process must find the cluster by the machines' names alone, and buy nothing.
func TestClusterIsFoundByNames(t *testing.T) {
	for _, cluster := range []string{"short.0.1", strings.Repeat("long-", 40) + ".0.1"} {
		w := newWorld(t, nil)
		first := w.launch(w.lambda, spec(cluster, 2))
		again := w.launch(lambdalabs.New(w.cfg), spec(cluster, 2))
		if first[0].ID != again[0].ID || first[1].ID != again[1].ID {
			t.Errorf("%v, then %v", first, again)
		}
		all, err := lambdalabs.New(w.cfg).Machines(t.Context(), "")
		if err != nil || len(all) != 2 || all[0].Cluster != cluster || all[1].Rank != 1 {
			t.Errorf("%+v %v", all, err)
		}
		w.living(first...)
	}
}

// Two processes do not see each other's machines, so both buy. When the lists show all machines, both must keep the
// same ones and end the others.
func TestDuplicatesAreEnded(t *testing.T) {
	w := newWorld(t, func(c *lambdalabs.Config) { c.SeenWithin = time.Nanosecond })
	w.account.Lag(2)
	first := w.launch(w.lambda, spec("a", 1))
	w.launch(lambdalabs.New(w.cfg), spec("a", 1))
	if n := len(w.account.LiveMachines()); n != 2 {
		t.Fatalf("%d machines: there is no duplicate to end", n)
	}
	for range 3 { // until both are listed
		if _, err := lambdalabs.New(w.cfg).Machines(t.Context(), ""); err != nil {
			t.Fatal(err)
		}
	}
	w.living(first...)
	if !strings.Contains(w.log.String(), "duplicate") {
		t.Error("the duplicate is not logged")
	}
}

// The answer of a launch is lost, and no list shows its machine before the cluster is terminated. The machine must be
// ended as soon as a list shows it.
func TestUnlistedMachineOfTerminatedClusterIsEnded(t *testing.T) {
	w := newWorld(t, func(c *lambdalabs.Config) { c.SeenWithin = time.Nanosecond })
	w.account.Lag(3)
	w.account.LoseAnswer()
	if _, err := w.lambda.Launch(t.Context(), spec("a", 1)); cloud.KindOf(err) != cloud.Transient {
		t.Fatal(err)
	}
	if err := w.lambda.Terminate(t.Context(), "a"); err != nil || len(w.account.LiveMachines()) != 1 {
		t.Fatalf("%v, %d: the machine was not missed", err, len(w.account.LiveMachines()))
	}
	for range 3 {
		if _, err := w.lambda.Machines(t.Context(), ""); err != nil {
			t.Fatal(err)
		}
	}
	w.living()
}

// A complete cluster loses a machine. The whole cluster must count as lost.
func TestClusterWithLostMachineIsLost(t *testing.T) {
	w := newWorld(t, nil)
	machines := w.launch(w.lambda, spec("a", 3))
	if err := w.account.Preempt(machines[1].ID); err != nil {
		t.Fatal(err)
	}
	listed, err := w.lambda.Machines(t.Context(), "a")
	if err != nil || listed[1].State != cloud.Terminated || listed[1].Reason == "" {
		t.Errorf("%+v %v", listed, err)
	}
	_, err = w.lambda.Launch(t.Context(), spec("a", 3))
	if cloud.KindOf(err) != cloud.Capacity || code(err) != "ClusterLost" {
		t.Errorf("%v", err)
	}
	w.living()
}

// A launch is throttled after some machines. The next call must keep them and buy the others.
func TestThrottledLaunchContinues(t *testing.T) {
	w := newWorld(t, nil)
	w.account.FailLaunch(2, lambdacloud.FailureOf("global/rate-limit-exceeded"))
	if _, err := w.lambda.Launch(t.Context(), spec("a", 4)); cloud.KindOf(err) != cloud.Throttled {
		t.Fatal(err)
	}
	w.launch(w.lambda, spec("a", 4))
	if n := w.account.Calls("launchInstance"); n != 5 {
		t.Errorf("%d launches for 4 machines, one of them refused", n)
	}
}

func TestThrottledListIsRetried(t *testing.T) {
	w := newWorld(t, nil)
	w.account.Throttle(1)
	if _, err := w.lambda.Machines(t.Context(), ""); err != nil {
		t.Error(err)
	}
}

// Launches of one process must keep the API's minimum time between them. A launch that would have to wait too long
// must fail with a RetryAfter.
func TestLaunchRateLimit(t *testing.T) {
	w := newWorld(t, func(c *lambdalabs.Config) { c.LaunchEvery = time.Hour })
	w.launch(w.lambda, spec("a", 1))
	_, err := w.lambda.Launch(t.Context(), spec("b", 1))
	var e *cloud.Error
	if !errors.As(err, &e) || e.Kind != cloud.Throttled || e.RetryAfter < 59*time.Minute {
		t.Errorf("%v", err)
	}
}

func TestLaunchErrors(t *testing.T) {
	for name, c := range map[string]struct {
		kind   cloud.Kind
		change func(*world, *cloud.LaunchSpec)
		words  string
	}{
		"spot":           {cloud.Invalid, func(_ *world, s *cloud.LaunchSpec) { s.Offer.Spot = true }, "spot"},
		"a dry region":   {cloud.Capacity, func(w *world, s *cloud.LaunchSpec) { w.account.SetOutOfStock("", "us-east-1", true) }, "Not enough capacity"},
		"a type no more": {cloud.Capacity, func(_ *world, s *cloud.LaunchSpec) { s.Offer.InstanceType = "gpu_1x_k80" }, "does not exist"},
		"quota":          {cloud.Quota, func(w *world, _ *cloud.LaunchSpec) { w.account.Quota(1) }, "Contact Support"},
		"a revoked key":  {cloud.Auth, func(w *world, _ *cloud.LaunchSpec) { w.account.Revoke(true) }, "API key was invalid"},
		"an address":     {cloud.Auth, func(w *world, _ *cloud.LaunchSpec) { w.account.Suspend("global/invalid-address") }, "billing address"},
		"another region": {cloud.Quota, func(w *world, _ *cloud.LaunchSpec) {
			w.cfg.Regions = []string{"us-west-1"}
			w.lambda = lambdalabs.New(w.cfg)
		}, "us-west-1"},
		"no agent": {cloud.Capacity, func(w *world, _ *cloud.LaunchSpec) {
			w.cfg.Agents = nil
			w.lambda = lambdalabs.New(w.cfg)
		}, "no agent for amd64"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, nil)
			s := spec("a", 2)
			c.change(w, &s)
			_, err := w.lambda.Launch(t.Context(), s)
			if cloud.KindOf(err) != c.kind || !strings.Contains(err.Error(), c.words) {
				t.Errorf("%v", err)
			}
			w.living()
		})
	}
}

// The API redirects a request. The API key must not be sent to the redirect's target.
func TestRedirectsAreNotFollowed(t *testing.T) {
	w := newWorld(t, func(c *lambdalabs.Config) {
		c.HTTP = &http.Client{Transport: trip(func(r *http.Request) (*http.Response, error) {
			if r.URL.Host == "elsewhere.example" {
				t.Error("the redirect was followed")
			}
			return &http.Response{StatusCode: http.StatusFound, Header: http.Header{"Location": {"http://elsewhere.example/"}},
				Body: http.NoBody, Request: r}, nil
		})}
	})
	if _, err := w.lambda.Machines(t.Context(), ""); err == nil || strings.Contains(err.Error(), lambdacloud.DefaultKey) {
		t.Errorf("%v", err)
	}
}

type trip func(*http.Request) (*http.Response, error)

func (f trip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestKeyFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "key")
	if _, err := lambdalabs.KeyFile(file)(t.Context()); !errors.Is(err, lambdalabs.ErrKey) || !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%v", err)
	}
	for _, c := range []struct {
		text string
		mode os.FileMode
		want string
	}{
		{"secret_x\n", 0o600, ""}, {"secret_x", 0o400, ""}, {"secret_x", 0o640, "chmod 600 " + file}, {"secret_x", 0o604, "chmod 600"},
		{"", 0o600, "one line"}, {"a b", 0o600, "one line"}, {"secret_x\nsecret_y", 0o600, "one line"},
	} {
		if err := os.WriteFile(file, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(file, c.mode); err != nil {
			t.Fatal(err)
		}
		key, err := lambdalabs.KeyFile(file)(t.Context())
		if c.want == "" && (err != nil || key != "secret_x") {
			t.Errorf("%q %o: %q, %v", c.text, c.mode, key, err)
		}
		if c.want != "" && (!errors.Is(err, lambdalabs.ErrKey) || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "secret")) {
			t.Errorf("%q %o: %q, %v", c.text, c.mode, key, err)
		}
		_ = os.Chmod(file, 0o600)
	}
}

type fetcher map[string]string

func (f fetcher) Fetch(_ context.Context, name string) (string, error) {
	if v, ok := f[name]; ok {
		return v, nil
	}
	if name == "/away" {
		return "", errors.New("503")
	}
	return "", fmt.Errorf("%w: no parameter %s", secret.ErrUnavailable, name)
}

func TestKeySecret(t *testing.T) {
	from := fetcher{"/tradewind/lambda": "secret_x\n"}
	if key, err := lambdalabs.KeySecret(from, "/tradewind/lambda")(t.Context()); err != nil || key != "secret_x" {
		t.Errorf("%q %v", key, err)
	}
	if _, err := lambdalabs.KeySecret(from, "/other")(t.Context()); !errors.Is(err, lambdalabs.ErrKey) {
		t.Errorf("%v", err)
	}
	// The store of the key is unavailable for a moment. The cloud must not be blocked for hours.
	for name, want := range map[string]cloud.Kind{"/other": cloud.Auth, "/away": cloud.Transient} {
		c := lambdalabs.New(lambdalabs.Config{Deployment: "test", Key: lambdalabs.KeySecret(from, name), Endpoint: "http://127.0.0.1:1"})
		if _, err := c.Launch(t.Context(), spec("c1", 1)); cloud.KindOf(err) != want {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestCheck(t *testing.T) {
	for name, c := range map[string]struct {
		change  func(*world)
		fatal   bool
		what    string
		mend    string
		regions int
	}{
		"all is fine":   {func(*world) {}, false, "", "", 5},
		"no key":        {func(w *world) { w.cfg.Key = lambdalabs.KeyFile("/no/such/key") }, true, "no such file", "cloud add lambda", 0},
		"a revoked key": {func(w *world) { w.account.Revoke(true) }, true, "API key was invalid", "cloud.lambda.ai/api-keys", 0},
		"an inactive account": {func(w *world) { w.account.Suspend("global/account-inactive") }, true, "Your account is inactive",
			"means of payment", 0},
		"the API is down": {func(w *world) { w.account.Down(true) }, false, "EOF", "status.lambda.ai", 0},
		"an unknown region": {func(w *world) { w.cfg.Regions = []string{"us-west-1", "mars-north-1"} }, false, "mars-north-1",
			"other regions", 1},
		"a missing SSH key": {func(w *world) { w.cfg.SSHKey = "mine" }, true, "no SSH key mine", "ssh-keys", 5},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, nil)
			c.change(w)
			r, err := lambdalabs.New(w.cfg).Check(t.Context())
			if err != nil || len(r.Regions) != c.regions || (c.what == "") != (len(r.Missing) == 0) {
				t.Fatalf("%+v %v", r, err)
			}
			if c.what != "" {
				l := r.Missing[0]
				if l.Fatal != c.fatal || !strings.Contains(l.What, c.what) || !strings.Contains(l.Mend, c.mend) {
					t.Errorf("%+v", l)
				}
			}
		})
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := newWorld(t, nil).lambda.Check(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

// The API requires an SSH key. It must be created once, and its private half discarded.
func TestSSHKeyIsCreatedOnce(t *testing.T) {
	w := newWorld(t, nil)
	w.launch(w.lambda, spec("a", 1))
	w.launch(lambdalabs.New(w.cfg), spec("b", 1))
	if keys := w.account.SSHKeys(); len(keys) != 1 || !strings.HasPrefix(keys[0], "tradewind-") {
		t.Errorf("SSH keys %v", keys)
	}
}

// A user has removed the SSH key from the account. The next launch must create another one. A key that is configured
// is never created.
func TestRemovedSSHKeyIsRecreated(t *testing.T) {
	w := newWorld(t, nil)
	w.launch(w.lambda, spec("a", 1))
	w.account.RemoveSSHKeys()
	w.launch(w.lambda, spec("b", 2))
	if keys := w.account.SSHKeys(); len(keys) != 1 {
		t.Errorf("SSH keys %v", keys)
	}
	own := newWorld(t, func(c *lambdalabs.Config) { c.SSHKey = "mine" })
	if _, err := own.lambda.Launch(t.Context(), spec("a", 1)); cloud.KindOf(err) != cloud.Capacity || len(own.account.SSHKeys()) != 0 {
		t.Errorf("%v, SSH keys %v", err, own.account.SSHKeys())
	}
}

func TestCleanDeletesOwnSSHKey(t *testing.T) {
	w := newWorld(t, nil)
	w.launch(w.lambda, spec("a", 1))
	keys := w.account.SSHKeys()
	other := w.cfg
	other.Deployment = "other"
	w.launch(lambdalabs.New(other), spec("b", 1))
	if len(keys) != 1 || len(w.account.SSHKeys()) != 2 {
		t.Fatalf("SSH keys %v, %v", keys, w.account.SSHKeys())
	}
	var deleted []string
	tell := func(what string) { deleted = append(deleted, what) }
	for range 2 { // the second time, there is none
		if err := w.lambda.Clean(t.Context(), tell); err != nil {
			t.Fatal(err)
		}
	}
	if !slices.Equal(deleted, []string{"SSH key " + keys[0]}) || len(w.account.SSHKeys()) != 1 || w.account.SSHKeys()[0] == keys[0] {
		t.Errorf("deleted %q, left: %q", deleted, w.account.SSHKeys())
	}
}
