package kits

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	azuresetup "github.com/tradewind-broker/tradewind/internal/cloud/azure/setup"
	"github.com/tradewind-broker/tradewind/internal/cloud/gcp"
	gcpsetup "github.com/tradewind-broker/tradewind/internal/cloud/gcp/setup"
	"github.com/tradewind-broker/tradewind/internal/cloudkit"
	"github.com/tradewind-broker/tradewind/internal/cloudkit/azurekit"
	"github.com/tradewind-broker/tradewind/internal/cloudkit/gcpkit"
)

// Placeholders in the printed commands if the settings do not name the buying identity.
const (
	anyMember    = "user:ADDRESS"
	anyPrincipal = "OBJECT-ID"
)

// done returns a progress line about a step.
func done(step string, made bool) string {
	if made {
		return step + ": made"
	}
	return step + ": already exists"
}

// removed returns a progress line about a step that was undone, or that stays for a reason.
func removed(step, stays string) string {
	if stays != "" {
		return step + ": stays, as " + stays
	}
	return step + ": removed"
}

// google creates the resources that buying on Google Cloud needs, for the account that buys. Without such an account it
// creates nothing and only prints commands.
type google struct {
	settings cloudkit.Settings
	setup    *gcpsetup.Setup
}

// googleDriver opens the driver of Google Cloud, with which a setup calls its APIs.
func googleDriver(ctx context.Context, r cloudkit.Request) (*gcp.Cloud, error) {
	opened, err := gcpkit.Kit().Open(ctx, r)
	if err != nil {
		return nil, err
	}
	driver, ok := opened.Cloud.(*gcp.Cloud)
	if !ok {
		return nil, errors.New("gcp: the cloud's driver is not the one of this program")
	}
	return driver, nil
}

func googleSetup(ctx context.Context, r cloudkit.Request) (cloudkit.Setup, error) {
	driver, err := googleDriver(ctx, r)
	if err != nil {
		return nil, err
	}
	cfg := gcpsetup.Config{
		Deployment: r.Deployment, Project: r.Settings.Project, Member: r.Settings.Member, Cloud: driver,
		// A subnetwork belongs to a network that exists.
		Network: cmp.Or(r.Settings.Network, r.Settings.Subnetwork), ServiceAccount: r.Settings.ServiceAccount,
		DAGs: r.Settings.DAGs, PushURL: r.Settings.PushURL, PushAccount: r.Settings.PushAccount, TPUs: r.Settings.TPUs,
	}
	if len(r.Settings.Regions) > 0 {
		cfg.Location = r.Settings.Regions[0]
	}
	switch f := r.Settings.Functions; {
	case f.Account != "":
		cfg.Deployment, cfg.Member = f.Deployment, ""
		cfg.AWSAccount, cfg.AWSRoles = f.Account, []string{f.Role(gcpkit.Name)}
	case cfg.Member == "":
		cfg.Member = anyMember
	}
	s, err := gcpsetup.New(cfg)
	if err == nil && r.Settings.Pull != "" &&
		r.Settings.Pull != s.TopicName() { // a custom subscription: it exists already
		cfg.DAGs = ""
		s, err = gcpsetup.New(cfg)
	}
	return google{r.Settings, s}, err
}

// Print implements cloudkit.Setup.
func (g google) Print(w io.Writer) error { return lines(w, g.setup.Print()) }

// Make implements cloudkit.Setup.
func (g google) Make(ctx context.Context, tell func(string)) (cloudkit.Settings, error) {
	if g.settings.Member == "" && g.settings.Functions.Account == "" {
		return g.settings, nil
	}
	err := g.setup.Add(ctx, func(c gcpsetup.Change) { tell(done(c.Step, c.Made)) })
	if err != nil {
		return g.settings, err
	}
	s := g.settings
	s.ServiceAccount = g.setup.MachinesAccount()
	if s.Subnetwork == "" {
		s.Network = g.setup.Network()
	}
	if s.Functions.Account != "" {
		s.Provider, s.Impersonate = g.setup.Provider(), g.setup.BrokerAccount()
	}
	switch {
	case s.DAGs == "":
	case s.PushURL != "" || s.Functions.Account != "": // if only the address is missing, it is not known yet
		s.PushAccount = g.setup.PushAccount()
	case s.Pull == "":
		s.Pull = g.setup.TopicName()
	}
	return s, nil
}

// Remove implements cloudkit.Setup.
func (g google) Remove(ctx context.Context, tell func(string)) error {
	if g.settings.Member == "" && g.settings.Functions.Account == "" {
		return nil
	}
	return g.setup.Remove(ctx, func(c gcpsetup.Change) {
		if c.Made || c.Stays != "" {
			tell(removed(c.Step, c.Stays))
		}
	})
}

// azure creates the resources that buying on Azure needs, in the same way as google.
type azure struct {
	settings cloudkit.Settings
	setup    *azuresetup.Setup
}

func azureSetup(_ context.Context, r cloudkit.Request) (cloudkit.Setup, error) {
	credential, options, err := azurekit.Access(r.Settings)
	if err != nil {
		return nil, err
	}
	cfg := azuresetup.Config{
		Deployment: r.Deployment, Subscription: r.Settings.Subscription, ResourceGroup: r.Settings.ResourceGroup,
		Location: r.Settings.Regions[0], Principal: r.Settings.Principal, Credential: credential, Options: options,
	}
	if cloudkit.Loopback(r.Settings.Endpoint) { // an emulator settles at once
		cfg.Pause = 10 * time.Millisecond
	}
	switch f := r.Settings.Functions; {
	case f.Account != "":
		cfg.Deployment, cfg.Principal = f.Deployment, ""
		cfg.Federation = &azuresetup.Federation{
			Issuer: f.Issuer, Subject: "arn:aws:iam::" + f.Account + ":role/" + f.Role(azurekit.Name),
		}
	case cfg.Principal == "":
		cfg.Principal = anyPrincipal
	}
	s, err := azuresetup.New(cfg)
	return azure{r.Settings, s}, err
}

// Print implements cloudkit.Setup.
func (z azure) Print(w io.Writer) error {
	var all []string
	for _, step := range z.setup.Steps() {
		all = append(all, step.Commands...)
	}
	return lines(w, all)
}

// Make implements cloudkit.Setup.
func (z azure) Make(ctx context.Context, tell func(string)) (cloudkit.Settings, error) {
	s := z.settings
	if s.Principal == "" && s.Functions.Account == "" {
		return s, nil
	}
	err := z.setup.Make(ctx, func(step azuresetup.Step, was bool) {
		if step.Refused != nil {
			tell(fmt.Sprintf("%s: skipped, as nothing needs it and %v; to create it, run: %s", step.Name, step.Refused,
				strings.Join(step.Commands, "; ")))
			return
		}
		tell(done(step.Name, !was))
	})
	if err == nil && s.Functions.Account != "" {
		var who azuresetup.Identity
		who, err = z.setup.Identity(ctx)
		s.Client, s.Tenant = who.Client, who.Tenant
	}
	return s, err
}

// Remove implements cloudkit.Setup. The caller has checked that no machine runs.
func (z azure) Remove(ctx context.Context, tell func(string)) error {
	if z.settings.Principal == "" && z.settings.Functions.Account == "" {
		return nil
	}
	none := func(context.Context) (int, error) { return 0, nil }
	return z.setup.Remove(ctx, none, func(step azuresetup.Step) { tell(removed(step.Name, step.Stays)) })
}

func lines(w io.Writer, all []string) error {
	for _, line := range all {
		if _, err := fmt.Fprintln(w, line); err != nil {
			return err
		}
	}
	return nil
}
