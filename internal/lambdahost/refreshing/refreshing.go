// Package refreshing lets the function refresh renew the catalogue.
package refreshing

import (
	"context"

	"github.com/tradewind-broker/tradewind/internal/lambdahost"
	"github.com/tradewind-broker/tradewind/internal/lambdahost/clouds"
	"github.com/tradewind-broker/tradewind/internal/lambdahost/objects"
	"github.com/tradewind-broker/tradewind/pkg/cloud/aws/refresh"
)

// Part renews the offers of the deployment's regions, and keeps them in the work bucket, where optimize finds them.
func Part(h *lambdahost.Host) error {
	c, err := clouds.Open(h)
	if err != nil {
		return err
	}
	r := &refresh.Refresher{
		Cloud: c, Snapshots: refresh.Bucket{Client: objects.NewClient(h), Name: h.Env.WorkBucket}, Now: h.Ports.Now,
		Log: h.Log(),
	}
	h.Ports.Refresh = func(ctx context.Context) error {
		res, err := r.Refresh(ctx)
		if err == nil {
			h.Log().InfoContext(ctx, "catalogue renewed", "regions", len(res.Regions), "offers", res.Offers, "new",
				res.New, "gone", res.Gone)
		}
		return err
	}
	return nil
}
