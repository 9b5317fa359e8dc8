package cli

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tradewind-broker/tradewind/internal/cli/about"
	"github.com/tradewind-broker/tradewind/internal/cli/clouds"
	"github.com/tradewind-broker/tradewind/internal/cli/command"
	"github.com/tradewind-broker/tradewind/internal/cli/text"
	"github.com/tradewind-broker/tradewind/internal/host"
	"github.com/tradewind-broker/tradewind/pkg/catalog"
	"github.com/tradewind-broker/tradewind/pkg/client"
)

// Verdicts of a check. A note is about something missing that is optional.
const (
	OK   = "ok"
	Note = "note"
	Fail = "fail"
)

// Check is the result of one check.
type Check struct {
	Name    string `json:"name"`
	Verdict string `json:"verdict"` // ok, note or fail
	Detail  string `json:"detail"`
	Hint    string `json:"hint,omitempty"`
}

// DoctorResult is the output of `doctor -o json`.
type DoctorResult struct {
	OK     bool    `json:"ok"`
	Checks []Check `json:"checks"`
}

// Find finds the broker that uses a state folder.
type Find func(state string) (host.Running, bool, error)

// examination is one run of the command.
type examination struct {
	*command.App
	find  Find
	check clouds.CheckFunc
}

// DoctorCommand is the doctor command.
func DoctorCommand(app *command.App, find Find, check clouds.CheckFunc, names []string) *cobra.Command {
	a := &examination{App: app, find: find, check: check}
	var state, dir string
	c := &cobra.Command{
		Use:   "doctor [CLOUD...]",
		Short: "Check that this computer has what the broker needs",
		Long: "Checks this computer: the state folder and its broker, the network, the catalogue, the shell that\n" +
			"tasks need, and credentials for clouds. For each CLOUD it also reports what is missing in the account,\n" +
			"like `cloud check`. It changes nothing. Exits with 1 if something required is missing.",
		Example: "  tradewind doctor\n  tradewind doctor aws gcp\n  tradewind doctor -o json",
		Args:    command.Args(0, 100),
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return names, cobra.ShellCompDirectiveNoFileComp
		},
	}
	a.StateFlag(c, &state)
	command.CatalogFlag(c, &dir)
	output := command.OutputFlag(c)
	c.RunE = func(c *cobra.Command, named []string) error {
		ctx, cancel := a.Stop.Context(c.Context())
		defer cancel()
		return a.run(ctx, command.Absolute(state), dir, named, output)
	}
	return c
}

func (a *examination) run(ctx context.Context, state, dir string, named []string, output *command.Choice) error {
	v := about.CurrentVersion(a.App)
	checks := []Check{
		{Name: "version", Verdict: OK, Detail: fmt.Sprintf("tradewind %s, %s, %s", v.Version, v.Go, v.Platform)},
		checkState(state), a.checkBroker(ctx, state), checkPort(ctx), checkCatalog(dir), a.checkShell(),
		checkAbility(ctx, "mounts", "mounts work", host.Computer{}.Mounts),
		checkAbility(ctx, "images", "images of docker: can be run", host.Computer{}.Containers),
		a.checkBrowser(),
	}
	for _, cloud := range []string{"aws", "gcp", "azure"} {
		if !slices.Contains(named, cloud) {
			checks = append(checks, a.checkCredentials(cloud))
		}
	}
	for _, cloud := range named {
		checked, err := a.check(ctx, state, cloud)
		if err != nil {
			return err
		}
		checks = append(checks, checksOf(checked)...)
	}
	r := DoctorResult{OK: true, Checks: checks}
	for _, c := range checks {
		r.OK = r.OK && c.Verdict != Fail
	}
	if err := a.printChecks(r, output); err != nil {
		return err
	}
	if !r.OK {
		return command.Silent(command.ExitFailed)
	}
	return nil
}

// checksOf returns one check for the identity that a cloud sees, and one for each thing that its account lacks.
func checksOf(c clouds.CheckedCloud) (all []Check) {
	if c.Identity != "" {
		all = append(all, Check{Name: c.Name, Verdict: OK,
			Detail: fmt.Sprintf("%s, account %s; regions %s", c.Identity, c.Account, strings.Join(c.Regions, ", "))})
	}
	for _, l := range c.Missing {
		verdict := Note
		if l.Fatal {
			verdict = Fail
		}
		all = append(all, Check{Name: c.Name, Verdict: verdict, Detail: l.What, Hint: l.Mend})
	}
	return all
}

func (a *examination) printChecks(r DoctorResult, output *command.Choice) error {
	if output.JSON() {
		return a.PrintJSON(r)
	}
	style := a.Style(a.Out)
	tones := map[string]text.Tone{OK: text.Good, Note: text.Faint, Fail: text.Bad}
	for _, c := range r.Checks {
		if err := a.Printf("%s  %-11s %s\n", style.Paint(tones[c.Verdict], text.Pad(c.Verdict, 4, false)), c.Name,
			text.Clean(c.Detail)); err != nil {
			return err
		}
		if c.Hint == "" {
			continue
		}
		if err := a.Printf("%18s%s\n", "", style.Paint(text.Faint, c.Hint)); err != nil {
			return err
		}
	}
	return nil
}

