// Package catalog knows what the clouds sell: every machine type in every
// zone, its size, accelerator and prices, and the managed services that run on
// it. It is the Catalog of the
// intercloud-broker paper (§4.2): the optimizer asks it for the candidates of
// a task, and users search it by attributes instead of by product name.
//
// It holds list prices and rarely changing facts. It does not know what a spot
// price is at this minute or whether a zone has capacity (pkg/market does), and
// it never launches anything (pkg/cloud does).
//
// # Use
//
//	c, err := catalog.Default()           // the snapshot in the binary
//	c, err = catalog.Open(dir)            // --catalog DIR; "" is Default
//	matches, err := c.Find(catalog.Query{
//		Accelerator: "nvidia-v100", AcceleratorCount: 8,
//		Market: catalog.Spot, CheapestPer: catalog.PerRegion, Limit: 10,
//	})
//	var none *catalog.NoOfferError
//	if errors.As(err, &none) { … }        // says which filter to relax, and to what
//
// A [Catalog] is immutable and safe for concurrent use. Importing the package
// costs nothing: the snapshot is decoded on the first call of [Default].
//
// # Identity
//
// An offer's ID is CLOUD/REGION/ZONE/TYPE[/SERVICE], a choice of market adds
// /spot or /on-demand: aws/us-east-1/use1-az1/p3.2xlarge/spot. Azure and Lambda
// sell by region, so their IDs have no zone:
// azure/eastus/Standard_NC6s_v3/on-demand. A GPU that is attached to a machine
// type rather than built into it is part of TYPE, since the same machine is sold
// with and without: gcp/us-central1/us-central1-a/n1-standard-8+V100:1. See
// [ParseOfferID].
//
// # Data
//
// Offers are read from CSV files in the schema that SkyPilot's catalogue made
// common, one file a cloud (see [Load]): package internal/skypilot reads them and
// decides what they leave to the reader's knowledge. Package internal/table keeps
// them as columns, in memory and in the snapshot. The grid's carbon intensity
// (carbon.go) is beside them here, and what crossing a region or a cloud costs is
// in pkg/catalog/egress.
//
// # Stability
//
// Queries, offers, their IDs and their JSON are stable: fields are only added. The
// snapshot is read by the version that wrote it; other versions may refuse it, but not for reserved capacity of a kind
// that they do not know: that is skipped and kept.
package catalog
