// Package data gives functions the stores of what tasks read and write: S3, with the function's own rights, which what
// it grants cannot exceed.
package data

import (
	"github.com/aws/aws-sdk-go-v2/service/sts"

	"github.com/tradewind-broker/tradewind/internal/lambdahost"
	"github.com/tradewind-broker/tradewind/internal/lambdahost/objects"
	"github.com/tradewind-broker/tradewind/pkg/grant"
	"github.com/tradewind-broker/tradewind/pkg/grant/s3grant"
)

// Part lets the broker grant, and end the uploads that agents leave behind.
func Part(h *lambdahost.Host) error {
	var loans s3grant.Loans
	if h.Env.MountsRole != "" {
		loans = s3grant.Loans{STS: sts.NewFromConfig(h.AWS), Role: h.Env.MountsRole}
	}
	s3 := s3grant.NewAnywhere(objects.NewClient(h), s3grant.Options{Loans: loans}).Home(h.Env.WorkBucket)
	h.Ports.Data = grant.Mux{"s3": s3}
	return nil
}
