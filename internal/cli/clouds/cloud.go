// Package clouds contains the commands that configure on which clouds machines are bought, and with which account.
package clouds

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tradewind-broker/tradewind/internal/base/fault"
	"github.com/tradewind-broker/tradewind/internal/cli/command"
	"github.com/tradewind-broker/tradewind/internal/cli/text"
	"github.com/tradewind-broker/tradewind/internal/cloud/driver"
	"github.com/tradewind-broker/tradewind/internal/cloudkit"
	"github.com/tradewind-broker/tradewind/internal/host"
	"github.com/tradewind-broker/tradewind/pkg/catalog"
	"github.com/tradewind-broker/tradewind/pkg/catalog/egress"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
	"github.com/tradewind-broker/tradewind/pkg/cloud/service"
)

// app is the shared state of the commands.
type app struct {
	*command.App
	kits   []cloudkit.Kit
	find   Find
	logger Logger

	elsewhere RemoteBrokers
}

// Logger returns a logger for messages from a level on.
type Logger func(slog.Level) *slog.Logger

// Find reports whether a broker uses a state folder, and its address.
type Find func(state string) (host.Running, bool, error)

// Command is the cloud command.
func Command(in *command.App, kits []cloudkit.Kit, find Find, elsewhere RemoteBrokers, logger Logger) *cobra.Command {
	a := app{App: in, kits: kits, find: find, logger: logger, elsewhere: elsewhere}
	if len(kits) == 0 {
		return without("cloud", "Configure the clouds to buy machines on")
	}
	c := &cobra.Command{
		Use:   "cloud",
		Short: "Configure the clouds to buy machines on",
		Long: "Sets up the clouds on which machines can be bought. The settings are stored in the state folder;\n" +
			"`tradewind up --clouds` names the clouds on which a broker buys. The settings contain no keys: keys\n" +
			"stay in each cloud's own tools, or in a file that only you can read. See docs/clouds.md.",
		Example: "  tradewind cloud add lambda --key-file ~/.lambda-key\n  tradewind cloud check\n" +
			"  tradewind cloud list -o json",
	}
	command.Group(c)
	c.AddCommand(a.cloudListCommand(), a.cloudCheckCommand(), a.cloudAddCommand(), a.cloudRemoveCommand())
	return c
}

// CloudList is the output of `cloud list -o json`.
type CloudList struct {
	Clouds []CloudEntry `json:"clouds"`
}

// CloudEntry is a cloud that machines can be bought on.
type CloudEntry struct {
	Name    string   `json:"name"`
	Title   string   `json:"title"`
	Added   bool     `json:"added"`             // by `cloud add`
	Account string   `json:"account,omitempty"` // account to buy with, if the settings name it
	Regions []string `json:"regions,omitempty"` // regions to buy in; empty means the default in the cloud's documentation
	Lacks   string   `json:"lacks,omitempty"`   // missing settings and rights for buying there
}

func (a app) cloudListCommand() *cobra.Command {
	var state string
	c := &cobra.Command{
		Use:   "list",
		Short: "List the clouds, and the account for buying on each",
		Long: "Lists the clouds on which machines can be bought, whether each was added with `tradewind cloud add`,\n" +
			"and with which account. It reads only the stored settings; `tradewind cloud check` asks the clouds.",
		Example: "  tradewind cloud list\n  tradewind cloud list -o json | jq -r '.clouds[] | select(.added).name'",
		Args:    command.Args(0, 0),
	}
	a.StateFlag(c, &state)
	output := command.OutputFlag(c)
	c.RunE = func(*cobra.Command, []string) error { return a.listClouds(command.Absolute(state), output) }
	return c
}

