package catalog_test

import (
	"errors"
	"fmt"
	"log"

	"github.com/tradewind-broker/tradewind/pkg/catalog"
)

// Find returns the cheapest place for eight V100 in each cloud.
func ExampleCatalog_Find() {
	c, err := catalog.Default()
	if err != nil {
		log.Fatal(err)
	}
	matches, err := c.Find(catalog.Query{
		Accelerator: "nvidia-tesla-v100", AcceleratorCount: 8,
		Market: catalog.OnDemand, CheapestPer: catalog.PerCloud,
	})
	if err != nil {
		log.Fatal(err)
	}
	for _, m := range matches {
		fmt.Printf("%6.2f USD/h  %s\n", m.USDPerHour, m.ID())
	}
	// Output:
	//   6.32 USD/h  lambda/asia-northeast-1/gpu_8x_v100/on-demand
	//  21.36 USD/h  gcp/us-central1/us-central1-a/n1-standard-32+V100:8/on-demand
}

// If no cloud sells the requested machine, the error suggests another request.
func ExampleNoOfferError() {
	c, err := catalog.Default()
	if err != nil {
		log.Fatal(err)
	}
	_, err = c.Find(catalog.Query{Accelerator: "V100", AcceleratorCount: 3})
	var none *catalog.NoOfferError
	if errors.As(err, &none) {
		fmt.Println(err)
		fmt.Println(none.Relaxations[0].Filter, none.Relaxations[0].Closest.AcceleratorCount)
	}
	// Output:
	// no offer has accelerators V100:3; V100:4 on azure, gcp
	// acceleratorCount 4
}

func ExampleParseOfferID() {
	id, err := catalog.ParseOfferID("aws/us-east-1/use1-az1/p3.2xlarge/spot")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(id.Zone, id.InstanceType, id.Market)
	// Output: use1-az1 p3.2xlarge spot
}
