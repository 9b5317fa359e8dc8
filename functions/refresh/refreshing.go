package main

import (
	"context"
	"slices"

	"github.com/tradewind-broker/tradewind/internal/cloud/aws"
	"github.com/tradewind-broker/tradewind/internal/cloud/aws/refresh"
	"github.com/tradewind-broker/tradewind/internal/cloud/driver"
	"github.com/tradewind-broker/tradewind/internal/cloud/driver/renew"
	"github.com/tradewind-broker/tradewind/internal/cloud/remote"
	"github.com/tradewind-broker/tradewind/internal/lambdahost"
)

// New returns a broker.Ports.Refresh: it refreshes the offers of the clouds on which the deployment buys, and stores
// them in the work bucket, where optimize reads them. It asks AWS directly, and each other cloud through the cloud's
// function, which alone has permissions there.
func New(s *lambdahost.Sandbox, here *aws.Cloud, others map[string]*remote.Client) func(context.Context) error {
	bucket := refresh.Bucket{Client: s.S3(), Name: s.Env.WorkBucket}
	ownOffers := func(ctx context.Context, known driver.Snapshots) (driver.Refreshed, error) {
		one := refresh.Refresher{Cloud: here, Snapshots: known, Now: s.Now, Log: s.Log}
		res, err := one.Refresh(ctx)
		return driver.Refreshed{Offers: res.Offers, Kept: res.Kept}, err
	}
	sources := []renew.Source{{Cloud: aws.Name, Refresh: ownOffers}}
	for _, name := range s.Env.Clouds {
		if client, ok := others[name]; ok {
			sources = append(sources, renew.Source{Cloud: name, Refresh: ThroughFunction(client)})
		}
	}
	return func(ctx context.Context) error {
		reports, err := renew.All(ctx, bucket, s.Now, sources)
		for _, r := range reports {
			if !r.Renewed {
				s.Log.WarnContext(ctx, "a cloud's offers could not be refreshed", "cloud", r.Cloud, "err", r.Problem)
				continue
			}
			s.Log.InfoContext(
				ctx,
				"a cloud's offers were refreshed",
				"cloud",
				r.Cloud,
				"offers",
				r.Offers,
				"new",
				r.New,
				"gone",
				r.Gone,
				"dearer",
				r.Dearer,
				"cheaper",
				r.Cheaper,
				"kept",
				slices.Clone(r.Kept),
			)
		}
		return err
	}
}

// ThroughFunction refreshes the offers of a cloud through its function: it sends the known offers and gets the current
// ones. Messages contain only that cloud's offers, because their size is limited.
func ThroughFunction(client *remote.Client) driver.Refresh {
	return func(ctx context.Context, s driver.Snapshots) (driver.Refreshed, error) {
		part, err := renew.Part(ctx, s, client.Name())
		if err != nil {
			return driver.Refreshed{}, err
		}
		res, err := client.Refresh(ctx, part)
		if err != nil {
			return res, err
		}
		return res, renew.Merge(ctx, s, part, client.Name())
	}
}