func (a app) listClouds(state string, output *command.Choice) error {
	settings, err := cloudkit.Load(state)
	if err != nil {
		return err
	}
	list := CloudList{Clouds: []CloudEntry{}}
	for _, k := range a.kits {
		s, added := settings[k.Name]
		e := CloudEntry{Name: k.Name, Title: k.Title, Added: added, Account: k.Account(s, a.Lookup), Regions: s.Regions}
		if err := k.Ready(s, a.Lookup); err != nil {
			e.Lacks = err.Error()
		}
		list.Clouds = append(list.Clouds, e)
	}
	if output.JSON() {
		return a.PrintJSON(list)
	}
	t := &text.Table{Columns: []text.Column{{Name: "CLOUD"}, {Name: "ADDED"}, {Name: "AS", Flexible: true},
		{Name: "REGIONS", Flexible: true}, {Name: "LACKS", Flexible: true}}}
	for _, e := range list.Clouds {
		added := "no"
		if e.Added {
			added = "yes"
		}
		t.Row(e.Name, added, cmp.Or(text.Clean(e.Account), "-"), cmp.Or(strings.Join(e.Regions, ","), "-"),
			cmp.Or(text.Clean(e.Lacks), "-"))
	}
	return a.PrintTable(t)
}

func (a app) cloudAddCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "add",
		Short: "Enable a cloud to buy machines on",
		Long: "Checks that machines can be bought with the given settings, creates the missing resources in the\n" +
			"cloud, and stores the settings in the state folder. If the cloud refuses, no settings are stored. You\n" +
			"can safely run the command again.",
		Example: "  tradewind cloud add aws --profile work --regions us-east-1,us-west-2\n" +
			"  tradewind cloud add lambda --key-file ~/.lambda-key",
	}
	command.Group(c)
	for _, k := range a.kits {
		c.AddCommand(a.addOneCommand(k))
	}
	return c
}

func (a app) addOneCommand(k cloudkit.Kit) *cobra.Command {
	var state string
	var s cloudkit.Settings
	var only, bucket bool
	c := &cobra.Command{
		Use:   k.Name,
		Short: "Enable buying machines on " + k.Title,
		Long: "Checks that machines can be bought on " + k.Title + " with the given flags, creates what is missing there, and\n" +
			"stores the settings in the state folder. docs/" + k.Name + ".md lists the requirements.",
		Example: "  tradewind cloud add " + k.Name + " " + k.Example,
		Args:    command.Args(0, 0),
	}
	k.Flags(c.Flags(), &s)
	c.Flags().StringSliceVar(&s.Regions, "regions", nil, "regions to buy in (default: see the cloud's documentation)")
	command.CompleteCatalog(c, "regions", func(known *catalog.Catalog) []string { return known.Regions(k.Name) })
	c.Flags().BoolVar(&only, "print", false,
		"only print the commands that would create the missing resources in the cloud")
	if driver.Scheme(k.Name) != "" {
		c.Flags().BoolVar(&bucket, "bucket", false,
			"create a bucket for outputs and messages, so that the broker needs no public URL\n(default with run --on)")
	}
	a.StateFlag(c, &state)
	output := command.OutputFlag(c)
	c.RunE = func(c *cobra.Command, _ []string) error {
		ctx, cancel := a.Stop.Context(c.Context())
		defer cancel()
		if s.KeyFile != "" {
			s.KeyFile = command.Absolute(s.KeyFile)
		}
		if s.Certificates != "" {
			s.Certificates = command.Absolute(s.Certificates)
		}
		if err := checkRegions(ctx, k, s, command.Absolute(state)); err != nil {
			return err
		}
		return a.addCloud(ctx, k, adding{settings: s, state: command.Absolute(state), only: only, bucket: bucket,
			output: output})
	}
	return c
}

// adding are the options of `cloud add`.
type adding struct {
	settings cloudkit.Settings
	state    string
	only     bool // print the commands that would create what is missing
	bucket   bool // create a bucket unless the settings name one
	quiet    bool // another command adds the cloud, and prints no report
	output   *command.Choice
}

