// Package everycloud links the clients of all clouds and of Kubernetes into a program.
package everycloud

import (
	"github.com/tradewind-broker/tradewind/internal/cli/clouds"
	"github.com/tradewind-broker/tradewind/internal/cli/cluster"
	"github.com/tradewind-broker/tradewind/internal/cli/deployment"
	"github.com/tradewind-broker/tradewind/internal/cloudkit/kits"
	"github.com/tradewind-broker/tradewind/internal/grant/ambient"
)

// Support returns the support of everything.
func Support() clouds.Support {
	return clouds.Support{
		Kits: kits.All(), Stores: ambient.Stores(), Secrets: ambient.Secrets(),
		Deploy: deployment.Command, Forward: cluster.Forward, ClusterJobs: cluster.Jobs,
	}
}
