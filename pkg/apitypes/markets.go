package apitypes

import "time"

// MarketList is a list of spot markets.
type MarketList struct {
	Now     time.Time    `json:"now" doc:"The broker's clock"`
	Markets []MarketView `json:"markets" nullable:"false" doc:"Spot markets, by name"`
	Next    string       `json:"next,omitempty" doc:"If the list is incomplete: the value of after for the next call"`
}

// PriceList is the price history of some markets.
type PriceList struct {
	Now    time.Time     `json:"now" doc:"The broker's clock"`
	Series []PriceSeries `json:"series" nullable:"false" doc:"One for each market, in the order of the request"`
}

// PriceSeries is the price history of one market.
type PriceSeries struct {
	Offer string      `json:"offer" doc:"The market"`
	At    []time.Time `json:"at" nullable:"false" doc:"When it changed, the oldest first"`
	USD   []float64   `json:"usd" nullable:"false" doc:"The price from then on, USD per hour of one machine"`
}

// MarketView has the broker's observations of one spot market.
type MarketView struct {
	Offer       string     `json:"offer" doc:"The machine and its place, without the market: CLOUD/REGION/ZONE/TYPE"`
	USD         float64    `json:"usd,omitempty" doc:"Current price, USD per hour of one machine; absent if unknown"`
	Since       time.Time  `json:"since,omitzero" doc:"Since when this has been the price"`
	SeenHours   float64    `json:"seenHours,omitempty" doc:"Hours for which the price was watched; those of a week ago count half"`
	Changes     float64    `json:"changes,omitempty" doc:"How often in these hours the price moved from one band of half an octave to another"`
	HeldHours   float64    `json:"heldHours" doc:"Machine hours that attempts held there"`
	Launches    int        `json:"launches" doc:"Attempts that got machines there"`
	Preemptions int        `json:"preemptions" doc:"Of these, attempts that the cloud preempted"`
	Refusals    int        `json:"refusals" doc:"Attempts that got no machines there"`
	Forecast    []Forecast `json:"forecast" nullable:"false" doc:"Price forecast; empty if there is none"`
	Bids        []Bid      `json:"bids" nullable:"false" doc:"Attempts that hold machines there now, and their maximum prices"`
}

// Forecast is the expected price some hours from now.
type Forecast struct {
	Hours float64 `json:"hours" doc:"Hours from now"`
	USD   float64 `json:"usd" doc:"Expected mean, USD per hour"`
	Low   float64 `json:"low" doc:"10th percentile, USD per hour"`
	High  float64 `json:"high" doc:"90th percentile, USD per hour"`
}

// Bid is the maximum price of an attempt on a spot market.
type Bid struct {
	Job     string  `json:"job" doc:"ID of the job"`
	Task    int     `json:"task" doc:"Index of the task in it"`
	Attempt int     `json:"attempt" doc:"Number of the attempt"`
	MaxUSD  float64 `json:"maxUSD" doc:"Maximum price of one machine, USD per hour"`
	RateUSD float64 `json:"rateUSD" doc:"Current price of one machine, USD per hour"`
	Nodes   int     `json:"nodes" doc:"Number of machines"`
}
