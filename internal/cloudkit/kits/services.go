package kits

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/tradewind-broker/tradewind/internal/cloud/dataproc"
	"github.com/tradewind-broker/tradewind/internal/cloud/driver"
	"github.com/tradewind-broker/tradewind/internal/cloud/emr"
	"github.com/tradewind-broker/tradewind/internal/cloud/emrserverless"
	"github.com/tradewind-broker/tradewind/internal/cloudkit"
	"github.com/tradewind-broker/tradewind/internal/cloudkit/awskit"
	"github.com/tradewind-broker/tradewind/internal/cloudkit/gcpkit"
	"github.com/tradewind-broker/tradewind/pkg/cloud/service"
)

var errNoJobRole = errors.New("emr-serverless needs the role of its job runs: " +
	"tradewind cloud add aws --services emr-serverless --job-role ARN")

func awsServices(ctx context.Context, r cloudkit.Request) (*cloudkit.Services, error) {
	s := r.Settings
	sdk, regions, err := awskit.Access(ctx, s)
	if err != nil {
		return nil, err
	}
	all := map[string]service.Service{}
	for _, name := range s.Services {
		switch name {
		case "emr":
			all[name] = emr.New(sdk, emr.Config{Deployment: r.Deployment, Regions: regions, ServiceRole: s.EMRRole,
				InstanceProfile: s.EMRProfile, Tags: s.Tags, Graves: r.Graves})
		case "emr-serverless":
			if s.JobRole == "" {
				return nil, errNoJobRole
			}
			all[name] = emrserverless.New(sdk, emrserverless.Config{Deployment: r.Deployment, Regions: regions,
				Role: s.JobRole, Tags: s.Tags, Graves: r.Graves})
		}
	}
	return &cloudkit.Services{Of: all, Lacks: lacks(all, s)}, nil
}

func googleServices(ctx context.Context, r cloudkit.Request) (*cloudkit.Services, error) {
	s := r.Settings
	client, err := gcpkit.Access(ctx, s)
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
	return &cloudkit.Services{Of: all, Lacks: lacks(all, s)}, nil
}

// lacks returns the check of services: each lists its places, which needs the API and the right to use it.
func lacks(all map[string]service.Service, s cloudkit.Settings) func(context.Context) []driver.Lack {
	return func(ctx context.Context) (missing []driver.Lack) {
		for _, name := range slices.Sorted(maps.Keys(all)) {
			if _, err := all[name].Places(ctx); err != nil {
				missing = append(missing, driver.Lack{What: fmt.Sprintf("%s: %v", name, err)})
			}
		}
		if len(s.Stores) == 0 {
			missing = append(missing, driver.Lack{
				What: "services read and write only buckets of their cloud, and the settings name none",
				Mend: "add --bucket, or --stores REGION=BUCKET",
			})
		}
		return missing
	}
}
