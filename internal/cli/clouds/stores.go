package clouds

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/tradewind-broker/tradewind/internal/cli/command"
	"github.com/tradewind-broker/tradewind/internal/cloudkit"
	"github.com/tradewind-broker/tradewind/pkg/grant"
)

// makeStores creates the missing buckets of the stores in the settings. `cloud remove` keeps them, because they contain
// the user's data.
func (a app) makeStores(ctx context.Context, k cloudkit.Kit, r cloudkit.Request) error {
	if len(r.Settings.Stores) == 0 {
		return nil
	}
	opened, err := k.Open(ctx, r)
	if err != nil {
		return command.BadInput("docs/stores.md describes what stores need", "%s: %v", k.Name, err)
	}
	urls := r.Settings.StoreURLs(k.Name)
	for _, place := range slices.Sorted(maps.Keys(urls)) {
		if opened.Data == nil {
			return command.BadInput("", "%s: stores are not supported there", k.Name)
		}
		if _, err := opened.Data.List(ctx, urls[place], ""); err == nil {
			a.Tell("store %s: exists", urls[place])
			continue
		}
		if err := grant.MakeBucket(ctx, opened.Data, urls[place]); err != nil {
			return command.Failed("create it yourself, or name another with --stores", "%s: %v", k.Name, err)
		}
		a.Tell("store %s: created", urls[place])
	}
	return nil
}

// printStores prints the commands that create the stores.
func (a app) printStores(k cloudkit.Kit, s cloudkit.Settings) error {
	for _, region := range slices.Sorted(maps.Keys(s.Stores)) {
		line := fmt.Sprintf("gcloud storage buckets create gs://%s --project %s --location %s", s.Stores[region],
			s.Project, strings.ToUpper(region))
		if k.Name == "azure" {
			line = fmt.Sprintf("az storage container create --name %s --account-name %s --auth-mode login",
				s.Stores[region], s.StorageAccount)
		}
		if err := a.Printf("%s\n", line); err != nil {
			return err
		}
	}
	return nil
}
