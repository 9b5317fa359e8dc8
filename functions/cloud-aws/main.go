// Command cloud-aws is the Lambda function that buys and ends managed services of AWS: EMR and EMR Serverless. The
// function provision itself buys AWS's machines.
package main

import (
	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/tradewind-broker/tradewind/internal/cloudkit"
	"github.com/tradewind-broker/tradewind/internal/cloudkit/awskit/services"
	"github.com/tradewind-broker/tradewind/internal/lambdahost/cloudhost"
)

func main() {
	cloudhost.Serve(func(_ cloudhost.Env, cfg aws.Config) cloudkit.Kit { return services.Kit(cfg) })
}
