// Package helm embeds the broker's Helm chart in the program: `tradewind deploy kubernetes` applies the same
// objects as Helm.
package helm

import "embed"

// Chart holds the chart, in the folder tradewind.
//
//go:embed tradewind/Chart.yaml tradewind/values.yaml tradewind/templates/*.yaml tradewind/crds/*.yaml
var Chart embed.FS