// checkState checks whether the state folder can be written, without creating it.
func checkState(state string) Check {
	c := Check{Name: "state", Verdict: OK, Detail: state}
	dir := state
	for !command.Exists(dir) && dir != filepath.Dir(dir) {
		dir = filepath.Dir(dir)
	}
	if dir != state {
		c.Detail += " (will be created)"
	}
	probe, err := os.CreateTemp(dir, ".tradewind-doctor-*")
	if err != nil {
		c.Verdict, c.Detail, c.Hint = Fail, err.Error(),
			"use --state or TRADEWIND_STATE to name a folder that you can write to"
		return c
	}
	_ = probe.Close()
	_ = os.Remove(probe.Name())
	if info, err := os.Stat(state); err == nil && info.Mode().Perm()&0o077 != 0 {
		c.Verdict, c.Hint = Note, fmt.Sprintf("other users can open it (mode %04o): chmod 700 %s",
			info.Mode().Perm(), state)
	}
	if info, err := os.Stat(filepath.Join(state, "token")); err == nil && info.Mode().Perm()&0o077 != 0 {
		c.Verdict, c.Hint = Fail, fmt.Sprintf("other users can read the token (mode %04o): chmod 600 %s",
			info.Mode().Perm(), filepath.Join(state, "token"))
	}
	return c
}

func (a *examination) checkBroker(ctx context.Context, state string) Check {
	c := Check{Name: "broker", Verdict: OK}
	r, running, err := a.find(state)
	switch {
	case err != nil:
		c.Verdict, c.Detail = Fail, err.Error()
	case !running:
		c.Detail = "none is running for the state folder; `tradewind run` starts its own"
	default:
		c.Detail = fmt.Sprintf("pid %d at %s for %s", r.PID, r.URL,
			text.Span(a.Now().Sub(r.Started).Truncate(time.Second)))
		if r.TimeScale != 1 {
			c.Detail += ", time scale " + text.Number(r.TimeScale)
		}
		if _, err := client.New(r.URL, r.Token).Jobs(ctx, 1); err != nil {
			c.Verdict, c.Hint = Fail, err.Error()
			if client.Status(err) == http.StatusUnauthorized {
				c.Hint = "it does not accept the token in the state folder: stop it and start it again"
			}
		}
	}
	return c
}

func checkPort(ctx context.Context) Check {
	c := Check{Name: "network", Verdict: OK, Detail: "programs can listen on the loopback address"}
	var config net.ListenConfig
	l, err := config.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		c.Verdict, c.Detail, c.Hint = Fail, err.Error(), "the broker and its agents talk over 127.0.0.1"
		return c
	}
	_ = l.Close()
	return c
}

func checkCatalog(dir string) Check {
	c := Check{Name: "catalogue", Verdict: OK}
	began := time.Now()
	cat, err := catalog.Open(dir)
	if err != nil {
		c.Verdict, c.Detail = Fail, err.Error()
		return c
	}
	c.Detail = fmt.Sprintf("%s of %s, read in %s", text.Count(cat.Len(), "offer"), text.List(cat.Clouds(), "and"),
		text.Span(time.Since(began)))
	return c
}

// checkShell looks for a shell to run the scripts of tasks.
func (a *examination) checkShell() Check {
	c := Check{Name: "shell", Verdict: OK}
	for _, name := range []string{"bash", "sh"} {
		if path, err := exec.LookPath(name); err == nil {
			c.Detail = path
			if name == "sh" {
				c.Verdict, c.Hint = Note, "scripts written for bash may fail in it"
			}
			return c
		}
	}
	c.Verdict, c.Detail, c.Hint = Fail, "there is neither bash nor sh in PATH", "tasks are shell scripts"
	return c
}

// checkAbility checks something that only some tasks need if they run on this computer.
func checkAbility(ctx context.Context, name, able string, check func(context.Context) error) Check {
	if err := check(ctx); err != nil {
		return Check{Name: name, Verdict: Note, Detail: err.Error(),
			Hint: "only tasks with " + name + " that run here need it"}
	}
	return Check{Name: name, Verdict: OK, Detail: able}
}

// checkBrowser looks for a browser for the dashboard's own tests.
func (a *examination) checkBrowser() Check {
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome", "chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return Check{Name: "browser", Verdict: OK, Detail: path}
		}
	}
	return Check{Name: "browser", Verdict: Note, Detail: "no Chromium; only the dashboard's tests need it"}
}

// checkCredentials looks for credentials of a cloud where its own tools keep them. It does not read them.
func (a *examination) checkCredentials(cloud string) Check {
	home := a.Lookup("HOME")
	places := map[string]struct {
		variables, files []string
		hint             string
	}{
		"aws": {
			[]string{"AWS_ACCESS_KEY_ID", "AWS_PROFILE", "AWS_WEB_IDENTITY_TOKEN_FILE",
				"AWS_CONTAINER_CREDENTIALS_FULL_URI"},
			[]string{filepath.Join(home, ".aws", "credentials"), filepath.Join(home, ".aws", "config")},
			"aws configure",
		},
		"gcp": {
			[]string{"GOOGLE_APPLICATION_CREDENTIALS"},
			[]string{filepath.Join(home, ".config", "gcloud", "application_default_credentials.json")},
			"gcloud auth application-default login",
		},
		"azure": {
			[]string{"AZURE_CLIENT_ID", "AZURE_FEDERATED_TOKEN_FILE"},
			[]string{filepath.Join(home, ".azure", "azureProfile.json"),
				filepath.Join(home, ".azure", "msal_token_cache.json")}, "az login",
		},
	}
	where := places[cloud]
	for _, name := range where.variables {
		if a.Lookup(name) != "" {
			return Check{Name: cloud, Verdict: OK, Detail: "credentials in $" + name}
		}
	}
	for _, path := range where.files {
		if _, err := os.Stat(path); err == nil && home != "" {
			return Check{Name: cloud, Verdict: OK, Detail: "credentials in " + path}
		} else if err != nil && errors.Is(err, os.ErrPermission) {
			return Check{Name: cloud, Verdict: Note, Detail: path + " cannot be read"}
		}
	}
	return Check{Name: cloud, Verdict: Note, Detail: "no credentials: its buckets cannot be read (" +
		where.hint + ")"}
}
