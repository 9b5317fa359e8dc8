package clouds

import (
	"context"
	"fmt"

	"github.com/tradewind-broker/tradewind/internal/cli/command"
	"github.com/tradewind-broker/tradewind/internal/cloudkit"
)

// CloudForFunctions is the output of `cloud add CLOUD --aws-account ID -o json`.
type CloudForFunctions struct {
	Cloud string `json:"cloud"` // value for `deploy aws --cloud`
}

// prepareForFunctions lets a cloud trust the function of a deployment on AWS, and prints the settings to deploy with.
func (a app) prepareForFunctions(ctx context.Context, k cloudkit.Kit, r cloudkit.Request, state string, only bool,
	output *command.Choice) error {
	f := r.Settings.Functions
	r.Deployment = f.Deployment
	setup, err := k.Setup(ctx, r)
	if err != nil {
		return err
	}
	if only {
		roles, err := k.OpenRoles(ctx, r)
		if err == nil {
			err = setup.Print(a.Out)
		}
		if err != nil {
			return err
		}
		return roles.Print(a.Out)
	}
	// Store the request before anything is created, so that a partial setup can be removed, too. The user removes it,
	// not the functions.
	if err := cloudkit.SaveMadeFor(state, k.Name, f, &r.Settings); err != nil {
		return err
	}
	s, err := a.setUp(ctx, k, r)
	if err != nil {
		return err
	}
	settings, err := s.Text()
	if err != nil {
		return err
	}
	if output.JSON() {
		return a.PrintJSON(CloudForFunctions{Cloud: k.Name + ":" + settings})
	}
	_, err = fmt.Fprintf(a.Out, "tradewind deploy aws --name %s --cloud %s:%s\n", f.Deployment, k.Name, settings)
	return err
}

// removeForFunctions deletes the resources created for a deployment, unless its machines run there.
func (a app) removeForFunctions(ctx context.Context, name string, f cloudkit.Functions, state string) error {
	k, err := a.kit(name)
	if err != nil {
		return err
	}
	if err := f.Check(); err != nil {
		return command.BadInput("", "%v", err)
	}
	s, known, err := cloudkit.LoadMadeFor(state, name, f)
	if err != nil {
		return err
	}
	if !known {
		return command.BadInput(
			"to remove the setup by hand, list its resources with `tradewind cloud add "+name+" --print` and the "+
				"same flags",
			"%s has no record that %s was set up for %s of account %s",
			state,
			name,
			f.Deployment,
			f.Account,
		)
	}
	request, err := a.request(s, state)
	if err != nil {
		return err
	}
	request.Deployment = f.Deployment
	if err := a.clear(ctx, k, request); err != nil {
		return err
	}
	if err := cloudkit.SaveMadeFor(state, name, f, nil); err != nil {
		return err
	}
	a.Tell("removed the setup on %s for %s of account %s", name, f.Deployment, f.Account)
	return nil
}
