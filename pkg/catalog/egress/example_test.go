package egress_test

import (
	"fmt"
	"log"

	"github.com/tradewind-broker/tradewind/pkg/catalog/egress"
)

func ExamplePrices_Matrix() {
	e, err := egress.Default()
	if err != nil {
		log.Fatal(err)
	}
	usd, hours, err := e.Matrix([]string{"aws:us-east-1", "gcp:us-central1"})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(usd)
	fmt.Printf("%.5f\n", hours)
	// Output:
	// [[0 0.09] [0.12 0]]
	// [[0.00000 0.00024] [0.00024 0.00000]]
}
