// Package helm has the Helm chart of the broker as part of the program: `tradewind deploy kubernetes` applies the same
// objects that Helm would.
package helm

import "embed"

// Chart is the folder tradewind, the chart.
//
//go:embed tradewind/Chart.yaml tradewind/values.yaml tradewind/templates/*.yaml tradewind/crds/*.yaml
var Chart embed.FS
