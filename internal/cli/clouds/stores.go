package clouds

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/tradewind-broker/tradewind/internal/cli/command"
	"github.com/tradewind-broker/tradewind/internal/cloud/driver"
	"github.com/tradewind-broker/tradewind/internal/cloudkit"
	"github.com/tradewind-broker/tradewind/internal/host"
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

// withBucket adds a bucket with a name of the deployment to settings without stores. Machines and a broker without a
// public URL exchange messages through it, and it stores the outputs of tasks.
func withBucket(ctx context.Context, k cloudkit.Kit, r cloudkit.Request) (cloudkit.Settings, error) {
	s := r.Settings
	if len(s.Stores) > 0 {
		return s, nil
	}
	if driver.Scheme(k.Name) == "" {
		return s, command.BadInput("name a cloud that has buckets in addition, or use --public-url",
			"%s has no buckets", k.Title)
	}
	regions := s.Regions
	if len(regions) == 0 {
		opened, err := k.Open(ctx, r)
		if err != nil {
			return s, command.Failed("`tradewind cloud add "+k.Name+" --help` lists its flags", "%s: %v", k.Name, err)
		}
		regions = opened.Regions
	}
	if len(regions) == 0 {
		return s, command.BadInput("name a region with --regions", "%s: the region of the bucket is missing", k.Name)
	}
	s.Stores = map[string]string{regions[0]: ownBucket(r.Deployment, regions[0])}
	return s, nil
}

// ownBucket is the name of a bucket that was not named by the user.
func ownBucket(deployment, region string) string { return deployment + "-" + region }

// hasOutputs reports whether a bucket has objects that the broker did not put there for itself.
func hasOutputs(ctx context.Context, s grant.Store, bucket string) (bool, error) {
	for o, err := range grant.Objects(ctx, s, bucket) {
		if err != nil || !host.OwnObject(bucket, o.URI) {
			return err == nil, err
		}
	}
	return false, nil
}

// removeBuckets removes the buckets that were created without a name from the user. One with outputs of jobs is kept.
func (a app) removeBuckets(ctx context.Context, k cloudkit.Kit, r cloudkit.Request) error {
	for region, bucket := range r.Settings.Stores {
		if bucket != ownBucket(r.Deployment, region) {
			continue
		}
		opened, err := k.Open(ctx, r)
		if err != nil {
			return err
		}
		uri := driver.Scheme(k.Name) + "://" + bucket
		outputs, err := hasOutputs(ctx, opened.Data, uri)
		if errors.Is(err, grant.ErrNoBucket) {
			continue
		}
		if err != nil {
			return command.Failed("--forget deletes the settings anyway", "bucket %s: %v", uri, err)
		}
		if outputs {
			a.Tell("bucket %s: kept, because it has outputs of jobs", uri)
			continue
		}
		if err := grant.RemoveBucket(ctx, opened.Data, uri); err != nil {
			return command.Failed("--forget deletes the settings anyway", "bucket %s: %v", uri, err)
		}
		a.Tell("bucket %s: removed", uri)
	}
	return nil
}

// printStores prints the commands that create the stores.
func (a app) printStores(k cloudkit.Kit, s cloudkit.Settings) error {
	for _, region := range slices.Sorted(maps.Keys(s.Stores)) {
		line := fmt.Sprintf("gcloud storage buckets create gs://%s --project %s --location %s", s.Stores[region],
			s.Project, strings.ToUpper(region))
		switch k.Name {
		case "aws":
			line = fmt.Sprintf("aws s3 mb s3://%s --region %s", s.Stores[region], region)
		case "azure":
			line = fmt.Sprintf("az storage container create --name %s --account-name %s --auth-mode login",
				s.Stores[region], s.StorageAccount)
		}
		if err := a.Printf("%s\n", line); err != nil {
			return err
		}
	}
	return nil
}