// wantsBucket reports whether the cloud needs a bucket: services read and write only there.
func (o adding) wantsBucket() bool {
	return (o.bucket || len(o.settings.Services) > 0) && o.settings.Functions.Account == ""
}

// Added makes sure that a cloud was added to a state folder, with a bucket if it needs one, and shows each step. It is
// for commands that buy there.
func Added(ctx context.Context, in *command.App, k cloudkit.Kit, state string, bucket bool, logger Logger) error {
	settings, err := cloudkit.Load(state)
	if err != nil {
		return err
	}
	s, added := settings[k.Name]
	if added && (!bucket || len(s.Stores) > 0) {
		return nil
	}
	a := app{App: in, logger: logger}
	in.Tell("setting up %s, once for %s:", k.Title, state)
	return a.addCloud(ctx, k, adding{settings: s, state: state, bucket: bucket, quiet: true, output: &command.Choice{}})
}

func (a app) addCloud(ctx context.Context, k cloudkit.Kit, o adding) error {
	s, state, only, output := o.settings, o.state, o.only, o.output
	if err := k.Ready(s, a.Lookup); err != nil {
		return command.BadInput("`tradewind cloud add "+k.Name+" --help` lists its flags", "%s: %v", k.Name, err)
	}
	settings, err := cloudkit.Load(state)
	if err != nil {
		return err
	}
	request, err := a.request(s, state)
	if err != nil {
		return err
	}
	if o.wantsBucket() {
		if s, err = withBucket(ctx, k, request); err != nil {
			return err
		}
		request.Settings = s
	}
	if s.Functions.Account != "" {
		return a.prepareForFunctions(ctx, k, request, state, only, output)
	}
	if only {
		return a.printSetup(ctx, k, request)
	}
	if request.Settings, err = a.setUp(ctx, k, request); err != nil {
		return err
	}
	s = request.Settings
	checked := checkCloud(ctx, k, request)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if checked.fatal() {
		err := a.printCheck(CloudCheck{Clouds: []CheckedCloud{checked}}, output)
		return errors.Join(err, command.Failed("", "%s was not added: nothing can be bought there yet", k.Name))
	}
	if err := a.makeStores(ctx, k, request); err != nil {
		return err
	}
	settings[k.Name] = s
	if err := cloudkit.Save(state, settings); err != nil {
		return err
	}
	if o.quiet {
		return nil
	}
	return a.reportAdded(k, s, checked, output)
}

// setUp creates what is missing in a cloud for its machines and services, shows each step, and returns the settings
// with the new values.
func (a app) setUp(ctx context.Context, k cloudkit.Kit, r cloudkit.Request) (s cloudkit.Settings, err error) {
	tell := func(step string) { a.Tell("%s", step) }
	s = r.Settings
	if k.Setup != nil {
		setup, err := k.Setup(ctx, r)
		if err != nil {
			return s, err
		}
		if s, err = setup.Make(ctx, tell); err != nil {
			return s, err
		}
		r.Settings = s
	}
	roles, err := k.OpenRoles(ctx, r)
	if err != nil {
		return s, err
	}
	return roles.Make(ctx, tell)
}

// printSetup prints the commands that create what setUp and makeStores create.
func (a app) printSetup(ctx context.Context, k cloudkit.Kit, r cloudkit.Request) error {
	s := r.Settings
	roles, err := k.OpenRoles(ctx, r)
	if err != nil {
		return err
	}
	if k.Setup == nil {
		if len(s.Stores) == 0 {
			a.Tell("nothing to create on %s", k.Title)
		}
		return errors.Join(roles.Print(a.Out), a.printStores(k, s))
	}
	r.Settings.Stores = nil // print without signing, which would need credentials
	setup, err := k.Setup(ctx, r)
	if err != nil {
		return err
	}
	return errors.Join(setup.Print(a.Out), roles.Print(a.Out), a.printStores(k, s))
}

