// Command cloud-gcp is the Lambda function that buys and releases machines on Google Cloud.
package main

import (
	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/tradewind-broker/tradewind/internal/cloudkit"
	"github.com/tradewind-broker/tradewind/internal/cloudkit/gcpkit"
	"github.com/tradewind-broker/tradewind/internal/lambdahost/cloudhost"
)

func main() { cloudhost.Serve(func(cloudhost.Env, aws.Config) cloudkit.Kit { return gcpkit.Kit() }) }
