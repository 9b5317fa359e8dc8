// Package kits has the kit of every cloud that a broker in one process can buy on. A program that needs one cloud alone
// uses that one's package.
package kits

import (
	"github.com/tradewind-broker/tradewind/internal/cloudkit"
	"github.com/tradewind-broker/tradewind/internal/cloudkit/awskit"
	"github.com/tradewind-broker/tradewind/internal/cloudkit/azurekit"
	"github.com/tradewind-broker/tradewind/internal/cloudkit/gcpkit"
	"github.com/tradewind-broker/tradewind/internal/cloudkit/kubekit"
	"github.com/tradewind-broker/tradewind/internal/cloudkit/lambdakit"
)

// All are the kits, by name.
func All() []cloudkit.Kit {
	azure, google := azurekit.Kit(), gcpkit.Kit()
	azure.Setup, google.Setup = azureSetup, googleSetup // which a function that buys does not link
	return []cloudkit.Kit{awskit.Kit(), azure, google, kubekit.Kit(), lambdakit.Kit()}
}
