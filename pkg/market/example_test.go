package market_test

import (
	"fmt"

	"github.com/tradewind-broker/tradewind/pkg/market"
)

// The price alternates between two levels. The chain learns the probability of each change.
func ExampleLearn() {
	chain := market.Learn([]float64{0.10, 0.10, 0.30, 0.10, 0.10, 0.30, 0.10, 0.10, 0.30}, market.ChainOptions{})
	low := chain.Level(0.10, 0)
	fmt.Printf("levels %.2f; from %.2f to %.2f USD/h with probability %.2f\n", chain.USD, chain.USD[low], chain.USD[1],
		chain.P[low*len(chain.USD)+1])
	// Output: levels [0.10 0.30]; from 0.10 to 0.30 USD/h with probability 0.50
}
