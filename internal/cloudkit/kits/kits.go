// Package kits has the kits of all clouds on which a broker in one process can buy. A program that needs only one
// cloud uses that cloud's package.
package kits

import (
	"github.com/tradewind-broker/tradewind/internal/cloudkit"
	"github.com/tradewind-broker/tradewind/internal/cloudkit/awskit"
	"github.com/tradewind-broker/tradewind/internal/cloudkit/azurekit"
	"github.com/tradewind-broker/tradewind/internal/cloudkit/gcpkit"
	"github.com/tradewind-broker/tradewind/internal/cloudkit/kubekit"
	"github.com/tradewind-broker/tradewind/internal/cloudkit/lambdakit"
)

// All returns the kits, sorted by name.
func All() []cloudkit.Kit {
	aws, azure, google := awskit.Kit(), azurekit.Kit(), gcpkit.Kit()
	// These are separate, so that a function that only buys machines does not link them.
	azure.Setup, google.Setup = azureSetup, googleSetup
	aws.Services = awsServices
	aws.Roles, google.Roles = awsRoles, googleRoles
	return []cloudkit.Kit{aws, azure, google, kubekit.Kit(), lambdakit.Kit()}
}
