package apitypes

import "time"

// MarketList is a list of spot markets.
type MarketList struct {
	Now     time.Time    `json:"now" doc:"The broker's clock"`
	Markets []MarketView `json:"markets" nullable:"false" doc:"Spot markets, by name"`
	Next    string       `json:"next,omitempty" doc:"Where the list goes on, if it does: after of the call that continues it"`
}

// PriceList is how some prices went.
type PriceList struct {
	Now    time.Time     `json:"now" doc:"The broker's clock"`
	Series []PriceSeries `json:"series" nullable:"false" doc:"One for each market, in the order in which they were asked for"`
}

// PriceSeries is how one price went.
type PriceSeries struct {
	Offer string      `json:"offer" doc:"The market"`
	At    []time.Time `json:"at" nullable:"false" doc:"When it changed, the oldest first"`
	USD   []float64   `json:"usd" nullable:"false" doc:"What it was from then on, USD per hour of one machine"`
}

// MarketView is what is known of one spot market.
type MarketView struct {
	Offer       string     `json:"offer" doc:"The machine and where it is, without its market: CLOUD/REGION/ZONE/TYPE"`
	USD         float64    `json:"usd,omitempty" doc:"Price now, USD per hour of one machine; absent where none was told"`
	Since       time.Time  `json:"since,omitzero" doc:"Since when it is the price"`
	SeenHours   float64    `json:"seenHours,omitempty" doc:"For how many hours its price was watched; those of a week ago count half"`
	Changes     float64    `json:"changes,omitempty" doc:"How often the price went from one band of half an octave to another in them"`
	HeldHours   float64    `json:"heldHours" doc:"Machine hours that were held there"`
	Launches    int        `json:"launches" doc:"Attempts that got machines there"`
	Preemptions int        `json:"preemptions" doc:"Of these, how many the cloud took"`
	Refusals    int        `json:"refusals" doc:"Attempts that got none there"`
	Forecast    []Forecast `json:"forecast" nullable:"false" doc:"How the price is expected to go on; empty where none was told"`
	Bids        []Bid      `json:"bids" nullable:"false" doc:"Attempts that hold machines there now, and up to what price"`
}

// Forecast is what is expected of a price some hours from now.
type Forecast struct {
	Hours float64 `json:"hours" doc:"How many hours from now"`
	USD   float64 `json:"usd" doc:"The mean that is expected, USD per hour"`
	Low   float64 `json:"low" doc:"One in ten times it is at or below this"`
	High  float64 `json:"high" doc:"Nine in ten times it is at or below this"`
}

// Bid is what an attempt on a spot market is worth to its job.
type Bid struct {
	Job     string  `json:"job" doc:"ID of the job"`
	Task    int     `json:"task" doc:"Index of the task in it"`
	Attempt int     `json:"attempt" doc:"Number of the attempt"`
	MaxUSD  float64 `json:"maxUSD" doc:"The most that is paid for an hour of one machine, USD"`
	RateUSD float64 `json:"rateUSD" doc:"What it costs now, USD"`
	Nodes   int     `json:"nodes" doc:"Number of machines"`
}
