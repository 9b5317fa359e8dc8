package apitypes

import "time"

// BlockList is a list of blocked places.
type BlockList struct {
	Now    time.Time `json:"now" doc:"The broker's clock"`
	Blocks []Block   `json:"blocks" nullable:"false" doc:"What the broker does not try; an empty field matches every value"`
}

// Block is a location that the broker does not try until a given time. Empty fields match everything.
type Block struct {
	Cloud        string `json:"cloud"`
	Region       string `json:"region,omitempty"`
	Zone         string `json:"zone,omitempty"`
	InstanceType string `json:"instanceType,omitempty"`
	Family       string `json:"family,omitempty"` // of machine types, for quota
	Market       string `json:"market,omitempty"`
	// Service restricts the block to a managed service; without it, the block is about machines only.
	Service string `json:"service,omitempty"`
	// Reservation restricts the block to one reservation that cannot be used; see apitypes.Offer.
	Reservation string    `json:"reservation,omitempty"`
	Kind        string    `json:"kind"` // of the failure: a cloud.Kind
	Reason      string    `json:"reason"`
	At          time.Time `json:"at"`
	Until       time.Time `json:"until"`
	// Count is how many times in a row it was blocked; the duration doubles each time.
	Count int `json:"count"`
}