// checkRegions refuses a region that does not exist, before anything is created there. It accepts any region with
// Certificates, which only regions need that are newer than this program.
func checkRegions(ctx context.Context, k cloudkit.Kit, s cloudkit.Settings, state string) error {
	known, err := knownRegions(ctx, k, state)
	if err != nil || len(known) == 0 || s.Certificates != "" {
		return err
	}
	for _, region := range s.Regions {
		if !slices.Contains(known, region) {
			return command.BadInput(fault.OneOf(region, known), "--regions: %s has no region %q", k.Title, region)
		}
	}
	return nil
}

// knownRegions returns the regions of a cloud: those of the catalogue and those that the cloud has reported (`catalog
// refresh`). AWS also has regions without offers in the catalogue.
func knownRegions(ctx context.Context, k cloudkit.Kit, state string) ([]string, error) {
	c, err := catalog.Default()
	if err != nil {
		return nil, err
	}
	known := c.Regions(k.Name)
	if reported, ok := cloudkit.CatalogStoreOf(state).Catalog(ctx); ok {
		known = append(known, reported.Regions(k.Name)...)
	}
	if k.Name == "aws" {
		prices, err := egress.Default()
		if err != nil {
			return nil, err
		}
		known = append(known, prices.AWSRegions()...)
	}
	slices.Sort(known)
	return slices.Compact(known), nil
}

// reportAdded prints what the account may do, and how to buy there.
func (a app) reportAdded(k cloudkit.Kit, s cloudkit.Settings, checked CheckedCloud, output *command.Choice) error {
	if err := a.printCheck(CloudCheck{OK: true, Clouds: []CheckedCloud{checked}}, output); err != nil {
		return err
	}
	switch {
	case output.JSON():
	case len(s.Stores) > 0:
		a.Tell("added; `tradewind run FILE --on %s` buys there, and needs no public URL", k.Name)
	case k.NeedsAddress || driver.Scheme(k.Name) == "":
		a.Tell("added; `tradewind up --clouds %s --public-url URL` buys there", k.Name)
	default:
		a.Tell("added; `tradewind run FILE --on %s` buys there through a bucket that it creates, and "+
			"`tradewind up --clouds %[1]s --public-url URL` through an address", k.Name)
	}
	return nil
}

// request returns the options with which a command that buys nothing opens a cloud.
func (a app) request(s cloudkit.Settings, state string) (cloudkit.Request, error) {
	name, err := host.DeploymentOf(state)
	return cloudkit.Request{Settings: s, Deployment: name, Lookup: a.Lookup, Log: a.logger(0)}, err
}

func (a app) cloudRemoveCommand() *cobra.Command {
	var state string
	var forget bool
	var of cloudkit.Settings
	c := &cobra.Command{
		Use:   "remove CLOUD",
		Short: "Disable buying machines on a cloud",
		Long: "Deletes everything that `tradewind cloud add` created in the cloud, and the cloud's settings. The\n" +
			"command is refused while machines of this state folder run on the cloud, or while a running broker\n" +
			"buys there.",
		Example: "  tradewind cloud remove lambda\n  tradewind cloud remove gcp --aws-account 123456789012",
		Args:    command.Args(1, 1),
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return cloudkit.Names(a.kits), cobra.ShellCompDirectiveNoFileComp
		},
	}
	a.StateFlag(c, &state)
	cloudkit.FunctionFlags(c.Flags(), &of)
	c.Flags().BoolVar(&forget, "forget", false,
		"delete the settings even if the cloud does not answer, for example after a key was revoked")
	c.RunE = func(c *cobra.Command, given []string) error {
		ctx, cancel := a.Stop.Context(c.Context())
		defer cancel()
		if of.Functions.Account != "" {
			return a.removeForFunctions(ctx, given[0], of.Functions, command.Absolute(state))
		}
		return a.removeCloud(ctx, given[0], command.Absolute(state), forget)
	}
	return c
}

