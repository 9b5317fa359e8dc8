// Package refreshing lets the function refresh renew the catalogue.
package refreshing

import (
	"context"
	"slices"

	"github.com/tradewind-broker/tradewind/internal/lambdahost"
	"github.com/tradewind-broker/tradewind/pkg/cloud/aws"
	"github.com/tradewind-broker/tradewind/pkg/cloud/aws/refresh"
	"github.com/tradewind-broker/tradewind/pkg/cloud/driver"
	"github.com/tradewind-broker/tradewind/pkg/cloud/driver/renew"
	"github.com/tradewind-broker/tradewind/pkg/cloud/remote"
)

// New returns a broker.Ports.Refresh: it renews the offers of the clouds that the deployment buys on, and keeps them
// in the work bucket, where optimize finds them. AWS is asked from here, each other cloud by its own function, which
// alone has rights there.
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
			sources = append(sources, renew.Source{Cloud: name, Refresh: Afar(client)})
		}
	}
	return func(ctx context.Context) error {
		reports, err := renew.All(ctx, bucket, s.Now, sources)
		for _, r := range reports {
			if !r.Renewed {
				s.Log.WarnContext(ctx, "a cloud's offers stay as they were", "cloud", r.Cloud, "err", r.Problem)
				continue
			}
			s.Log.InfoContext(ctx, "a cloud's offers are renewed", "cloud", r.Cloud, "offers", r.Offers, "new", r.New,
				"gone", r.Gone, "dearer", r.Dearer, "cheaper", r.Cheaper, "kept", slices.Clone(r.Kept))
		}
		return err
	}
}

// Afar renews the offers of a cloud by its function: what is known of it goes there, and what it sells now comes back.
// Messages have that cloud's offers alone, as there is a limit to their size.
func Afar(client *remote.Client) driver.Refresh {
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
