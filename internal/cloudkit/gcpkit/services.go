package gcpkit

import (
	"context"

	"github.com/tradewind-broker/tradewind/internal/cloud/dataproc"
	"github.com/tradewind-broker/tradewind/internal/cloudkit"
	"github.com/tradewind-broker/tradewind/pkg/cloud/service"
)

// services opens the services that a request's settings name.
func services(ctx context.Context, r cloudkit.Request) (*cloudkit.Services, error) {
	s := r.Settings
	client, err := Access(ctx, s)
	if err != nil {
		return nil, err
	}
	cfg := dataproc.Config{Deployment: r.Deployment, Project: s.Project, Regions: s.Regions,
		ServiceAccount: s.SparkAccount, Subnetwork: s.Subnetwork, Labels: s.Tags, Graves: r.Graves,
		Endpoint: s.Endpoint, Client: client}
	all := map[string]service.Service{}
	for _, name := range s.Services {
		switch name {
		case "dataproc":
			all[name] = dataproc.NewClusters(cfg)
		case "dataproc-serverless":
			all[name] = dataproc.NewBatches(cfg)
		}
	}
	return cloudkit.ServicesOf(all, s), nil
}
