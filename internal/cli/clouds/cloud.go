// Package clouds has the commands that say which clouds machines may be bought on, and as whom.
package clouds

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tradewind-broker/tradewind/internal/cli/command"
	"github.com/tradewind-broker/tradewind/internal/cli/text"
	"github.com/tradewind-broker/tradewind/internal/cloudkit"
	"github.com/tradewind-broker/tradewind/internal/fault"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
	"github.com/tradewind-broker/tradewind/pkg/host"
)

// app is what the commands work with.
type app struct {
	*command.App
	kits   []cloudkit.Kit
	find   Find
	logger Logger

	elsewhere Elsewhere
}

// Logger logs from a level on.
type Logger func(slog.Level) *slog.Logger

// Find says whether a broker works on a state folder, and where.
type Find func(state string) (host.Running, bool, error)

// Command is the command cloud.
func Command(in *command.App, kits []cloudkit.Kit, find Find, elsewhere Elsewhere, logger Logger) *cobra.Command {
	a := app{App: in, kits: kits, find: find, logger: logger, elsewhere: elsewhere}
	c := &cobra.Command{
		Use: "cloud", Short: "Say which clouds machines may be bought on, and as whom",
		Long: "The settings of clouds lie in the state folder; `tradewind up --clouds` buys on those that it names. There is\n" +
			"no key among them: each cloud's own tools, or a file that only its owner can read, have those.\n" +
			"docs/clouds.md tells more.",
		Example: "  tradewind cloud add lambda --key-file ~/.lambda-key\n  tradewind cloud check\n" +
			"  tradewind cloud list -o json",
	}
	command.Group(c)
	c.AddCommand(a.cloudListCommand(), a.cloudCheckCommand(), a.cloudAddCommand(), a.cloudRemoveCommand())
	return c
}

// CloudList is what `cloud list -o json` prints.
type CloudList struct {
	Clouds []CloudEntry `json:"clouds"`
}

// CloudEntry is a cloud that machines can be bought on.
type CloudEntry struct {
	Name    string   `json:"name"`
	Title   string   `json:"title"`
	Added   bool     `json:"added"`             // by `cloud add`
	Account string   `json:"account,omitempty"` // as whom, as far as settings tell
	Regions []string `json:"regions,omitempty"` // that are bought in; none is what the cloud's page says
	Lacks   string   `json:"lacks,omitempty"`   // before it can be bought on
}

func (a app) cloudListCommand() *cobra.Command {
	var state string
	c := &cobra.Command{
		Use: "list", Short: "List the clouds, and as whom machines are bought there",
		Long: "Lists the clouds that machines can be bought on, which were added, and as whom one buys there. Nobody is\n" +
			"asked: `tradewind cloud check` asks the clouds themselves.",
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
		Use: "add", Short: "Have machines be bought on a cloud",
		Long: "Asks the cloud whether machines can be bought as its flags say, makes what is missing there, and keeps the\n" +
			"settings in the state folder. Nothing is kept when the cloud refuses. A second time changes nothing.",
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
	var only bool
	c := &cobra.Command{
		Use: k.Name, Short: "Have machines be bought on " + k.Title,
		Long: "Asks " + k.Title + " whether machines can be bought as the flags say, makes what is missing there, and\n" +
			"keeps the settings in the state folder. docs/" + k.Name + ".md says what is needed.",
		Example: "  tradewind cloud add " + k.Name + "\n  tradewind cloud add " + k.Name + " --regions us-east-1",
		Args:    command.Args(0, 0),
	}
	k.Flags(c.Flags(), &s)
	c.Flags().StringSliceVar(&s.Regions, "regions", nil, "all regions to buy in (default: as the cloud's page says)")
	c.Flags().BoolVar(&only, "print", false,
		"print the commands that would make what is missing in the cloud, and do nothing")
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
		return a.addCloud(ctx, k, s, command.Absolute(state), only, output)
	}
	return c
}

