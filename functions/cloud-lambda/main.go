// Command cloud-lambda is the AWS Lambda function that buys and releases machines on Lambda's GPU cloud.
package main

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ssm"

	"github.com/tradewind-broker/tradewind/internal/cloud/lambdalabs"
	"github.com/tradewind-broker/tradewind/internal/cloudkit"
	"github.com/tradewind-broker/tradewind/internal/cloudkit/lambdakit"
	"github.com/tradewind-broker/tradewind/internal/lambdahost/cloudhost"
	"github.com/tradewind-broker/tradewind/internal/secret"
	"github.com/tradewind-broker/tradewind/internal/secret/awssecret"
)

func main() { cloudhost.Serve(kit) }

// kit returns the cloud's kit, which reads its API key from the deployment's parameter.
func kit(env cloudhost.Env, cfg aws.Config) cloudkit.Kit {
	client := ssm.NewFromConfig(cfg)
	parameters := awssecret.Sources(func(context.Context) (awssecret.SSM, error) { return client, nil })
	return lambdakit.KitBy(lambdalabs.KeySecret(parameters[secret.SSM], "/"+env.Deployment+"/clouds/lambda-key"))
}
