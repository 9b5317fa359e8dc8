package kits

import (
	"context"

	"github.com/tradewind-broker/tradewind/internal/cloudkit"
	"github.com/tradewind-broker/tradewind/internal/cloudkit/awskit"
	"github.com/tradewind-broker/tradewind/internal/cloudkit/awskit/services"
)

func awsServices(ctx context.Context, r cloudkit.Request) (*cloudkit.Services, error) {
	sdk, regions, err := awskit.Access(ctx, r.Settings)
	if err != nil {
		return nil, err
	}
	return services.Open(sdk, regions, r)
}
