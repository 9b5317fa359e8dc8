// Package services opens the managed services of AWS that run Spark applications: EMR and EMR Serverless. It does not
// link EC2, so that a function that buys only services stays small.
package services

import (
	"context"
	"errors"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"

	"github.com/tradewind-broker/tradewind/internal/cloud/emr"
	"github.com/tradewind-broker/tradewind/internal/cloud/emrserverless"
	"github.com/tradewind-broker/tradewind/internal/cloudkit"
	"github.com/tradewind-broker/tradewind/internal/identity"
	"github.com/tradewind-broker/tradewind/pkg/cloud/service"
)

var errNoJobRole = errors.New("emr-serverless needs the role of its job runs: " +
	"tradewind cloud add aws --services emr-serverless --job-role ARN")

// Kit returns a kit of AWS that buys only services, with the given access to AWS.
func Kit(sdk awssdk.Config) cloudkit.Kit {
	return cloudkit.Kit{Name: identity.AWSName, Title: "Amazon Web Services",
		Services: func(_ context.Context, r cloudkit.Request) (*cloudkit.Services, error) {
			return Open(sdk, r.Settings.Regions, r)
		}}
}

// Open opens the services that a request's settings name, in some regions.
func Open(sdk awssdk.Config, regions []string, r cloudkit.Request) (*cloudkit.Services, error) {
	s := r.Settings
	all := map[string]service.Service{}
	for _, name := range s.Services {
		switch name {
		case emr.Name:
			all[name] = emr.New(sdk, emr.Config{Deployment: r.Deployment, Regions: regions, ServiceRole: s.EMRRole,
				InstanceProfile: s.EMRProfile, Tags: s.Tags, Graves: r.Graves})
		case emrserverless.Name:
			if s.JobRole == "" {
				return nil, errNoJobRole
			}
			all[name] = emrserverless.New(sdk, emrserverless.Config{Deployment: r.Deployment, Regions: regions,
				Role: s.JobRole, Tags: s.Tags, Graves: r.Graves})
		}
	}
	return cloudkit.ServicesOf(all, s), nil
}
