package settings_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tradewind-broker/tradewind/internal/base/fault"
	"github.com/tradewind-broker/tradewind/internal/cli/settings"
)

// home is a user with a folder of jobs.
type home struct{ config, jobs string }

func newHome(t *testing.T) home {
	t.Helper()
	h := home{config: t.TempDir(), jobs: t.TempDir()}
	if err := os.Mkdir(filepath.Join(h.config, "tradewind"), 0o700); err != nil {
		t.Fatal(err)
	}
	return h
}

func (h home) lookup(name string) string { return map[string]string{"XDG_CONFIG_HOME": h.config}[name] }

func (h home) write(t *testing.T, own, beside string) {
	t.Helper()
	for path, body := range map[string]string{
		settings.UserFile(h.lookup): own, filepath.Join(h.jobs, settings.BesideJob): beside,
	} {
		if err := os.WriteFile(path, []byte(body), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func (h home) load(t *testing.T) *settings.Settings {
	t.Helper()
	s, err := settings.Load(h.lookup, h.jobs)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestUserFileFollowsXDG(t *testing.T) {
	for _, c := range []struct{ xdg, home, want string }{
		{"/etc/xdg", "/home/ada", "/etc/xdg/tradewind/config.yaml"},
		{"", "/home/ada", "/home/ada/.config/tradewind/config.yaml"},
		{"relative", "/home/ada", "/home/ada/.config/tradewind/config.yaml"},
		{"", "", ""},
	} {
		got := settings.UserFile(func(name string) string {
			return map[string]string{"XDG_CONFIG_HOME": c.xdg, "HOME": c.home}[name]
		})
		if got != c.want {
			t.Errorf("XDG_CONFIG_HOME=%q HOME=%q: %q, want %q", c.xdg, c.home, got, c.want)
		}
	}
}

func TestFileNextToJobOverridesUsersFile(t *testing.T) {
	h := newHome(t)
	h.write(t, "budget: $20\nqueue: research\nclouds: [aws, gcp]\n", "# of this project\nbudget: 5 USD\nregions: [eu]\n")
	s := h.load(t)
	if s.Budget.Is != 5 || !strings.HasSuffix(s.Budget.Source, settings.BesideJob+":2") {
		t.Errorf("budget %v from %s", s.Budget.Is, s.Budget.Source)
	}
	if s.Queue.Is != "research" || !slices.Equal(s.Clouds.Is, []string{"aws", "gcp"}) ||
		!slices.Equal(s.Regions.Is, []string{"eu"}) {
		t.Errorf("%+v", s)
	}
	if s.ConfirmAbove.Is != settings.DefaultConfirmAbove || s.ConfirmAbove.Set() {
		t.Errorf("%+v", s.ConfirmAbove)
	}
}

func TestFileNextToJobOnlyLowersLimit(t *testing.T) {
	h := newHome(t)
	for _, c := range []struct {
		own, beside string
		want        float64
		trusted     bool
	}{
		{"", "confirmAbove: 1000", 10, false},
		{"", "confirmAbove: 0", 0, false},
		{"confirmAbove: 100 USD", "", 100, true},
		{"confirmAbove: 100", "confirmAbove: 500", 100, true},
		{"confirmAbove: 100", "confirmAbove: $50", 50, true},
	} {
		h.write(t, c.own, c.beside)
		if s := h.load(t); float64(s.ConfirmAbove.Is) != c.want || s.Trusted != c.trusted {
			t.Errorf("%q and %q: %v, trusted %v", c.own, c.beside, s.ConfirmAbove, s.Trusted)
		}
	}
}

func TestFaultsHavePlaces(t *testing.T) {
	h := newHome(t)
	for body, want := range map[string]string{
		"budget: 20\nbugdet: 30\n":      ":2:1: bugdet: unknown field (did you mean \"budget\"?)",
		"budget: -3":                    ":1:9: budget:",
		"confirmAbove: -1":              ":1:15: confirmAbove:",
		"budget: lots":                  `:1:9: budget: "lots" is not an amount of money`,
		"clouds: [aws, gpc]":            `:1:15: clouds[1]: unknown cloud "gpc"`,
		"clouds: aws":                   ":1:9: clouds: must be a list",
		"regions: [a/b]":                ":1:11: regions[0]:",
		"queue: a/b c":                  ":1:8: queue:",
		"budget: 1\n---\nbudget: 2\n":   ":3:1: there is a second document",
		"budget: 1\nbudget: 2\n":        ":2:1: budget: is given twice",
		"- budget\n":                    ":1:1: must be a mapping of fields",
		"budget: {usd: 20}\nqueue: q\n": ":1:9: budget: must be text",
	} {
		h.write(t, body, "")
		_, err := settings.Load(h.lookup, h.jobs)
		var bad *fault.Error
		if !errors.As(err, &bad) || !strings.HasPrefix(err.Error(), settings.UserFile(h.lookup)+want) {
			t.Errorf("%q: %v, want FILE%s", body, err, want)
		}
	}
}

func TestFilesWithoutSettingsSetNothing(t *testing.T) {
	h := newHome(t)
	h.write(t, "", "# nothing yet\n")
	for _, r := range h.load(t).Rows() {
		if r.Source != "default" {
			t.Errorf("%s is from %s", r.Name, r.Source)
		}
	}
}