func (a app) removeCloud(ctx context.Context, name, state string, forget bool) error {
	settings, err := cloudkit.Load(state)
	if err != nil {
		return err
	}
	k, err := a.kit(name)
	if err != nil {
		return err
	}
	s, added := settings[name]
	if !added {
		return command.BadInput("`tradewind cloud list` lists them", "%s was not added to %s", name, state)
	}
	if r, running, err := a.find(state); err != nil {
		return err
	} else if running && slices.Contains(r.Clouds, name) {
		return command.Failed(
			"stop the broker first; this ends its machines",
			"a broker (pid %d) is buying on %s",
			r.PID,
			name,
		)
	}
	request, err := a.request(s, state)
	if err != nil {
		return err
	}
	if !forget {
		if err := a.clear(ctx, k, request); err != nil {
			return err
		}
	}
	delete(settings, name)
	if err := errors.Join(cloudkit.Save(state, settings), host.Forget(state, name)); err != nil {
		return err
	}
	a.Tell("removed %s", name)
	return nil
}

// clear deletes the resources created in a cloud, unless machines run there.
func (a app) clear(ctx context.Context, k cloudkit.Kit, r cloudkit.Request) error {
	opened, err := k.Open(ctx, r)
	var running []string
	if err == nil {
		running, err = machinesOf(ctx, opened.Cloud)
	}
	if err == nil {
		var places []string
		places, err = placesOf(ctx, k, r)
		running = append(running, places...)
	}
	if err != nil {
		return command.Failed(
			"check in the cloud whether machines run; --forget deletes the settings without this check",
			"%s does not list its machines: %v", k.Name, err)
	}
	if len(running) > 0 {
		return command.Failed(
			"`tradewind up --clouds "+k.Name+"` with the same --public-url as before takes them over;\n"+
				"stop it with Ctrl-C to end them",
			"%s of this deployment still running on %s: %s",
			text.Count(len(running), "machine"),
			k.Name,
			strings.Join(running, ", "),
		)
	}
	if err := a.removeBuckets(ctx, k, r); err != nil {
		return err
	}
	if c, ok := opened.Cloud.(driver.Cleaner); ok {
		if err := c.Clean(ctx, func(deleted string) { a.Tell("%s: removed", deleted) }); err != nil {
			return command.Failed("run the command again; --forget deletes the settings anyway", "%s: %v", k.Name, err)
		}
	}
	tell := func(step string) { a.Tell("%s", step) }
	roles, err := k.OpenRoles(ctx, r)
	if err == nil {
		err = roles.Remove(ctx, tell)
	}
	if err != nil || k.Setup == nil {
		return err
	}
	setup, err := k.Setup(ctx, r)
	if err != nil {
		return err
	}
	return setup.Remove(ctx, tell)
}

// machinesOf returns the IDs of a deployment's machines that have not ended.
func machinesOf(ctx context.Context, c cloud.Cloud) ([]string, error) {
	list, err := c.Machines(ctx, "")
	if err != nil {
		return nil, err
	}
	var running []string
	for _, m := range list {
		if m.State != cloud.Terminated { // a failed or stopped machine still has a disk
			running = append(running, m.ID)
		}
	}
	return running, nil
}

// placesOf returns the names of a deployment's places on a cloud's services that have not ended.
func placesOf(ctx context.Context, k cloudkit.Kit, r cloudkit.Request) (running []string, err error) {
	services, err := k.OpenServices(ctx, r)
	if err != nil {
		return nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(services.Of)) {
		places, err := services.Of[name].Places(ctx)
		if err != nil {
			return nil, err
		}
		for _, p := range places {
			if p.State != service.Ended {
				running = append(running, name+"/"+p.Name)
			}
		}
	}
	return running, nil
}

// kit returns the cloud with a name.
func (a app) kit(name string) (cloudkit.Kit, error) {
	for _, k := range a.kits {
		if k.Name == name {
			return k, nil
		}
	}
	return cloudkit.Kit{}, Unknown(a.kits, "", name)
}