func (a app) addCloud(ctx context.Context, k cloudkit.Kit, s cloudkit.Settings, state string, only bool,
	output *command.Choice) error {
	if err := k.Ready(s, a.Lookup); err != nil {
		return command.BadInput("`tradewind cloud add "+k.Name+" --help` lists what it takes", "%s: %v", k.Name, err)
	}
	settings, err := cloudkit.Load(state)
	if err != nil {
		return err
	}
	request, err := a.request(s, state)
	if err != nil {
		return err
	}
	if s.Functions.Account != "" {
		return a.prepareForFunctions(ctx, k, request, state, only, output)
	}
	if k.Setup != nil {
		if only { // nothing is signed, which takes credentials
			request.Settings.Stores = nil
		}
		setup, err := k.Setup(ctx, request)
		if err != nil {
			return err
		}
		if only {
			return errors.Join(setup.Print(a.Out), a.printStores(k, s))
		}
		if s, err = setup.Make(ctx, func(step string) { a.Tell("%s", step) }); err != nil {
			return err
		}
		request.Settings = s
	} else if only {
		a.Tell("nothing has to be made on %s", k.Title)
		return nil
	}
	checked := checkCloud(ctx, k, request)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if checked.fatal() {
		err := a.printCheck(CloudCheck{Clouds: []CheckedCloud{checked}}, output)
		return errors.Join(err, command.Failed("", "%s is not added: nothing can be bought there yet", k.Name))
	}
	if err := a.makeStores(ctx, k, request); err != nil {
		return err
	}
	settings[k.Name] = s
	if err := cloudkit.Save(state, settings); err != nil {
		return err
	}
	if err := a.printCheck(CloudCheck{OK: true, Clouds: []CheckedCloud{checked}}, output); err != nil {
		return err
	}
	if !output.JSON() {
		a.Tell("added; `tradewind up --clouds %s --public-url URL` buys there", k.Name)
	}
	return nil
}

// request is what a cloud is opened with by a command that buys nothing.
func (a app) request(s cloudkit.Settings, state string) (cloudkit.Request, error) {
	name, err := host.DeploymentOf(state)
	return cloudkit.Request{Settings: s, Deployment: name, Lookup: a.Lookup, Log: a.logger(0)}, err
}

func (a app) cloudRemoveCommand() *cobra.Command {
	var state string
	var forget bool
	var of cloudkit.Settings
	c := &cobra.Command{
		Use: "remove CLOUD", Short: "Have no machines be bought on a cloud any more",
		Long: "Takes away what `tradewind cloud add` made in the cloud, and forgets its settings. It is refused while machines\n" +
			"are there, or a broker that buys there.",
		Example: "  tradewind cloud remove lambda\n  tradewind cloud remove gcp --aws-account 123456789012",
		Args:    command.Args(1, 1),
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return cloudkit.Names(a.kits), cobra.ShellCompDirectiveNoFileComp
		},
	}
	a.StateFlag(c, &state)
	cloudkit.FunctionFlags(c.Flags(), &of)
	c.Flags().BoolVar(&forget, "forget", false,
		"forget the settings although the cloud cannot be asked, as when a key was withdrawn")
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
		return command.Failed("stop it first, which ends its machines", "a broker (pid %d) buys on %s", r.PID, name)
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
	a.Tell("%s is removed", name)
	return nil
}

// clear takes away what was made in a cloud, unless machines run there.
func (a app) clear(ctx context.Context, k cloudkit.Kit, r cloudkit.Request) error {
	running, err := machinesOf(ctx, k, r)
	if err != nil {
		return command.Failed("--forget forgets the settings all the same; look there yourself whether machines run",
			"%s cannot be asked for its machines: %v", k.Name, err)
	}
	if len(running) > 0 {
		return command.Failed("`tradewind up --clouds "+k.Name+" --public-url URL` goes on with them until it stops",
			"%s of this deployment not ended on %s: %s", text.Count(len(running), "machine"), k.Name,
			strings.Join(running, ", "))
	}
	if k.Setup == nil {
		return nil
	}
	setup, err := k.Setup(ctx, r)
	if err != nil {
		return err
	}
	return setup.Remove(ctx, func(step string) { a.Tell("%s", step) })
}

// machinesOf are the ids of a deployment's machines that have not ended.
func machinesOf(ctx context.Context, k cloudkit.Kit, r cloudkit.Request) ([]string, error) {
	o, err := k.Open(ctx, r)
	if err != nil {
		return nil, err
	}
	list, err := o.Cloud.Machines(ctx, "")
	if err != nil {
		return nil, err
	}
	var running []string
	for _, m := range list {
		if m.State != cloud.Terminated { // one that has failed or stopped has a disk all the same
			running = append(running, m.ID)
		}
	}
	return running, nil
}

// kit finds a cloud by its name.
func (a app) kit(name string) (cloudkit.Kit, error) {
	for _, k := range a.kits {
		if k.Name == name {
			return k, nil
		}
	}
	return cloudkit.Kit{}, command.BadInput(fault.OneOf(name, cloudkit.Names(a.kits)), "there is no cloud %q", name)
}
