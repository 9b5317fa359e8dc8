// Package catalog has what the clouds sell: every machine type in every zone, with its size, accelerator and prices,
// and the managed services that run on it. It is the Catalog of the intercloud-broker paper (§4.2): the optimizer
// queries it for the candidates of a task, and users search it by attributes instead of by product name.
//
// It has list prices and facts that rarely change. It does not have current spot prices or the capacity of zones
// (pkg/market has both), and it never launches anything (pkg/cloud does).
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
//	if errors.As(err, &none) { … }        // names the filters to relax
//
// A [Catalog] is immutable and safe for concurrent use. Importing the package
// costs nothing: the snapshot is decoded on the first call of [Default].
//
// # Identity
//
// An offer's ID is CLOUD/REGION/ZONE/TYPE[/SERVICE]. With a market it ends in /spot or /on-demand:
// aws/us-east-1/use1-az1/p3.2xlarge/spot. Azure and Lambda sell by region, so their IDs have no zone:
// azure/eastus/Standard_NC6s_v3/on-demand. A GPU that is attached to a machine type, not built into it, is part of
// TYPE, because the same machine is sold with and without it: gcp/us-central1/us-central1-a/n1-standard-8+V100:1. See
// [ParseOfferID].
//
// # Data
//
// Offers are read from CSV files in the schema of SkyPilot's catalogue, one file per cloud (see [Load]). Package
// internal/skypilot reads them and adds the facts that the files omit. Package internal/table keeps them as columns,
// in memory and in the snapshot. The carbon intensity of the grid is in this package (carbon.go), and the cost of
// transfers between regions and clouds is in pkg/catalog/egress.
//
// # Stability
//
// Queries, offers, their IDs and their JSON are stable: fields are only added. A snapshot is meant for the version
// that wrote it, and other versions may reject it. They do not reject it for reserved capacity of a kind that they do
// not know: they skip that and keep it.
package catalog
