// Package data gives functions the stores that tasks read and write: S3, with the function's own permissions, which its
// grants cannot exceed, and stores of other clouds, for which those clouds' functions sign.
package data

import (
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/sts"

	"github.com/tradewind-broker/tradewind/internal/cloud/driver"
	"github.com/tradewind-broker/tradewind/internal/grant/remote"
	"github.com/tradewind-broker/tradewind/internal/grant/s3grant"
	"github.com/tradewind-broker/tradewind/internal/lambdahost"
	"github.com/tradewind-broker/tradewind/internal/lambdahost/far"
	"github.com/tradewind-broker/tradewind/pkg/grant"
)

// New makes the stores of a deployment.
func New(s *lambdahost.Sandbox, others far.Functions) grant.Mux {
	var loans s3grant.Loans
	if s.Env.MountsRole != "" {
		loans = s3grant.Loans{STS: sts.NewFromConfig(s.AWS), Role: s.Env.MountsRole}
	}
	s3 := s3grant.NewAnyRegion(s.S3(), s3grant.Options{Loans: loans}).Home(s.Env.WorkBucket)
	stores := grant.Mux{"s3": s3}
	for _, name := range foreign(s.Env) {
		stores[driver.Scheme(name)] = remote.New(others.Cloud(name))
	}
	return stores
}

// foreign returns the clouds other than AWS in which the deployment has stores.
func foreign(env lambdahost.Env) (names []string) {
	for _, name := range env.Clouds {
		if name == "aws" || driver.Scheme(name) == "" {
			continue
		}
		for place := range env.Stores {
			if strings.HasPrefix(place, name+":") && !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	return names
}
